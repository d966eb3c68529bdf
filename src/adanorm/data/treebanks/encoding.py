"""Trees as numbers: one range of ids for words, tags and labels, and sentences as arrays of ids."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adanorm.data import packed
from adanorm.data.examples import frequent
from adanorm.data.treebanks.trees import Tree

# Words and tags begin with three ids: the empty position, the root, the unknown; labels with one:
# no label.
SPECIAL = 3
UNKNOWN = 2

Numbers = NDArray[np.integer[Any]]


class Sentences(NamedTuple):
    """S sentences in a row, n + 2 positions for n words: ids (P,) and the sentences' starts (S + 1,)."""

    words: Numbers
    tags: Numbers
    starts: Numbers


@dataclass(frozen=True)
class Vocabulary:
    """Words, tags and labels of the training trees, each by falling count; no labels if trees have none."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    lowercase: bool

    @classmethod
    def of(cls, trees: Sequence[Tree], *, lowercase: bool, min_count: int) -> Self:
        """Return the vocabulary of trees, without rare words; ValueError if only some trees have labels."""
        if len({tree.labels is None for tree in trees}) > 1:
            raise ValueError("some training trees have labels and some have none")
        words = (word.lower() if lowercase else word for tree in trees for word in tree.words)
        return cls(
            frequent(words, min_count),
            frequent((tag for tree in trees for tag in tree.tags), 1),
            frequent((label for tree in trees for label in tree.labels or ()), 1),
            lowercase,
        )

    def __len__(self) -> int:
        """Return the number of ids: those of words, then tags, then labels if there are any."""
        return (
            self.first_tag + SPECIAL + len(self.tags) + (1 + len(self.labels) if self.labels else 0)
        )

    @property
    def kinds(self) -> int:
        """The number of kinds of arcs: the labels, or 1 without labels."""
        return max(1, len(self.labels))

    @property
    def first_tag(self) -> int:
        """The first id of tags: the tag of the empty position."""
        return SPECIAL + len(self.words)

    @property
    def first_label(self) -> int:
        """The first id of labels, for words without one; 0 if the trees have no labels."""
        return self.first_tag + SPECIAL + len(self.tags) if self.labels else 0

    @cached_property
    def word_ids(self) -> dict[str, int]:
        """The id of each word of the vocabulary."""
        return {word: SPECIAL + index for index, word in enumerate(self.words)}

    def encode(self, trees: Sequence[Tree]) -> Sentences:
        """Return the ids of trees' words and tags, whatever their heads."""
        first, words, tags = self.first_tag, list[int](), list[int]()
        tag_ids = {tag: index for index, tag in enumerate(self.tags, first + SPECIAL)}
        for tree in trees:
            forms = (word.lower() for word in tree.words) if self.lowercase else tree.words
            words += (0, 1, *(self.word_ids.get(word, UNKNOWN) for word in forms))
            tags += (first, first + 1, *(tag_ids.get(tag, first + UNKNOWN) for tag in tree.tags))
        starts = np.cumsum([0, *(len(tree) + 2 for tree in trees)])
        return Sentences(np.array(words), np.array(tags), starts)

    def gold(self, trees: Sequence[Tree]) -> tuple[Numbers, Numbers]:
        """Return heads as positions, and labels numbered from 1 (1 if unknown or missing), both (P,)."""
        heads, labels = list[int](), list[int]()
        numbers = {label: number for number, label in enumerate(self.labels, 1)}
        for tree in trees:
            heads += (0, 0, *(head + 1 for head in tree.heads))
            labels += (0, 0, *(numbers.get(label, 1) for label in tree.labels or [""] * len(tree)))
        return np.array(heads), np.array(labels)


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def read_vectors(
    path: Path, word_ids: dict[str, int], dim: int, hashing: packed.Hashing | None = None
) -> dict[int, Tensor]:
    """Return vectors by word id from lines `word v1 v2 ...`; ValueError for a wrong line or no known word."""
    vectors: dict[int, Tensor] = {}
    for number, line in enumerate(packed.text_lines(packed.content(path, hashing), path.name), 1):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue  # word2vec's header: the numbers of words and dimensions
        if len(values) > dim and not _is_number(values[0]):  # a few words of GloVe have spaces
            word, *values = line.rstrip().rsplit(" ", dim)
        try:
            vector = torch.tensor([float(value) for value in values])
        except ValueError:
            raise ValueError(f"{path.name}, line {number}: not `word v1 v2 ...`") from None
        if len(vector) != dim:
            problem = f"{len(vector)} numbers, model.embedding_dim is {dim}"
            raise ValueError(f"{path.name}, line {number}: {problem}")
        if not vector.isfinite().all():
            raise ValueError(f"{path.name}, line {number}: a number that is not finite")
        if word in word_ids:
            vectors[word_ids[word]] = vector
    if not vectors:
        raise ValueError(f"{path.name}: holds no vector of a word of the training data")
    return vectors
