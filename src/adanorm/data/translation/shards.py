"""Shards of a corpus in preparation, and what a process computes of one.

A shard is the JSON file `<step>.<split>.<number>.json`: some pairs of a split after a step, and what was
counted of them. It gets its name once it is whole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adanorm.config.data_sections import ParallelConfig
from adanorm.data.inspection import keys_of
from adanorm.data.translation.tokenization import Bpe, Tokenizer
from adanorm.files import write_whole

Info = dict[str, Any]
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # of fairseq's dictionaries, their ids in this order
END, UNKNOWN = SPECIAL.index("</s>"), SPECIAL.index("<unk>")


class Shard(NamedTuple):
    """A part of a split after a step, and how many pairs of the split come before it."""

    folder: Path
    step: str
    split: str
    number: int
    start: int

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"{self.step}.{self.split}.{self.number:05}.json"

    def sides(self) -> list[list[str]]:
        """Return the lines of both languages."""
        sides: list[list[str]] = json.loads(self.path.read_bytes())["sides"]
        return sides

    def once(self, compute: Callable[[], Info]) -> Info:
        """Return what was counted of the shard, now or by an earlier start; the file holds the lines, too."""
        if not self.path.exists():
            write_whole(self.path, json.dumps(compute(), ensure_ascii=False).encode())
        info: Info = json.loads(self.path.read_bytes())
        del info["sides"]
        return info


def split_words(data: ParallelConfig, raw: Shard) -> Info:
    """Split raw text into words and, for training, leave out what cleaning drops."""

    def compute() -> Info:
        pairs = zip(_tokenizers(data), raw.sides(), strict=True)
        sides = [[split(line) for line in side] for split, side in pairs]
        return _kept(sides, data, raw, cleaned=data.clean == "words")

    return raw._replace(step="words").once(compute)


def divide(data: ParallelConfig, split: str, words: Shard) -> Info:
    """Take every n-th pair of the training words out: into `valid`, and the others into `train`."""
    every = data.valid_every
    assert every is not None, "there are validation pairs otherwise"

    def compute() -> Info:
        source, target = words.sides()
        numbers = range(words.start + 1, words.start + len(source) + 1)
        chosen = [(number % every == 0) == (split == "valid") for number in numbers]
        sides = [list(compress(side, chosen)) for side in (source, target)]
        return _kept(sides, data, words, cleaned=False)

    return words._replace(step="divided", split=split).once(compute)


def vocabulary(words: Shard) -> list[Counter[str]]:
    """Return how often each word occurs on either side."""
    return [Counter(word for line in side for word in line.split(" ") if word) for side in words.sides()]


def split_subwords(data: ParallelConfig, codes: str | None, words: Shard) -> Info:
    """Split words into subwords and, for training, leave out what cleaning drops; count and digest them."""

    def compute() -> Info:
        encoding = _encoding(codes)
        sides = [[encoding.split(line) for line in side] for side in words.sides()]
        info = _kept(sides, data, words, cleaned=data.clean == "subwords")
        examples = (f"{source}\n{target}".encode() for source, target in zip(*info["sides"], strict=True))
        info["keys"] = keys_of(examples).tolist()
        info["counts"] = [Counter(word for line in side for word in line.split()) for side in info["sides"]]
        return info

    return words._replace(step="subwords").once(compute)


def ids(dictionaries: tuple[str, ...], subwords: Shard) -> list[tuple[bytes, list[int], int]]:
    """Return for each side the token ids as fairseq's files hold them, the lines' lengths and the unknowns.

    Each line has an end; the unknowns are a number.
    """
    sides = []
    for path, side in zip(dictionaries, subwords.sides(), strict=True):
        indices = _indices(path)
        lines = [[*(indices.get(word, UNKNOWN) for word in line.split()), END] for line in side]
        values = np.fromiter((index for line in lines for index in line), dictionary_type(path))
        sides.append((values.tobytes(), [len(line) for line in lines], int((values == UNKNOWN).sum())))
    return sides


def _kept(sides: list[list[str]], data: ParallelConfig, source: Shard, *, cleaned: bool) -> Info:
    info: Info = {"read": len(sides[0]), "dropped": {}}
    if cleaned and source.split == "train":
        kept, info["dropped"] = clean(*sides, longest=data.longest, ratio=data.ratio, start=source.start)
        sides = [[side[index] for index in kept] for side in sides]
    return {**info, "pairs": len(sides[0]), "sides": sides}


def clean(
    source: Sequence[str], target: Sequence[str], *, longest: int, ratio: float, start: int = 0
) -> tuple[list[int], dict[str, tuple[int, str]]]:
    """Return the indices of the pairs to keep; how many were dropped for each reason, and the first of them.

    The rules of Moses's clean-corpus-n: both sides have 1 to `longest` words, and neither has
    more than `ratio` times the other's. `start` lines come before these.
    """
    kept: list[int] = []
    dropped: dict[str, tuple[int, str]] = {}
    for index, pair in enumerate(zip(source, target, strict=True)):
        here, there = (len(side.split()) for side in pair)
        if min(here, there) > 0 and max(here, there) <= min(longest, ratio * min(here, there)):
            kept.append(index)
            continue
        reason = f"one side has over {ratio:g} times the other's words"
        if max(here, there) > longest:
            reason = f"a side is longer than {longest} words"
        if not here or not there:
            reason = "a side is empty"
        count, first = dropped.get(reason, (0, f"line {start + index + 1}, {here:,} and {there:,} words"))
        dropped[reason] = (count + 1, first)
    return kept, dropped


@cache
def _tokenizers(data: ParallelConfig) -> list[Callable[[str], str]]:
    return [Tokenizer(language, data).split for language in data.languages]


_encoding = lru_cache(1)(Bpe)


@lru_cache(2)
def _indices(path: str) -> dict[str, int]:
    """Return the ids of a dictionary as fairseq saved it."""
    listed = (line.rsplit(" ", 1)[0] for line in Path(path).read_bytes().decode().split("\n")[:-1])
    return {word: index for index, word in enumerate([*SPECIAL, *listed])}


def dictionary_type(path: str) -> type[np.generic]:
    """Return the type of a dictionary's ids in fairseq's files."""
    return np.uint16 if len(_indices(path)) < 65500 else np.int32
