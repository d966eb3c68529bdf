"""Parallel corpora as they come: archives, pairs of text files, mark-up, read into aligned lines."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from adanorm.config.data_sections import FULL_SIZE, SPLITS, ParallelConfig
from adanorm.data import packed, synthetic
from adanorm.data.fetch import fetch

TOGETHER = 1000  # lines that are decoded at once, which takes a third of the time of one by one


class Text(NamedTuple):
    """A text, whose lines are read again each time they are asked for: they are never all in memory."""

    name: str
    lines: Callable[[], Iterable[str]]


@dataclass(frozen=True)
class ParallelText:
    """Texts of two languages whose lines are aligned, one pair of texts after the other."""

    texts: Sequence[tuple[Text, Text]]

    @property
    def name(self) -> str:
        """The names of all texts."""
        return ", ".join(text.name for texts in self.texts for text in texts)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield each pair; raises ValueError where the numbers of lines differ, and where there is none."""
        for source, target in self.texts:
            count = 0
            for pair in zip_longest(source.lines(), target.lines()):
                if None in pair:
                    here, there = (sum(1 for _ in text.lines()) for text in (source, target))
                    raise ValueError(
                        f"{source.name} has {here:,} lines and {target.name} has {there:,}: line i of one"
                        " must be the translation of line i of the other"
                    )
                count += 1
                yield pair
            if count == 0:
                raise ValueError(f"{source.name}: no lines")

    def parts(self, size: int, limit: int | None = None) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield `size` pairs at a time, of the first `limit`; the rest is read to see that it aligns."""
        pairs = iter(self)
        taken = pairs if limit is None else islice(pairs, limit)
        while part := list(islice(taken, size)):
            source, target = zip(*part, strict=True)
            yield source, target
        deque(pairs, maxlen=0)


Splits = dict[str, ParallelText]


def corpus_files(data: ParallelConfig) -> dict[str, Path]:
    """Return the configured corpus's files by name, verified; raises ValueError where they cannot be had."""
    if own := data.own_files():
        return own
    if data.source in ("synthetic", FULL_SIZE):
        return {}
    if data.source not in RECIPES:
        known = ", ".join(sorted([*RECIPES, "synthetic"]))
        raise ValueError(f"data.source={data.source!r}: pairs of sentences come from {known}")
    return fetch(data.source, data)


def read_corpus(data: ParallelConfig, paths: Mapping[str, Path], checksums: Mapping[str, str]) -> Splits:
    """Return the raw lines of each split of the corpus in these files; they are read when iterated over.

    `valid` is missing where it is to be taken out of the training pairs. Iterating raises ValueError for
    files that do not align or are not UTF-8, and for one whose checksum is not that of its name.
    """
    own = data.own_files()
    first, second = data.languages
    if data.source in ("synthetic", FULL_SIZE) and not own:
        drawn = synthetic.pairs() if data.source == "synthetic" else synthetic.full_size_pairs(data)
        names = [f"{data.source}.{language}" for language in data.languages]
        return {
            split: ParallelText([(Text(names[0], source.__iter__), Text(names[1], target.__iter__))])
            for split, (source, target) in drawn.items()
        }

    def text(part: Part, language: str) -> Text:
        role, deen = ("src" if language == source else "ref" for source in (first, "de"))
        file = part.file.format(language)
        member = part.member and part.member.format(language, role=role, deen=deen)
        lines = partial(_lines, paths[file], member, checksums.get(file))
        return Text(member or paths[file].name, lambda: part.filter(lines()))

    recipe = {split: [Part(f"{split}.{{}}")] for split in SPLITS} if own else RECIPES[data.source]
    return {
        split: ParallelText([(text(part, first), text(part, second)) for part in parts])
        for split, parts in recipe.items()
    }


def _lines(path: Path, member: str | None, checksum: str | None) -> Iterator[str]:
    """Yield the lines of a text, or of a member of an archive; raises ValueError for no lines of UTF-8."""
    name = path.name if member is None else f"{path.name}: {member}"
    rest, before = packed.lines(path, member, checksum=checksum), 0
    while block := b"".join(islice(rest, TOGETHER)):
        if not before and b"\r" in block.rstrip(b"\r") and b"\n" not in block:
            raise ValueError(f"{name}: its lines end in carriage returns alone; a line feed ends a line")
        yield from packed.text_lines(block, name, before=before)
        before += TOGETHER


