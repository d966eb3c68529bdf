"""Parallel corpora as they come: archives, pairs of text files, mark-up, read into aligned lines."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from adanorm.config.data_sections import FULL_SIZE, SPLITS, ParallelConfig
from adanorm.data import full_size, packed, synthetic
from adanorm.data.fetch import fetch

TOGETHER = 1000  # lines that are decoded at once, which takes a third of the time of one by one


class Lines:
    """The lines of a text, read again at each iteration: they are never all in memory."""

    def __init__(self, start: Callable[[], Iterable[str]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[str]:
        return iter(self._start())


class Input(NamedTuple):
    """A file of a corpus; where a SHA-256 is given, the file must have it at every reading."""

    path: Path
    checksum: str | None = None

    def lines(self) -> Lines:
        """Return the lines of a text."""
        return Lines(lambda: _decoded(packed.lines(self.path, checksum=self.checksum), self.path.name))

    def member(self, suffix: str) -> Lines:
        """Return the lines of the member of a tar archive whose path ends so; nothing is unpacked.

        Iterating raises ValueError naming it where the archive does not have it, or is not whole.
        """
        name = f"{self.path.name}: {suffix}"
        return Lines(lambda: _decoded(packed.member_lines(self.path, suffix, checksum=self.checksum), name))

    def members(self, pattern: str, languages: Iterable[str]) -> ParallelText:
        """Return a pair of members as aligned lines; {} in the pattern stands for the language."""
        first, second = (pattern.format(language) for language in languages)
        return aligned(self.member(first), self.member(second), (first, second))


Inputs = Mapping[str, Input]


@dataclass(frozen=True)
class ParallelText:
    """Aligned lines of two languages, the names of their files, and where they are from."""

    source: Iterable[str]
    target: Iterable[str]
    names: tuple[str, str]
    origin: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield each pair; raises ValueError where the numbers of lines differ, and where there is none."""
        sides, count = (iter(self.source), iter(self.target)), 0
        for count, pair in enumerate(zip_longest(*sides), 1):  # noqa: B007 (after the loop)
            if None in pair:
                break
            yield pair
        else:
            if count == 0:
                raise ValueError(f"{self.names[0]}: no lines")
            return
        here, there = (
            count - (line is None) + sum(1 for _ in side) for line, side in zip(pair, sides, strict=True)
        )
        raise ValueError(
            f"{self.names[0]} has {here:,} lines and {self.names[1]} has {there:,}: line i of one must"
            " be the translation of line i of the other"
        )

    def parts(self, size: int, limit: int | None = None) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the lines of `size` pairs at a time, of the first `limit` pairs.

        The rest is read to see that it aligns.
        """
        pairs = iter(self)
        taken = pairs if limit is None else islice(pairs, limit)
        while part := list(islice(taken, size)):
            source, target = zip(*part, strict=True)
            yield source, target
        deque(pairs, maxlen=0)

    def empty_lines(self) -> list[str]:
        """Return a line on the pairs that have an empty side, if any; raises ValueError where all have."""
        lines, count = [], 0
        for count, pair in enumerate(self, 1):
            if not all(map(str.strip, pair)):
                lines.append(count)
        if not lines:
            return []
        if len(lines) == count:
            raise ValueError(f"{self.origin}: every pair has an empty side: there is nothing to score")
        return [f"{self.origin}: {len(lines)} pairs with an empty side, the first in line {lines[0]}"]


def aligned(source: Iterable[str], target: Iterable[str], names: tuple[str, str]) -> ParallelText:
    """Return two files' lines as pairs."""
    return ParallelText(source, target, names, f"{names[0]}, {names[1]}")


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield lines of UTF-8 as text, without a byte order mark.

    Raises ValueError naming the line that is not, and where carriage returns end the lines.
    """
    rest, before = iter(lines), 0
    while block := b"".join(islice(rest, TOGETHER)):
        if not before and b"\r" in block.rstrip(b"\r") and b"\n" not in block:
            raise ValueError(f"{name}: its lines end in carriage returns alone; a line feed ends a line")
        yield from packed.text_lines(block, name, before=before)
        before += TOGETHER


def pair_of(source: Input, target: Input) -> ParallelText:
    """Return two text files' lines as pairs."""
    return aligned(source.lines(), target.lines(), (source.path.name, target.path.name))


def joined(parts: Sequence[ParallelText]) -> ParallelText:
    """Return the pairs of several corpora, one after the other."""
    source = Lines(lambda: (pair[0] for part in parts for pair in part))
    target = Lines(lambda: (pair[1] for part in parts for pair in part))
    first, second = (", ".join(part.names[side] for part in parts) for side in (0, 1))
    return ParallelText(source, target, (first, second), ", ".join(part.origin for part in parts))


Splits = dict[str, ParallelText]


def corpus_files(data: ParallelConfig) -> dict[str, Path]:
    """Return the files of the configured corpus by name, got and verified.

    Raises ValueError for a source that is unknown or cannot be had.
    """
    if own := data.own_files():
        return own
    if data.source in ("synthetic", FULL_SIZE):
        return {}
    if data.source not in READERS:
        known = ", ".join(sorted([*READERS, "synthetic"]))
        raise ValueError(f"data.source={data.source!r}: pairs of sentences come from {known}")
    return fetch(data.source, data)


def read_corpus(
    data: ParallelConfig, paths: Mapping[str, Path], checksums: Mapping[str, str] | None = None
) -> Splits:
    """Return the raw lines of each split of the corpus in these files; they are read when iterated over.

    `valid` is missing where it is to be taken out of the training pairs. Iterating raises ValueError for
    files that do not align or are not UTF-8, and for one whose checksum is not that of its name.
    """
    if data.source in ("synthetic", FULL_SIZE) and not data.own_files():
        drawn = synthetic.pairs() if data.source == "synthetic" else full_size.pairs(data)
        return {split: ParallelText(*lines, data.languages, data.source) for split, lines in drawn.items()}
    inputs = {name: Input(path, (checksums or {}).get(name)) for name, path in paths.items()}
    if data.own_files():
        return _texts({split: f"{split}.{{}}" for split in SPLITS}, inputs, data.languages)
    return READERS[data.source](inputs, data.languages)


