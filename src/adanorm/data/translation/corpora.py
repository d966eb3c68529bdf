"""Raw parallel corpora: archives, pairs of text files and mark-up, read into aligned lines."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from adanorm.config.data_sections import FULL_SIZE, SPLITS, ParallelConfig
from adanorm.data import packed, synthetic
from adanorm.data.fetch import fetch
from adanorm.data.translation.free_corpora import Pair, name_in, talks_and_news, tatoeba

TOGETHER = 1000  # lines decoded at once: a third of the time of one by one
# The sources of English and Vietnamese; all others are of English and German.
VIETNAMESE = ("iwslt15-en-vi", "iwslt15-en-vi-30k", "en-vi-50k", "alt-8k")


class Text(NamedTuple):
    """A text whose lines are read anew at each call of `lines`, so they are never all in memory."""

    name: str
    lines: Callable[[], Iterable[str]]


@dataclass(frozen=True)
class ParallelText:
    """Pairs of texts in two languages with aligned lines, read one pair of texts after another."""

    texts: Sequence[tuple[Text, Text]]

    @property
    def name(self) -> str:
        """The names of all texts, separated by commas."""
        return ", ".join(text.name for texts in self.texts for text in texts)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of lines.

        Raises ValueError where numbers of lines differ or a text is empty.
        """
        for source, target in self.texts:
            pair = None
            for pair in zip_longest(source.lines(), target.lines()):
                if None in pair:
                    first = sum(1 for _ in source.lines())
                    second = sum(1 for _ in target.lines())
                    raise ValueError(
                        f"{source.name} has {first:,} lines and {target.name} has {second:,}:"
                        " line i of one must be the translation of line i of the other"
                    )
                yield pair
            if pair is None:
                raise ValueError(f"{source.name}: no lines")

    def parts(
        self, size: int, limit: int | None = None, *, spread: bool = False
    ) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Yield the first `limit` pairs, or as many at equal distances, `size` at a time.

        The rest is read to check that it aligns.
        """
        pairs = iter(self)
        limited = pairs if limit is None else islice(pairs, limit)
        if limit is not None and spread:
            limited = self._spread(limit)
        while part := list(islice(limited, size)):
            source, target = zip(*part, strict=True)
            yield source, target
        deque(pairs, maxlen=0)

    def _spread(self, limit: int) -> Iterator[tuple[str, str]]:
        """Yield `limit` pairs, or all if there are fewer, at equal distances."""
        count = sum(1 for _ in self)
        taken = min(limit, count)
        for number, pair in enumerate(self):
            if (number + 1) * taken // count > number * taken // count:
                yield pair


class Part(NamedTuple):
    """A text of a corpus."""

    # In names, {} is the language, {role} is `src` or `ref`, {deen} is `src` for German, `ref` for
    # English.
    file: str
    member: str | None = None  # of a tar archive
    filter: Callable[[Iterable[str]], Iterable[str]] = iter  # applied to its lines


Splits = dict[str, ParallelText]
Recipe = dict[str, list[Part]]  # the parts of each split


def corpus_files(data: ParallelConfig) -> dict[str, Path]:
    """Return the verified files of the configured corpus by name.

    Raises ValueError where one cannot be had, or the corpus is of other languages.
    """
    if files := data.own_files():
        return files
    if data.source in ("synthetic", FULL_SIZE):
        return {}
    if data.source not in (*RECIPES, *IN_MEMORY):
        sources = ", ".join(sorted([*RECIPES, *IN_MEMORY, "synthetic"]))
        raise ValueError(f"data.source={data.source!r}: pairs of sentences come from {sources}")
    other = "vi" if data.source in VIETNAMESE else "de"
    if {*data.languages} != {"en", other}:
        languages = " and ".join(data.languages)
        raise ValueError(f"data.source={data.source}: holds en and {other}, not {languages}")
    return fetch(data.source, data)


def read_corpus(
    data: ParallelConfig, paths: Mapping[str, Path], checksums: Mapping[str, str]
) -> Splits:
    """Return the raw lines of each split of a corpus, read from its files on iteration.

    `valid` is missing where the training pairs are to be split. Iterating raises ValueError for
    files that do not align or are not UTF-8, and for a file whose SHA-256 is not the one under its
    name in `checksums`.
    """
    if data.source in IN_MEMORY and not data.own_files():
        return _in_memory(data.source, data.languages, IN_MEMORY[data.source](paths))
    if data.own_files():
        recipe = _named_by_split()
    elif data.source == "synthetic":
        return _made_up(data, synthetic.pairs())
    elif data.source == FULL_SIZE:
        return _made_up(data, synthetic.full_size_pairs(data))
    else:
        recipe = RECIPES[data.source]
    splits = {}
    for split, parts in recipe.items():
        texts = []
        for part in parts:
            source, target = (
                _text(
                    part,
                    data.languages,
                    side,
                    paths,
                    checksums,
                )
                for side in (0, 1)
            )
            texts.append((source, target))
        splits[split] = ParallelText(texts)
    return splits


def _in_memory(name: str, languages: Sequence[str], splits: Mapping[str, Sequence[Pair]]) -> Splits:
    """Return pairs as texts in the languages' order; English is the first of a pair."""
    texts = {}
    for split, pairs in splits.items():
        sides = []
        for language in languages:
            side = 0 if language == "en" else 1
            sentences = [pair[side] for pair in pairs]
            sides.append(Text(f"{name}, {split}.{language}", sentences.__iter__))
        source, target = sides
        texts[split] = ParallelText([(source, target)])
    return texts


