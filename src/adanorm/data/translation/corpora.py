"""Parallel corpora as they come: archives, pairs of text files, mark-up, read into aligned lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from adanorm.config.data_sections import ParallelConfig
from adanorm.data import full_size, synthetic
from adanorm.data.fetch import fetch
from adanorm.data.translation.text import Archive, Lines, Pairs, aligned, joined, pair_of

Splits = dict[str, Pairs]


def corpus_files(data: ParallelConfig) -> dict[str, Path]:
    """Return the files of the configured corpus by name, got and verified.

    Raises ValueError for a source that is unknown or cannot be had.
    """
    if own := data.own_files():
        return own
    if data.source in ("synthetic", full_size.FULL_SIZE):
        return {}
    if data.source not in READERS:
        known = ", ".join(sorted([*READERS, "synthetic"]))
        raise ValueError(f"data.source={data.source!r}: pairs of sentences come from {known}")
    return fetch(data.source, data)


def read_corpus(data: ParallelConfig, paths: dict[str, Path]) -> Splits:
    """Return the raw lines of each split of the corpus in these files; they are read when iterated over.

    `valid` is missing where it is to be taken out of the training pairs. Iterating raises ValueError for
    files that do not align or are not UTF-8.
    """
    if data.own_files():
        first, second = data.languages
        return {
            split: pair_of(paths[f"{split}.{first}"], paths[f"{split}.{second}"])
            for split in ("train", "valid", "test")
        }
    if data.source in ("synthetic", full_size.FULL_SIZE):
        drawn = synthetic.pairs() if data.source == "synthetic" else full_size.pairs(data)
        return {split: Pairs(*lines, data.languages, data.source) for split, lines in drawn.items()}
    return READERS[data.source](paths, data.languages)


_TAG = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r"<seg id=\"[^\"]*\">\s*(.*?)\s*</seg>", re.IGNORECASE)


def _segments(lines: Iterable[str]) -> Iterator[str]:
    """Yield the segments of a TED or WMT test set."""
    for line in lines:
        if found := _SEGMENT.search(line):
            yield found[1]


def _plain_apostrophes(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with plain apostrophes, as fairseq's recipes take them."""
    return (line.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for line in lines)


def _talks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a TED training file: talks with a little mark-up between."""
    for line in lines:
        if not any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
            yield _TAG.sub("", line)


def _iwslt14(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """Train and test; the classic recipe takes validation out of the cleaned training pairs."""
    archive = Archive(paths["de-en.tgz"])
    parts = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")

    def train(language: str) -> Lines:
        return Lines(lambda: _talks(archive.lines(f"train.tags.de-en.{language}")))

    def test(language: str) -> Lines:
        names = [f"IWSLT14.{part}.de-en.{language}.xml" for part in parts]
        return Lines(lambda: _plain_apostrophes(chain(*(_segments(archive.lines(name)) for name in names))))

    first, second = languages
    return {
        "train": aligned(train(first), train(second), (f"train.{first}", f"train.{second}")),
        "test": aligned(test(first), test(second), (f"test.{first}", f"test.{second}")),
    }


def _iwslt14_tokenized(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """What fairseq's recipe gives before its subwords, as harvardnlp/var-attn has it."""
    return {
        split: pair_of(*(paths[f"{split}.{language}"] for language in languages))
        for split in ("train", "valid", "test")
    }


def _iwslt15(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    splits = {"train": "train", "valid": "tst2012", "test": "tst2013"}
    return {
        split: pair_of(*(paths[f"{name}.{language}"] for language in languages))
        for split, name in splits.items()
    }


def _iwslt15_30k(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    return {
        "train": pair_of(*(paths[f"train-first30k.{language}.gz"] for language in languages)),
        "valid": Archive(paths["dev-2012-en-vi.tgz"]).pairs("tst2012.{}", languages),
        "test": Archive(paths["test-2013-en-vi.tgz"]).pairs("tst2013.{}", languages),
    }


def _multi30k(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    splits = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    return {
        split: pair_of(*(paths[f"{name}.{language}.gz"] for language in languages))
        for split, name in splits.items()
    }


def _wmt16(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """Google's pre-processed corpus: words and subwords are made already."""
    archive = Archive(paths["wmt16_en_de.tar.gz"])
    patterns = {
        "train": "train.tok.clean.bpe.32000.{}",
        "valid": "newstest2013.tok.bpe.32000.{}",
        "test": "newstest2014.tok.bpe.32000.{}",
    }
    return {split: archive.pairs(pattern, languages) for split, pattern in patterns.items()}


def _wmt16_parts(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """From raw text, what Google's corpus was made of: Europarl 7, Common Crawl, News Commentary 11."""
    corpora = {
        "de-en.tgz": "europarl-v7.de-en.{}",
        "training-parallel-commoncrawl.tgz": "commoncrawl.de-en.{}",
        "training-parallel-nc-v11.tgz": "news-commentary-v11.de-en.{}",
    }
    news = Archive(paths["dev.tgz"])
    # As in Google's script: the development set as text, the test set as marked up for German to English.
    names = {"de": "newstest2014-deen-src.de.sgm", "en": "newstest2014-deen-ref.en.sgm"}
    first, second = (names[language] for language in languages)
    return {
        "train": joined([Archive(paths[file]).pairs(form, languages) for file, form in corpora.items()]),
        "valid": news.pairs("newstest2013.{}", languages),
        "test": aligned(
            Lines(lambda: _segments(news.lines(first))),
            Lines(lambda: _segments(news.lines(second))),
            (first, second),
        ),
    }


def _wmt14(paths: dict[str, Path], languages: tuple[str, str]) -> Splits:
    """From raw text: Europarl 7, Common Crawl, News Commentary 9; newstest2013; newstest2014."""
    corpora = {
        "training-parallel-europarl-v7.tgz": "europarl-v7.de-en.{}",
        "training-parallel-commoncrawl.tgz": "commoncrawl.de-en.{}",
        "training-parallel-nc-v9.tgz": "news-commentary-v9.de-en.{}",
    }
    return {
        "train": joined([Archive(paths[file]).pairs(form, languages) for file, form in corpora.items()]),
        "valid": _news(Archive(paths["test.tgz"]), "newstest2013-{}.{}.sgm", languages),
        "test": _news(Archive(paths["test-full.tgz"]), "newstest2014-deen-{}.{}.sgm", languages),
    }


def _news(archive: Archive, pattern: str, languages: tuple[str, str]) -> Pairs:
    first, second = pattern.format("src", languages[0]), pattern.format("ref", languages[1])
    return aligned(
        Lines(lambda: _plain_apostrophes(_segments(archive.lines(first)))),
        Lines(lambda: _plain_apostrophes(_segments(archive.lines(second)))),
        (first, second),
    )


READERS: dict[str, Callable[[dict[str, Path], tuple[str, str]], Splits]] = {
    "iwslt14-de-en": _iwslt14,
    "iwslt15-en-vi": _iwslt15,
    "iwslt15-en-vi-30k": _iwslt15_30k,
    "multi30k-de-en": _multi30k,
    "wmt16-en-de": _wmt16,
    "wmt16-en-de-parts": _wmt16_parts,
    "wmt14-en-de": _wmt14,
    "iwslt14-de-en-tokenized": _iwslt14_tokenized,
}