_TAG = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r"<seg id=\"[^\"]*\">\s*(.*?)\s*</seg>", re.IGNORECASE)


def _marked_up(archive: Input, names: Iterable[str], *, plain: bool = True) -> Lines:
    """Return the segments of members, with plain apostrophes, as fairseq's recipes take them, or not."""

    def segments() -> Iterator[str]:
        for line in chain(*map(archive.member, names)):
            if match := _SEGMENT.search(line):
                yield match[1].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") if plain else match[1]

    return Lines(segments)


def _talks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a TED training file: talks with a little mark-up between."""
    for line in lines:
        if not any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
            yield _TAG.sub("", line)


def _iwslt14(files: Inputs, languages: tuple[str, str]) -> Splits:
    """Train and test; the classic recipe takes validation out of the cleaned training pairs."""
    archive = files["de-en.tgz"]
    parts = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

    def side(language: str) -> tuple[Lines, Lines]:
        train = Lines(partial(_talks, archive.member(f"train.tags.de-en.{language}")))
        return train, _marked_up(archive, [f"IWSLT14.{part}.de-en.{language}.xml" for part in parts])

    first, second = languages
    sides = zip(("train", "test"), side(first), side(second), strict=True)
    return {split: aligned(a, b, (f"{split}.{first}", f"{split}.{second}")) for split, a, b in sides}


def _iwslt15_30k(files: Inputs, languages: tuple[str, str]) -> Splits:
    return {
        "train": pair_of(*(files[f"train-first30k.{language}.gz"] for language in languages)),
        "valid": files["dev-2012-en-vi.tgz"].members("tst2012.{}", languages),
        "test": files["test-2013-en-vi.tgz"].members("tst2013.{}", languages),
    }


def _wmt16(files: Inputs, languages: tuple[str, str]) -> Splits:
    """Google's pre-processed corpus: words and subwords are made already."""
    names = {"train": "train.tok.clean", "valid": "newstest2013.tok", "test": "newstest2014.tok"}
    archive = files["wmt16_en_de.tar.gz"]
    return {split: archive.members(f"{name}.bpe.32000.{{}}", languages) for split, name in names.items()}


def _wmt_train(files: Inputs, languages: tuple[str, str], europarl: str, news: str) -> ParallelText:
    """Return the pairs of Europarl 7, Common Crawl and a version of News Commentary."""
    corpora = {
        "europarl-v7": europarl,
        "commoncrawl": "training-parallel-commoncrawl.tgz",
        f"news-commentary-{news}": f"training-parallel-nc-{news}.tgz",
    }
    return joined([files[file].members(f"{name}.de-en.{{}}", languages) for name, file in corpora.items()])


def _news(
    archive: Input, name: str, languages: Iterable[str], *, source: str, plain: bool = True
) -> ParallelText:
    """Return a marked-up set of news whose file of the source language is called so."""
    first, second = (f"{name}-{'src' if end == source else 'ref'}.{end}.sgm" for end in languages)
    texts = (_marked_up(archive, [first], plain=plain), _marked_up(archive, [second], plain=plain))
    return ParallelText(*texts, (first, second), f"{first}, {second}")


def _wmt16_parts(files: Inputs, languages: tuple[str, str]) -> Splits:
    """From raw text, what Google's corpus was made of."""
    # As in Google's script: the development set as text, the test set as marked up for German to English.
    return {
        "train": _wmt_train(files, languages, europarl="de-en.tgz", news="v11"),
        "valid": files["dev.tgz"].members("newstest2013.{}", languages),
        "test": _news(files["dev.tgz"], "newstest2014-deen", languages, source="de", plain=False),
    }


def _wmt14(files: Inputs, languages: tuple[str, str]) -> Splits:
    """From raw text, as in fairseq's recipe of 2014."""
    return {
        "train": _wmt_train(files, languages, europarl="training-parallel-europarl-v7.tgz", news="v9"),
        "valid": _news(files["test.tgz"], "newstest2013", languages, source=languages[0]),
        "test": _news(files["test-full.tgz"], "newstest2014-deen", languages, source=languages[0]),
    }


def _texts(patterns: dict[str, str], files: Inputs, languages: tuple[str, str]) -> Splits:
    """Return a corpus that is a file of text per split and language; {} stands for the language."""
    return {
        split: pair_of(*(files[pattern.format(language)] for language in languages))
        for split, pattern in patterns.items()
    }


READERS: dict[str, Callable[[Inputs, tuple[str, str]], Splits]] = {
    "iwslt14-de-en": _iwslt14,
    "iwslt15-en-vi": partial(_texts, {"train": "train.{}", "valid": "tst2012.{}", "test": "tst2013.{}"}),
    "iwslt15-en-vi-30k": _iwslt15_30k,
    "multi30k-de-en": partial(
        _texts, {"train": "train.{}.gz", "valid": "val.{}.gz", "test": "test_2016_flickr.{}.gz"}
    ),
    "wmt16-en-de": _wmt16,
    "wmt16-en-de-parts": _wmt16_parts,
    "wmt14-en-de": _wmt14,
    # What fairseq's recipe gives before its subwords, as harvardnlp/var-attn has it.
    "iwslt14-de-en-tokenized": partial(_texts, {"train": "train.{}", "valid": "valid.{}", "test": "test.{}"}),
}