def _made_up(data: ParallelConfig, sides: dict[str, synthetic.Sides]) -> Splits:
    first, second = (f"{data.source}.{language}" for language in data.languages)
    splits = {}
    for split, (source, target) in sides.items():
        texts = Text(first, source.__iter__), Text(second, target.__iter__)
        splits[split] = ParallelText([texts])
    return splits


def _text(
    part: Part,
    languages: Sequence[str],
    side: int,
    paths: Mapping[str, Path],
    checksums: Mapping[str, str],
) -> Text:
    """Return one side of a part, which is read from its file on iteration."""
    language = languages[side]
    file = name_in(paths, part.file.format(language))
    path, checksum = paths[file], checksums.get(file)
    member = None
    if part.member is not None:
        role = "src" if side == 0 else "ref"
        deen = "src" if language == "de" else "ref"
        member = part.member.format(
            language,
            role=role,
            deen=deen,
        )
    return Text(
        member or path.name,
        lambda: part.filter(
            _lines(
                path,
                member,
                checksum,
            )
        ),
    )


def _lines(path: Path, member: str | None, checksum: str | None) -> Iterator[str]:
    """Yield the lines of a text or an archive's member.

    Raises ValueError where they are not UTF-8 lines.
    """
    name = path.name if member is None else f"{path.name}: {member}"
    rest, before = (
        packed.lines(
            path,
            member,
            checksum=checksum,
        ),
        0,
    )
    while block := b"".join(islice(rest, TOGETHER)):
        if not before and b"\r" in block.rstrip(b"\r") and b"\n" not in block:
            raise ValueError(
                f"{name}: its lines end in carriage returns alone; a line feed ends a line"
            )
        yield from packed.text_lines(block, name, before=before)
        before += TOGETHER


_TAG = re.compile(r"</?(title|description)>")
_SEGMENT = re.compile(r"<seg id=\"[^\"]*\">\s*(.*?)\s*</seg>", re.IGNORECASE)


def _segments(lines: Iterable[str]) -> Iterator[str]:
    return (match[1] for line in lines if (match := _SEGMENT.search(line)))


