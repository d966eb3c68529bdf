"""Labelled sentences: RT, SST5 and any text with lines `label<TAB>sentence`."""

import hashlib
import re
from pathlib import Path

import numpy as np
import torch

from adanorm.config.data_sections import FULL_SIZE, SPLITS, TextConfig
from adanorm.data import packed, synthetic
from adanorm.data.examples import LabelledExamples, Splits, TextExamples, frequent
from adanorm.data.fetch import fetch
from adanorm.data.inspection import batch_warnings, inspect_labeled, too_long

PADDING, UNKNOWN = "<pad>", "<unk>"  # ids 0 and 1
Sentence = tuple[str, list[str]]  # a label and its words


def load_sentences(data: TextConfig) -> Splits:
    """Return the configured sentences as examples; raises ValueError for a file that is missing or unfit."""
    own, checksums = data.own_files(), {}
    if own or data.source == "rt":
        files = own or dict(zip(SPLITS, fetch("rt", data).values(), strict=True))
        corpora, separator = {}, "\t" if own else " "
        for split, path in files.items():
            content = path.read_bytes()
            checksums[f"{split}/{path.name}" if own else path.name] = hashlib.sha256(
                content
            ).hexdigest()
            corpora[split] = read_lines(content, str(path), separator)
    elif data.source in ("synthetic", FULL_SIZE):
        corpora = (
            synthetic.sentences() if data.source == "synthetic" else synthetic.full_size_sentences()
        )
    elif data.source == "sst5":
        (path,) = fetch("sst5", data).values()
        corpora, checksums = read_sst(path)
    else:
        raise ValueError(f"data.source={data.source!r}: text comes from rt, sst5 or synthetic")
    return encode(corpora, data, checksums)


def read_lines(content: bytes, name: str, separator: str) -> list[Sentence]:
    """Return the sentences of lines `label, separator, sentence`; raises ValueError naming a wrong line."""
    lines = packed.text_lines(content, name)
    if not lines:
        raise ValueError(f"{name}: holds no line")
    return [
        _parse(line.rstrip("\r"), separator, f"{name}, line {n}") for n, line in enumerate(lines, 1)
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


def read_sst(path: Path) -> tuple[dict[str, list[Sentence]], dict[str, str]]:
    """Return SST's sentences by split, with the label 0 to 4 of the tree's root, and the file's checksum."""
    corpora, digest = {}, hashlib.sha256()
    names = ["trees/train.txt", "trees/dev.txt", "trees/test.txt"]
    members = packed.zip_members(path, names, digest.update)
    for split, content in zip(SPLITS, members.values(), strict=True):
        trees = [line for line in content.decode("utf-8").splitlines() if line]
        corpora[split] = [(tree[1], list(map(_plain, _LEAF.findall(tree)))) for tree in trees]
    return corpora, {path.name: digest.hexdigest()}


def _plain(leaf: str) -> str:
    return leaf.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/")


def encode(
    corpora: dict[str, list[Sentence]], data: TextConfig, checksums: dict[str, str]
) -> Splits:
    """Return sentences as token ids, with labels sorted and words by falling count; none becomes empty."""

    def clean(words: list[str]) -> list[str]:
        if data.words == "alphanumeric":
            words = re.findall(r"\w+", " ".join(words)) or words
        return [word.lower() for word in words] if data.lowercase else words

    corpora = {
        split: [(label, clean(words)) for label, words in part] for split, part in corpora.items()
    }
    fraction = data.train_fraction
    corpora["train"] = corpora["train"][: max(1, round(len(corpora["train"]) * fraction))]
    tokens = sum(len(words) for _, words in corpora["train"])
    inspection = inspect_labeled(
        {split: (" ".join(words).encode() for _, words in part) for split, part in corpora.items()},
        {split: [label for label, _ in part] for split, part in corpora.items()},
        kind="sentences" if fraction == 1 else f"sentences (data.train_fraction={fraction})",
        others=batch_warnings(tokens, "data.batch_tokens", data.batch_tokens),
    )
    labels = tuple(sorted({label for label, _ in corpora["train"]}))
    frequent_words = frequent(
        (word for _, words in corpora["train"] for word in words), data.min_count
    )
    if not frequent_words:
        raise ValueError(
            f"data.min_count={data.min_count}: no word of the training data is so frequent"
        )
    vocabulary = (PADDING, UNKNOWN, *frequent_words)
    label_ids = {label: index for index, label in enumerate(labels)}
    word_ids = {word: index for index, word in enumerate(vocabulary)}

    splits: dict[str, LabelledExamples] = {
        split: TextExamples(
            [np.array([word_ids.get(word, 1) for word in words]) for _, words in part],
            torch.tensor([label_ids[label] for label, _ in part]),
            data.batch_tokens,
        )
        for split, part in corpora.items()
    }
    return Splits(splits, labels, checksums, inspection, vocabulary)
