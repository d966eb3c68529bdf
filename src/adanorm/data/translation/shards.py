"""The steps of a preparation on one shard of pairs each: what the worker processes compute.

A shard is the pairs `<step>/<split>.<number>`: a text a language and, written last, a JSON file of what was
counted, whose presence says that the shard is finished.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adanorm.config.data_sections import ParallelConfig
from adanorm.data.inspection import Keys, keys_of
from adanorm.data.translation.cleaning import clean
from adanorm.data.translation.text import Texts
from adanorm.data.translation.tokenization import Bpe, Tokenizer

Info = dict[str, Any]
PAIRS = 25_000  # of a shard: it bounds the memory of a process
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # of fairseq's dictionaries, their ids in this order


class Shard(NamedTuple):
    """Where a shard's files are, and how many pairs come before it in its split."""

    folder: str
    split: str
    number: int
    languages: tuple[str, str]
    start: int

    def file(self, kind: str) -> Path:
        """Return the path of one of its files: a language's text, `json`, `keys`."""
        return Path(self.folder, f"{self.split}.{self.number:05}.{kind}")

    def lines(self, side: int) -> list[str]:
        """Return the lines of a language, 0 or 1."""
        return self.file(self.languages[side]).read_bytes().decode().split("\n")[:-1]

    def keys(self) -> Keys:
        """Return the digests of its pairs of subwords."""
        return np.fromfile(self.file("keys"), np.uint64)

    def info(self) -> Info | None:
        """Return what was counted, or None where the shard is not finished."""
        path = self.file("json")
        return json.loads(path.read_bytes()) if path.exists() else None

    def finish(self, sides: Sequence[Sequence[str]] | None, info: Info) -> Info:
        """Write the texts, if any, and then what was counted; return that."""
        for language, lines in zip(self.languages, sides or (), strict=False):
            _write(self.file(language), "".join(f"{line}\n" for line in lines).encode())
        _write(self.file("json"), json.dumps(info).encode())
        return info


def once(out: Shard, function: Callable[..., Info], arguments: tuple[Any, ...]) -> tuple[Info, bool]:
    """Return what was counted of a shard, and whether an earlier start had finished it."""
    found = out.info()
    return (function(out, *arguments), False) if found is None else (found, True)


def words(out: Shard, data: ParallelConfig, texts: Texts, cleaned: bool) -> Info:
    """Split raw texts into words and, for training, leave out what cleaning drops."""
    sides = [
        [split(line) for line in text.split("\n")[:-1]]
        for split, text in zip(_tokenizers(data), texts, strict=True)
    ]
    return _kept(out, data, sides, cleaned=cleaned)


def divide(out: Shard, data: ParallelConfig, source: Shard) -> Info:
    """Take every n-th pair of the training words out: into `valid`, and the others into `train`."""
    every, taken = data.valid_every, out.split == "valid"
    assert every is not None, "there are validation pairs otherwise"
    sides = [
        [
            line
            for index, line in enumerate(source.lines(side), source.start + 1)
            if (index % every == 0) == taken
        ]
        for side in (0, 1)
    ]
    return _kept(out, data, sides, cleaned=False)


def vocabulary(source: Shard) -> list[Counter[str]]:
    """Return how often each word occurs on either side."""
    return [
        Counter(word for line in source.lines(side) for word in line.split(" ") if word) for side in (0, 1)
    ]


def subwords(out: Shard, data: ParallelConfig, codes: str | None, source: Shard, cleaned: bool) -> Info:
    """Split words into subwords and, for training, leave out what cleaning drops; count and digest them."""
    encoding = _encoding(codes)
    sides = [[encoding.split(line) for line in source.lines(side)] for side in (0, 1)]
    return _kept(out, data, sides, cleaned=cleaned, counted=True)


def ids(out: Shard, dictionaries: tuple[str, str], source: Shard) -> Info:
    """Write the token ids of subwords as fairseq's files hold them, an end after each line."""
    info: Info = {"read": len(source.lines(0))}
    for side, language in enumerate(out.languages):
        indices = _indices(dictionaries[side])
        dtype, end, unknown = (
            dictionary_type(dictionaries[side]),
            SPECIAL.index("</s>"),
            SPECIAL.index("<unk>"),
        )
        lines = [[indices.get(word, unknown) for word in line.split()] for line in source.lines(side)]
        values = np.fromiter((i for line in lines for i in (*line, end)), dtype)
        _write(out.file(f"{language}.bin"), values.tobytes())
        sizes = np.array([len(line) + 1 for line in lines], np.int32)
        _write(out.file(f"{language}.sizes"), sizes.tobytes())
        info[language] = {"tokens": len(values), "unknown": int((values == unknown).sum())}
    return out.finish(None, info)


def dictionary_type(path: str) -> type[np.generic]:
    """Return the type of a dictionary's ids in fairseq's files."""
    return np.uint16 if len(_indices(path)) < 65500 else np.int32


def _kept(
    out: Shard, data: ParallelConfig, sides: list[list[str]], *, cleaned: bool, counted: bool = False
) -> Info:
    info: Info = {"read": len(sides[0]), "dropped": []}
    if cleaned:
        kept, dropped = clean(*sides, longest=data.longest, ratio=data.ratio, start=out.start)
        info["dropped"] = [[reason, n, dropped.firsts[reason]] for reason, n in dropped.counts.items()]
        sides = [[side[index] for index in kept] for side in sides]
    info["pairs"] = len(sides[0])
    if counted:
        examples = (f"{source}\n{target}".encode() for source, target in zip(*sides, strict=True))
        _write(out.file("keys"), keys_of(examples).tobytes())
        info["counts"] = [Counter(word for line in side for word in line.split()) for side in sides]
    return out.finish(sides, info)


def _write(path: Path, content: bytes) -> None:
    """Write a file that is whole once it has its name; what a power cut takes is prepared again."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


@cache
def _tokenizers(data: ParallelConfig) -> list[Any]:
    return [Tokenizer(language, data).split for language in data.languages]


@lru_cache(1)
def _encoding(codes: str | None) -> Bpe:
    return Bpe(codes)


@lru_cache(2)
def _indices(path: str) -> dict[str, int]:
    """Return the ids of a dictionary as fairseq saved it."""
    listed = (line.rsplit(" ", 1)[0] for line in Path(path).read_bytes().decode().split("\n")[:-1])
    return {word: index for index, word in enumerate([*SPECIAL, *listed])}