def _plain_segments(lines: Iterable[str]) -> Iterator[str]:
    """Yield segments with plain apostrophes, as fairseq's recipes do."""
    return (segment.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'") for segment in _segments(lines))


def _talks(lines: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of a TED training file, without the mark-up between talks."""
    for line in lines:
        if not any(tag in line for tag in ("<url>", "<talkid>", "<keywords>")):
            yield _TAG.sub("", line)


def _wmt_train(europarl: str, news: str) -> list[Part]:
    """Return the parts Europarl 7, Common Crawl and the given version of News Commentary."""
    return [
        Part(europarl, "europarl-v7.de-en.{}"),
        Part("training-parallel-commoncrawl.tgz", "commoncrawl.de-en.{}"),
        Part(f"training-parallel-nc-{news}.tgz", f"news-commentary-{news}.de-en.{{}}"),
    ]


def _by_split(*parts: Part) -> Recipe:
    """Return a recipe with one part each for training, validation and test."""
    recipe = {}
    for split, part in zip(
        SPLITS,
        parts,
        strict=True,
    ):
        recipe[split] = [part]
    return recipe


def _named_by_split(ending: str = "") -> Recipe:
    """Return the recipe of files that are named by split, language and ending."""
    return _by_split(*(Part(f"{split}.{{}}{ending}") for split in SPLITS))


# Corpora that are read as a whole, because their splits depend on all their sentences.
IN_MEMORY: dict[str, Callable[[Mapping[str, Path]], dict[str, list[Pair]]]] = {
    "tatoeba-de-en": tatoeba,
    "en-vi-50k": talks_and_news,
}
RECIPES: dict[str, Recipe] = {
    # The classic recipe: validation pairs are taken from the cleaned training pairs.
    "iwslt14-de-en": {
        "train": [Part("de-en.tgz", "train.tags.de-en.{}", _talks)],
        "test": [
            Part("de-en.tgz", f"IWSLT14.{part}.de-en.{{}}.xml", _plain_segments)
            for part in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
        ],
    },
    # The output of fairseq's recipe before subwords, as stored in harvardnlp/var-attn.
    "iwslt14-de-en-tokenized": _named_by_split(),
    "iwslt15-en-vi": _by_split(
        Part("train.{}"),
        Part("tst2012.{}"),
        Part("tst2013.{}"),
    ),
    "iwslt15-en-vi-30k": _by_split(
        Part("train-first30k.{}.gz"),
        Part("dev-2012-en-vi.tgz", "tst2012.{}"),
        Part("test-2013-en-vi.tgz", "tst2013.{}"),
    ),
    "multi30k-de-en": _by_split(
        Part("train.{}.gz"), Part("val.{}.gz"), Part("test_2016_flickr.{}.gz")
    ),
    # What comes with the package.
    "tatoeba-30k": _named_by_split(".xz"),
    "alt-8k": _named_by_split(".xz"),
    # Google's pre-processed corpus, already split into words and subwords.
    "wmt16-en-de": _by_split(
        Part("wmt16_en_de.tar.gz", "train.tok.clean.bpe.32000.{}"),
        Part("wmt16_en_de.tar.gz", "newstest2013.tok.bpe.32000.{}"),
        Part("wmt16_en_de.tar.gz", "newstest2014.tok.bpe.32000.{}"),
    ),
    # Google's corpus as raw text. As in its script, validation is plain text, the test set SGML for
    # de-en.
    "wmt16-en-de-parts": {
        "train": _wmt_train("de-en.tgz", news="v11"),
        "valid": [Part("dev.tgz", "newstest2013.{}")],
        "test": [Part("dev.tgz", "newstest2014-deen-{deen}.{}.sgm", _segments)],
    },
    # Raw text, as in fairseq's recipe for WMT14.
    "wmt14-en-de": {
        "train": _wmt_train("training-parallel-europarl-v7.tgz", news="v9"),
        "valid": [Part("test.tgz", "newstest2013-{role}.{}.sgm", _plain_segments)],
        "test": [Part("test-full.tgz", "newstest2014-deen-{role}.{}.sgm", _plain_segments)],
    },
}