_TAG = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r"<seg id=\"[^\"]*\">\s*(.*?)\s*</seg>", re.IGNORECASE)


def _segments(lines: Iterable[str]) -> Iterator[str]:
    return (match[1] for line in lines if (match := _SEGMENT.search(line)))


def _plain_segments(lines: Iterable[str]) -> Iterator[str]:
    """Yield segments with plain apostrophes, as fairseq's recipes take them."""
    return (segment.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for segment in _segments(lines))


def _talks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a TED training file: talks with a little mark-up between."""
    for line in lines:
        if not any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
            yield _TAG.sub("", line)


class Part(NamedTuple):
    """A text of a corpus."""

    # In names {} is the language, {role} `src` or `ref`, and {deen} `src` for German, `ref` for English.
    file: str
    member: str | None = None  # where the file is a tar archive
    filter: Callable[[Iterable[str]], Iterable[str]] = iter  # of its lines


def _wmt_train(europarl: str, news: str) -> list[Part]:
    """Return Europarl 7, Common Crawl and a version of News Commentary."""
    return [
        Part(europarl, "europarl-v7.de-en.{}"),
        Part("training-parallel-commoncrawl.tgz", "commoncrawl.de-en.{}"),
        Part(f"training-parallel-nc-{news}.tgz", f"news-commentary-{news}.de-en.{{}}"),
    ]


def _by_split(*parts: Part) -> dict[str, list[Part]]:
    """Return training, validation and test of one part each."""
    return {split: [part] for split, part in zip(SPLITS, parts, strict=True)}


RECIPES: dict[str, dict[str, list[Part]]] = {
    # The classic recipe takes validation out of the cleaned training pairs.
    "iwslt14-de-en": {
        "train": [Part("de-en.tgz", "train.tags.de-en.{}", _talks)],
        "test": [
            Part("de-en.tgz", f"IWSLT14.{part}.de-en.{{}}.xml", _plain_segments)
            for part in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
        ],
    },
    # What fairseq's recipe gives before its subwords, as harvardnlp/var-attn has it.
    "iwslt14-de-en-tokenized": {split: [Part(f"{split}.{{}}")] for split in SPLITS},
    "iwslt15-en-vi": _by_split(Part("train.{}"), Part("tst2012.{}"), Part("tst2013.{}")),
    "iwslt15-en-vi-30k": _by_split(
        Part("train-first30k.{}.gz"),
        Part("dev-2012-en-vi.tgz", "tst2012.{}"),
        Part("test-2013-en-vi.tgz", "tst2013.{}"),
    ),
    "multi30k-de-en": _by_split(Part("train.{}.gz"), Part("val.{}.gz"), Part("test_2016_flickr.{}.gz")),
    # Google's pre-processed corpus: words and subwords are made already.
    "wmt16-en-de": _by_split(
        Part("wmt16_en_de.tar.gz", "train.tok.clean.bpe.32000.{}"),
        Part("wmt16_en_de.tar.gz", "newstest2013.tok.bpe.32000.{}"),
        Part("wmt16_en_de.tar.gz", "newstest2014.tok.bpe.32000.{}"),
    ),
    # From raw text, what Google's corpus was made of. As in Google's script: the development set as text, the
    # test set as marked up for German to English.
    "wmt16-en-de-parts": {
        "train": _wmt_train("de-en.tgz", news="v11"),
        "valid": [Part("dev.tgz", "newstest2013.{}")],
        "test": [Part("dev.tgz", "newstest2014-deen-{deen}.{}.sgm", _segments)],
    },
    # From raw text, as in fairseq's recipe of 2014.
    "wmt14-en-de": {
        "train": _wmt_train("training-parallel-europarl-v7.tgz", news="v9"),
        "valid": [Part("test.tgz", "newstest2013-{role}.{}.sgm", _plain_segments)],
        "test": [Part("test-full.tgz", "newstest2014-deen-{role}.{}.sgm", _plain_segments)],
    },
}
