"""Trees as numbers: one table of ids for words, tags and labels, and batches of sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from adanorm.data import gzipped
from adanorm.data.corpora import lines_of
from adanorm.data.trees import Tree

# What every kind of id begins with: of a position that holds nothing, of the root, of the unknown.
SPECIAL = 3
UNKNOWN = 2
SENTENCES = 1024  # encoded together


class Sentences(NamedTuple):
    """B sentences, longest first: ids (B, N) of positions nothing, root, words; and their lengths (B,)."""

    words: Tensor
    tags: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> Sentences:
        """Return the sentences on a device."""
        return Sentences(*(part.to(device) for part in self))


@dataclass(frozen=True)
class Vocabulary:
    """Words, tags and labels of the training trees, each by falling count; no labels: unlabelled."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    lowercase: bool

    @classmethod
    def of(cls, trees: Sequence[Tree], *, lowercase: bool, min_count: int) -> Vocabulary:
        """Return the vocabulary of trees; words rarer than `min_count` are unknown.

        Raises ValueError where some trees have labels and some have none.
        """
        if len({tree.labels is None for tree in trees}) > 1:
            raise ValueError("some training trees have labels and some have none")
        written = (word.lower() if lowercase else word for tree in trees for word in tree.words)
        return cls(
            _frequent(written, min_count),
            _frequent((tag for tree in trees for tag in tree.tags), 1),
            _frequent((label for tree in trees for label in tree.labels or ()), 1),
            lowercase,
        )

    def __len__(self) -> int:
        """Return the number of ids: words, then tags, then labels if there are any."""
        return self.first_label + (1 + len(self.labels) if self.labels else 0)

    @property
    def first_tag(self) -> int:
        """The id of the tag of nothing."""
        return SPECIAL + len(self.words)

    @property
    def first_label(self) -> int:
        """The id of the label of what has none."""
        return self.first_tag + SPECIAL + len(self.tags)

    @cached_property
    def word_ids(self) -> dict[str, int]:
        """The id of each known word."""
        return {word: SPECIAL + index for index, word in enumerate(self.words)}

    @cached_property
    def _tag_ids(self) -> dict[str, int]:
        return {tag: self.first_tag + SPECIAL + index for index, tag in enumerate(self.tags)}

    @cached_property
    def _label_numbers(self) -> dict[str, int]:
        return {label: 1 + index for index, label in enumerate(self.labels)}

    def encode(self, trees: Sequence[Tree]) -> Sentences:
        """Return the words and tags of trees, which must come longest first."""
        lengths = [len(tree) for tree in trees]
        assert lengths == sorted(lengths, reverse=True), "longest first"
        words = np.zeros((len(trees), lengths[0] + 2), dtype=np.int64)
        tags = np.full_like(words, self.first_tag)
        words[:, 1], tags[:, 1] = 1, self.first_tag + 1
        unknown_tag = self.first_tag + UNKNOWN
        for row, tree in enumerate(trees):
            written = (word.lower() for word in tree.words) if self.lowercase else tree.words
            inside = slice(2, 2 + len(tree))
            words[row, inside] = [self.word_ids.get(word, UNKNOWN) for word in written]
            tags[row, inside] = [self._tag_ids.get(tag, unknown_tag) for tag in tree.tags]
        return Sentences(torch.from_numpy(words), torch.from_numpy(tags), torch.tensor(lengths))

    def gold(self, trees: Sequence[Tree]) -> tuple[Tensor, Tensor]:
        """Return the heads of trees, longest first, as positions, and label numbers from 1; (B, N) each.

        Without labels every number is 1. Labels that training has not seen count as the first.
        """
        heads = np.zeros((len(trees), len(trees[0]) + 2), dtype=np.int64)
        labels = np.zeros_like(heads)
        for row, tree in enumerate(trees):
            inside = slice(2, 2 + len(tree))
            heads[row, inside] = np.asarray(tree.heads) + 1
            labels[row, inside] = [self._label_numbers.get(label, 1) for label in tree.labels or ()] or 1
        return torch.from_numpy(heads), torch.from_numpy(labels)


def _frequent(entries: Iterable[str], min_count: int) -> tuple[str, ...]:
    counts = Counter(entries)
    kept = (entry for entry, count in counts.items() if count >= min_count)
    return tuple(sorted(kept, key=lambda entry: (-counts[entry], entry)))


def longest_first(trees: Sequence[Tree]) -> Iterator[list[int]]:
    """Yield the indices of trees of about one length, longest first, SENTENCES at a time."""
    order = sorted(range(len(trees)), key=lambda index: -len(trees[index]))
    for start in range(0, len(order), SENTENCES):
        yield order[start : start + SENTENCES]


def read_vectors(path: Path, wanted: dict[str, int], dim: int) -> dict[int, Tensor]:
    """Return the vectors of wanted words by id, from lines `word v1 v2 ...`, as word2vec and GloVe write.

    Raises ValueError naming the line that has not `dim` numbers.
    """
    found: dict[int, Tensor] = {}
    for number, line in enumerate(lines_of(gzipped.content(path), path.name), 1):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue  # word2vec's header: words and dimensions
        try:
            vector = torch.tensor([float(value) for value in values])
        except ValueError:
            raise ValueError(f"{path.name}, line {number}: not `word v1 v2 ...`") from None
        if len(vector) != dim:
            raise ValueError(
                f"{path.name}, line {number}: {len(vector)} numbers, model.embedding_dim is {dim}"
            )
        if word in wanted:
            found[wanted[word]] = vector
    return found
