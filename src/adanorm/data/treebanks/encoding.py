"""Trees as numbers: one range of ids for words, tags and labels, and sentences as arrays of ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from adanorm.data import packed
from adanorm.data.inspection import frequent
from adanorm.data.treebanks.trees import Tree

# Words and tags begin with three ids: the empty position, the root, the unknown; labels with one:
# no label.
SPECIAL = 3
UNKNOWN = 2

Numbers = NDArray[np.integer[Any]]


class Sentences(NamedTuple):
    """S sentences in a row, n + 2 positions for n words: ids (P,) and sentences' starts (S + 1,)."""

    words: Numbers
    tags: Numbers
    starts: Numbers


@dataclass(frozen=True)
class Vocabulary:
    """Words, tags and labels of the training trees, each by falling count.

    No labels if trees have none.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    labels: tuple[str, ...]
    lowercase: bool

    @classmethod
    def of(cls, trees: Sequence[Tree], *, lowercase: bool, min_count: int) -> Self:
        """Return the vocabulary of trees, without rare words.

        Raises ValueError if only some trees have labels.
        """
        if len({tree.labels is None for tree in trees}) > 1:
            raise ValueError("some training trees have labels and some have none")
        words = chain.from_iterable(_forms(tree, lowercase=lowercase) for tree in trees)
        tags = chain.from_iterable(tree.tags for tree in trees)
        labels = chain.from_iterable(tree.labels or () for tree in trees)
        return cls(
            frequent(words, min_count),
            frequent(tags, 1),
            frequent(labels, 1),
            lowercase,
        )

    def __len__(self) -> int:
        """Return the number of ids: those of words, then tags, then labels if there are any."""
        count = self.first_tag + SPECIAL + len(self.tags)
        return count + 1 + len(self.labels) if self.labels else count

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
        tag_ids = {tag: index for index, tag in enumerate(self.tags, self.first_tag + SPECIAL)}
        unknown_tag = self.first_tag + UNKNOWN
        words: list[int] = []
        tags: list[int] = []
        starts = [0]
        for tree in trees:
            words += (0, 1)
            for form in _forms(tree, lowercase=self.lowercase):
                words.append(self.word_ids.get(form, UNKNOWN))
            tags += (self.first_tag, self.first_tag + 1)
            for tag in tree.tags:
                tags.append(tag_ids.get(tag, unknown_tag))
            starts.append(len(words))
        return Sentences(
            np.array(words),
            np.array(tags),
            np.array(starts),
        )

    def gold(self, trees: Sequence[Tree]) -> tuple[Numbers, Numbers]:
        """Return heads as positions and labels numbered from 1, both (P,).

        Without labels every number is 1; a label that training has not seen counts as the first.
        """
        numbers = {label: number for number, label in enumerate(self.labels, 1)}
        heads: list[int] = []
        labels: list[int] = []
        for tree in trees:
            heads += (0, 0)
            labels += (0, 0)
            for head in tree.heads:
                heads.append(head + 1)
            for label in tree.labels or [""] * len(tree):
                labels.append(numbers.get(label, 1))
        return np.array(heads), np.array(labels)


def _forms(tree: Tree, *, lowercase: bool) -> Sequence[str]:
    return [word.lower() for word in tree.words] if lowercase else tree.words


def read_vectors(path: Path, word_ids: dict[str, int], dim: int) -> tuple[dict[int, Tensor], str]:
    """Return vectors (dim,) by word id from lines `word v1 v2 ...`, and the file's SHA-256.

    Raises ValueError for a wrong line, and where no word is known.
    """
    vectors = {}
    content, checksum = packed.content(path)
    for number, line in enumerate(packed.text_lines(content, path.name), 1):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue  # word2vec's header: the numbers of words and dimensions
        if len(values) > dim and not _is_number(values[0]):  # a few words of GloVe have spaces
            word, *values = line.rstrip().rsplit(" ", dim)
        try:
            vector = _vector(values, dim)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: {error}") from None
        if word in word_ids:
            vectors[word_ids[word]] = vector
    if not vectors:
        raise ValueError(f"{path.name}: holds no vector of a word of the training data")
    return vectors, checksum


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _vector(values: Sequence[str], dim: int) -> Tensor:
    try:
        vector = torch.tensor([float(value) for value in values])
    except ValueError:
        raise ValueError("not `word v1 v2 ...`") from None
    if len(vector) != dim:
        raise ValueError(f"{len(vector)} numbers, model.embedding_dim is {dim}")
    if not vector.isfinite().all():
        raise ValueError("a number that is not finite")
    return vector
