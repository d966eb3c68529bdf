"""Labelled sentences: RT, SST5 and any text with lines `label<TAB>sentence`."""

import hashlib
import re
from itertools import chain
from pathlib import Path

import numpy as np
import torch

from adanorm.config.data_sections import FULL_SIZE, SPLITS, TextConfig
from adanorm.data import packed, synthetic
from adanorm.data.examples import Splits, TextExamples, drawn_by_label
from adanorm.data.fetch import fetch
from adanorm.data.inspection import batch_warnings, frequent, inspect_labeled, too_long

PADDING, UNKNOWN = "<pad>", "<unk>"  # ids 0 and 1
Sentence = tuple[str, list[str]]  # a label and its words


def load_sentences(data: TextConfig) -> Splits:
    """Return the configured sentences as examples.

    Raises ValueError for a file that is missing or unfit.
    """
    checksums, corpora = {}, {}
    own_files = data.own_files()
    if own_files or data.source == "rt":
        separator = "\t" if own_files else " "
        files = own_files or dict(
            zip(
                SPLITS,
                fetch("rt", data).values(),
                strict=True,
            )
        )
        for split, path in files.items():
            content = path.read_bytes()
            name = f"{split}/{path.name}" if own_files else path.name
            checksums[name] = hashlib.sha256(content).hexdigest()
            corpora[split] = read_lines(
                content,
                str(path),
                separator,
            )
    elif data.source == "synthetic":
        corpora = synthetic.sentences()
    elif data.source == FULL_SIZE:
        corpora = synthetic.full_size_sentences()
    elif data.source == "sst5":
        (path,) = fetch("sst5", data).values()
        corpora, checksum = read_sst(path)
        checksums[path.name] = checksum
    else:
        raise ValueError(f"data.source={data.source!r}: text comes from rt, sst5 or synthetic")
    return encode(corpora, data, checksums)


def read_lines(content: bytes, name: str, separator: str) -> list[Sentence]:
    """Return the sentences of lines `label, separator, sentence`.

    Raises ValueError naming a wrong line.
    """
    lines = packed.text_lines(content, name)
    if not lines:
        raise ValueError(f"{name}: holds no line")
    return [
        _parse(
            line.rstrip("\r"),
            separator,
            f"{name}, line {n}",
        )
        for n, line in enumerate(lines, 1)
    ]


def _parse(line: str, separator: str, name: str) -> Sentence:
    label, delimiter, sentence = line.partition(separator)
    words = sentence.split()
    if "\0" in line:
        raise ValueError(f"{name}: not UTF-8 (a NUL, as UTF-16 has)")
    if "\r" in line:
        raise ValueError(f"{name}: a carriage return within a line; a line feed ends one")
    if not delimiter or not label.strip() or not words or (separator == "\t" and "\t" in sentence):
        gap = "<TAB>" if separator == "\t" else " "
        raise ValueError(f"{name}: expected `label{gap}sentence`, found {line[:40]!r}")
    if reason := too_long(len(words)):
        raise ValueError(f"{name}: {reason}")
    return label.strip(), words


_LEAF = re.compile(r"\(\d ([^()\s]+)\)")


def read_sst(path: Path) -> tuple[dict[str, list[Sentence]], str]:
    """Return SST's sentences by split, labelled 0 to 4 as the tree's root, and the file's SHA-256."""
    names = ["trees/train.txt", "trees/dev.txt", "trees/test.txt"]
    members, checksum = packed.zip_members(path, names)
    corpora: dict[str, list[Sentence]] = {}
    for split, name in zip(
        SPLITS,
        names,
        strict=True,
    ):
        corpora[split] = []
        for tree in members[name].decode("utf-8").splitlines():
            if tree:
                words = [_plain(leaf) for leaf in _LEAF.findall(tree)]
                corpora[split].append((tree[1], words))
    return corpora, checksum


def _plain(leaf: str) -> str:
    return leaf.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/")


def encode(
    corpora: dict[str, list[Sentence]], data: TextConfig, checksums: dict[str, str]
) -> Splits:
    """Return sentences as token ids, with labels sorted and words by falling count.

    No sentence becomes empty.
    """
    train = corpora["train"]
    train_size = max(1, round(len(train) * data.train_fraction))
    chosen = np.arange(train_size)
    if data.draws_parts:
        chosen = drawn_by_label([label for label, _ in train], train_size)
    corpora = {**corpora, "train": [train[index] for index in chosen]}
    words = {}
    labels = {}
    for split, part in corpora.items():
        words[split] = [_cleaned(sentence, data) for _, sentence in part]
        labels[split] = [label for label, _ in part]
    all_words = [*chain.from_iterable(words["train"])]
    kind = "sentences"
    if data.train_fraction != 1:
        kind = f"sentences (data.train_fraction={data.train_fraction})"
    inspection = inspect_labeled(
        {split: map(_as_bytes, part) for split, part in words.items()},
        labels,
        kind=kind,
        remarks=batch_warnings(
            len(all_words),
            "data.batch_tokens",
            data.batch_tokens,
        ),
    )
    names = tuple(sorted({*labels["train"]}))
    frequent_words = frequent(all_words, data.min_count)
    if not frequent_words:
        raise ValueError(
            f"data.min_count={data.min_count}: no word of the training data is so frequent"
        )
    vocabulary = (PADDING, UNKNOWN, *frequent_words)
    label_ids = {label: index for index, label in enumerate(names)}
    word_ids = {word: index for index, word in enumerate(vocabulary)}
    splits = {}
    for split, part_words in words.items():
        ids = []
        for sentence in part_words:
            ids.append(np.array([word_ids.get(word, 1) for word in sentence]))
        targets = torch.tensor([label_ids[label] for label in labels[split]])
        splits[split] = TextExamples(ids, targets, data.batch_tokens)
    return Splits(splits, names, checksums, inspection, vocabulary)


def _cleaned(words: list[str], data: TextConfig) -> list[str]:
    if data.words == "alphanumeric":
        words = re.findall(r"\w+", " ".join(words)) or words
    return [word.lower() for word in words] if data.lowercase else words


def _as_bytes(words: list[str]) -> bytes:
    return " ".join(words).encode()
