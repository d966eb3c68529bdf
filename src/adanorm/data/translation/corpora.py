"""Parallel corpora as they come: archives, pairs of text files, mark-up, read into aligned lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from adanorm.config.data_sections import Parallel
from adanorm.data import packed, synthetic
from adanorm.data.fetch import fetch


class Pairs(NamedTuple):
    """Aligned lines of two languages, and where they are from."""

    source: list[str]
    target: list[str]
    origin: str


Splits = dict[str, Pairs]


def corpus_files(data: Parallel) -> dict[str, Path]:
    """Return the files of the configured corpus by name, got and verified.

    Raises ValueError for a source that is unknown or cannot be had.
    """
    if own := data.own_files():
        return own
    if data.source == "synthetic":
        return {}
    if data.source not in READERS:
        known = ", ".join(sorted([*READERS, "synthetic"]))
        raise ValueError(f"data.source={data.source!r}: pairs of sentences come from {known}")
    return fetch(data.source, data)


def read_corpus(data: Parallel, paths: dict[str, Path]) -> Splits:
    """Return the raw lines of each split of the corpus in these files.

    `valid` is missing where it is to be taken out of the training pairs. Raises ValueError for
    files that do not align or are not UTF-8.
    """
    if data.own_files():
        first, second = data.languages
        return {
            split: _pair(paths[f"{split}.{first}"], paths[f"{split}.{second}"])
            for split in ("train", "valid", "test")
        }
    if data.source == "synthetic":
        return {split: Pairs(*lines, "synthetic") for split, lines in synthetic.pairs().items()}
    return READERS[data.source](paths, data.languages)


def lines_of(content: bytes, name: str) -> list[str]:
    """Return the lines of a UTF-8 text; only a line feed ends a line.

    Raises ValueError naming the line that is not UTF-8.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def aligned(source: list[str], target: list[str], names: tuple[str, str]) -> Pairs:
    """Return two files' lines as pairs; raises ValueError where their numbers differ."""
    if len(source) != len(target):
        raise ValueError(
            f"{names[0]} has {len(source):,} lines and {names[1]} has {len(target):,}: line i of one must"
            " be the translation of line i of the other"
        )
    if not source:
        raise ValueError(f"{names[0]}: no lines")
    return Pairs(source, target, f"{names[0]}, {names[1]}")


def _pair(source: Path, target: Path) -> Pairs:
    first, second = (lines_of(packed.content(path), path.name) for path in (source, target))
    return aligned(first, second, (source.name, target.name))


class _Archive:
    """Members of a tar archive by name, read in place: nothing is unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, *suffixes: str) -> list[list[str]]:
        """Return the lines of the members whose paths end so.

        Raises ValueError naming one that the archive does not have, and where the archive is not whole.
        """
        found = packed.tar_members(self.path, suffixes)
        for suffix in suffixes:
            if suffix not in found:
                raise ValueError(f"{self.path.name}: holds no {suffix}")
        return [lines_of(found[suffix], f"{self.path.name}: {suffix}") for suffix in suffixes]

    def pairs(self, pattern: str, languages: tuple[str, str]) -> Pairs:
        """Return a pair of members as aligned lines; {} in the pattern stands for the language."""
        names = (pattern.format(languages[0]), pattern.format(languages[1]))
        first, second = self.lines(*names)
        return aligned(first, second, names)


_TAG = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r"<seg id=\"[^\"]*\">\s*(.*?)\s*</seg>", re.IGNORECASE)


def _segments(lines: list[str]) -> Iterator[str]:
    """Yield the segments of a TED or WMT test set, with plain apostrophes."""
    for line in lines:
        if found := _SEGMENT.search(line):
            yield found[1].replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _talks(lines: list[str]) -> Iterator[str]:
    """Yield the sentences of a TED training file: talks with a little mark-up between."""
    for line in lines:
        if not any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
            yield _TAG.sub("", line)


def _iwslt14(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """Train and test; the classic recipe takes validation out of the cleaned training pairs."""
    archive = _Archive(paths["de-en.tgz"])
    train = [list(_talks(lines)) for lines in archive.lines(*(f"train.tags.de-en.{x}" for x in languages))]
    parts = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    names = [f"IWSLT14.{part}.de-en.{language}.xml" for language in languages for part in parts]
    files = archive.lines(*names)
    test = [
        [s for lines in files[start : start + len(parts)] for s in _segments(lines)]
        for start in (0, len(parts))
    ]
    return {
        "train": aligned(train[0], train[1], (f"train.{languages[0]}", f"train.{languages[1]}")),
        "test": aligned(test[0], test[1], (f"test.{languages[0]}", f"test.{languages[1]}")),
    }


def _iwslt15(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    splits = {"train": "train", "valid": "tst2012", "test": "tst2013"}
    return {
        split: _pair(*(paths[f"{name}.{language}"] for language in languages))
        for split, name in splits.items()
    }


def _iwslt15_30k(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    return {
        "train": _pair(*(paths[f"train-first30k.{language}.gz"] for language in languages)),
        "valid": _Archive(paths["dev-2012-en-vi.tgz"]).pairs("tst2012.{}", languages),
        "test": _Archive(paths["test-2013-en-vi.tgz"]).pairs("tst2013.{}", languages),
    }


def _multi30k(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    splits = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    return {
        split: _pair(*(paths[f"{name}.{language}.gz"] for language in languages))
        for split, name in splits.items()
    }


def _wmt16(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """Google's pre-processed corpus: words and subwords are made already."""
    archive = _Archive(paths["wmt16_en_de.tar.gz"])
    patterns = {
        "train": "train.tok.clean.bpe.32000.{}",
        "valid": "newstest2013.tok.bpe.32000.{}",
        "test": "newstest2014.tok.bpe.32000.{}",
    }
    return {split: archive.pairs(pattern, languages) for split, pattern in patterns.items()}


def _wmt14(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """From raw text: Europarl 7, Common Crawl, News Commentary 9; newstest2013; newstest2014."""
    corpora = {
        "training-parallel-europarl-v7.tgz": "europarl-v7.de-en.{}",
        "training-parallel-commoncrawl.tgz": "commoncrawl.de-en.{}",
        "training-parallel-nc-v9.tgz": "news-commentary-v9.de-en.{}",
    }
    parts = [_Archive(paths[file]).pairs(pattern, languages) for file, pattern in corpora.items()]
    train = Pairs(
        [line for part in parts for line in part.source],
        [line for part in parts for line in part.target],
        ", ".join(corpora),
    )
    valid = _news(_Archive(paths["test.tgz"]), "newstest2013-{}.{}.sgm", languages)
    test = _news(_Archive(paths["test-full.tgz"]), "newstest2014-deen-{}.{}.sgm", languages)
    return {"train": train, "valid": valid, "test": test}


def _news(archive: _Archive, pattern: str, languages: tuple[str, str]) -> Pairs:
    names = (pattern.format("src", languages[0]), pattern.format("ref", languages[1]))
    first, second = (list(_segments(lines)) for lines in archive.lines(*names))
    return aligned(first, second, names)


READERS: dict[str, Callable[[dict[str, Path], tuple[str, str]], Splits]] = {
    "iwslt14-de-en": _iwslt14,
    "iwslt15-en-vi": _iwslt15,
    "iwslt15-en-vi-30k": _iwslt15_30k,
    "multi30k-de-en": _multi30k,
    "wmt16-en-de": _wmt16,
    "wmt14-en-de": _wmt14,
}
