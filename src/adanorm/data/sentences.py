"""Labelled sentences: RT, SST5 and any text in `label<TAB>sentence` lines."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from adanorm.config.data_sections import FULL_SIZE, TextConfig
from adanorm.config.digest import sha256
from adanorm.config.user_files import SPLITS
from adanorm.data import full_size, packed, synthetic
from adanorm.data.examples import Splits, TextExamples
from adanorm.data.fetch import fetch
from adanorm.data.inspection import inspect_labeled, too_long

PADDING, UNKNOWN = "<pad>", "<unk>"  # ids 0 and 1


class Sentence(NamedTuple):
    """A label and the words it belongs to."""

    label: str
    words: list[str]


def load_sentences(data: TextConfig) -> Splits:
    """Return the splits of the configured sentences, with a vocabulary of the training words.

    Raises ValueError for a file that is missing, corrupted or not of its format.
    """
    own = data.own_files()
    if own:
        paths = list(own.values())
        corpora = {split: read_lines(path, "\t") for split, path in own.items()}
    elif data.source in ("synthetic", FULL_SIZE):
        drawn = (synthetic if data.source == "synthetic" else full_size).sentences()
        corpora, paths = {split: [Sentence(*row) for row in rows] for split, rows in drawn.items()}, []
    elif data.source == "rt":
        paths = list(fetch("rt", data).values())
        corpora = {split: read_lines(path, " ") for split, path in zip(SPLITS, paths, strict=True)}
    elif data.source == "sst5":
        paths = list(fetch("sst5", data).values())
        corpora = read_sst(paths[0])
    else:
        raise ValueError(f"data.source={data.source!r}: text comes from rt, sst5 or synthetic")
    names = [f"{split}/{path.name}" for split, path in own.items()] or [path.name for path in paths]
    checksums = {name: sha256(path) for name, path in zip(names, paths, strict=True)}
    return encode(corpora, data, checksums)


def read_lines(path: Path, separator: str) -> list[Sentence]:
    """Return the sentences of a file of lines: a label, the separator, a sentence.

    Raises ValueError naming the file and line that is no such line or no UTF-8.
    """
    lines = packed.text_lines(path.read_bytes(), str(path))
    if not lines:
        raise ValueError(f"{path}: holds no line")
    return [_parse(line.rstrip("\r"), separator, path, number) for number, line in enumerate(lines, 1)]


def _parse(line: str, separator: str, path: Path, number: int) -> Sentence:
    label, separated, sentence = line.partition(separator)
    words = sentence.split()
    if "\0" in line:
        raise ValueError(f"{path}, line {number}: not UTF-8 (a NUL, as UTF-16 has)")
    if "\r" in line:
        raise ValueError(f"{path}, line {number}: a carriage return within a line; a line feed ends one")
    if not separated or not label.strip() or not words or (separator == "\t" and "\t" in sentence):
        name = "<TAB>" if separator == "\t" else " "
        raise ValueError(f"{path}, line {number}: expected `label{name}sentence`, found {line[:40]!r}")
    if reason := too_long(len(words)):
        raise ValueError(f"{path}, line {number}: {reason}")
    return Sentence(label.strip(), words)


_LEAF = re.compile(r"\(\d ([^()\s]+)\)")


def read_sst(path: Path) -> dict[str, list[Sentence]]:
    """Return the whole sentences of the Stanford Sentiment Treebank's three splits.

    The label is the tree's root, 0 (very negative) to 4; brackets are written as in plain text.
    """
    corpora = {}
    members = packed.zip_members(path, ["trees/train.txt", "trees/dev.txt", "trees/test.txt"])
    for split, content in zip(SPLITS, members.values(), strict=True):
        trees = [line for line in content.decode("utf-8").splitlines() if line]
        corpora[split] = [Sentence(tree[1], _plain(_LEAF.findall(tree))) for tree in trees]
    return corpora


def _plain(leaves: list[str]) -> list[str]:
    return [leaf.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/") for leaf in leaves]


def encode(corpora: dict[str, list[Sentence]], data: TextConfig, checksums: dict[str, str]) -> Splits:
    """Return the sentences as token ids; labels are sorted, words by falling count, then by name."""
    if data.lowercase:
        corpora = {
            split: [Sentence(s.label, [word.lower() for word in s.words]) for s in corpus]
            for split, corpus in corpora.items()
        }
    corpora["train"] = corpora["train"][: max(1, round(len(corpora["train"]) * data.train_fraction))]
    inspection = inspect_labeled(
        {split: (" ".join(s.words).encode() for s in corpus) for split, corpus in corpora.items()},
        {split: [s.label for s in corpus] for split, corpus in corpora.items()},
        what="sentences",
        available=sum(len(s.words) for s in corpora["train"]),
        batch=("data.batch_tokens", data.batch_tokens),
        own=bool(data.own_files()),
    )
    labels = tuple(sorted({sentence.label for sentence in corpora["train"]}))
    counts = Counter(word for sentence in corpora["train"] for word in sentence.words)
    frequent = sorted((w for w, n in counts.items() if n >= data.min_count), key=lambda w: (-counts[w], w))
    if not frequent:
        raise ValueError(f"data.min_count={data.min_count}: no word of the training data is so frequent")
    vocabulary = (PADDING, UNKNOWN, *frequent)
    label_ids = {label: index for index, label in enumerate(labels)}
    word_ids = {word: index for index, word in enumerate(vocabulary)}

    def examples(split: str) -> TextExamples:
        return TextExamples(
            [np.array([word_ids.get(word, 1) for word in s.words]) for s in corpora[split]],
            torch.tensor([label_ids[s.label] for s in corpora[split]]),
            data.batch_tokens,
        )

    train, valid, test = map(examples, SPLITS)
    return Splits(train, valid, test, labels, checksums, inspection, vocabulary)
