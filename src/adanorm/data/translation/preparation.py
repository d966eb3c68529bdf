"""Preparing a parallel corpus: words, cleaning, subwords, dictionaries, fairseq's binary files.

A prepared corpus is a folder that `fairseq-train` can read as it is (a data-bin), with the codes of
the encoding, the words and text to score against, and a report of what was dropped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

from adanorm.config.data_sections import ParallelConfig
from adanorm.config.digest import sha256
from adanorm.config.paths import cache_of
from adanorm.data.catalogue import SOURCES
from adanorm.data.inspection import count_overlaps
from adanorm.data.translation.cleaning import clean
from adanorm.data.translation.corpora import Pairs, Splits, corpus_files, read_corpus
from adanorm.data.translation.tokenization import Bpe, Tokenizer, learn_bpe
from adanorm.fairseq_library import fairseq
from adanorm.files import naming, write_whole

VERSION = 2  # of this preparation: another one is another folder
SPLITS = ("train", "valid", "test")
Say = Callable[[str], None]
CHECKSUMS = "checksums.json"  # of the other files of a prepared corpus, by name
PLACES = {"cache", "mirror", "mirrors", "path", *SPLITS, "batch_tokens"}


def prepared_corpus(data: ParallelConfig, say: Say = print) -> tuple[Path, dict[str, str]]:
    """Return the folder of a prepared corpus, made now if need be, and its input files' checksums.

    The folder is found again by its inputs' content and the settings, and prepared again where a
    file of it is not what was written. `say` gets a line for every kind of thing that was dropped.
    Raises ValueError where the corpus cannot be had or read.
    """
    files = corpus_files(data)
    checksums = {name: sha256(path) for name, path in files.items()}
    settings = data.model_dump(mode="json", exclude=PLACES)
    identity = json.dumps([VERSION, settings, list(checksums.values())], sort_keys=True)
    name = f"{'-'.join(data.languages)}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    folder = cache_of(data) / "prepared" / name
    if folder.exists() and _broken_file(folder) is None:
        return folder, checksums  # without a lock: the folder may be one that cannot be written
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    with FileLock(folder.with_suffix(".lock")):
        broken = _broken_file(folder) if folder.exists() else None
        if broken is not None:
            say(f"{folder / broken}: not what was written: the corpus is prepared again")
            shutil.rmtree(folder)
        if not folder.exists():
            part = folder.with_suffix(".part")
            part.mkdir()
            try:
                with naming(folder):
                    _prepare(read_corpus(data, files), data, part, say)
                write_whole(part / CHECKSUMS, json.dumps(_checksums(part), indent=1).encode())
                part.rename(folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return folder, checksums


def _checksums(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.iterdir()) if path.name != CHECKSUMS}


def _broken_file(folder: Path) -> str | None:
    """Return the name of a file of a prepared corpus that is not what was written, or None."""
    try:
        written = json.loads((folder / CHECKSUMS).read_bytes())
        found = _checksums(folder)
        return next((name for name in {**written, **found} if written.get(name) != found.get(name)), None)
    except (OSError, ValueError, TypeError, AttributeError):
        return CHECKSUMS


def _sweep(folder: Path) -> None:
    """Remove what preparations that were killed left; one that a process is at stays."""
    for part in folder.glob("*.part"):
        with suppress(OSError), FileLock(part.with_suffix(".lock"), timeout=0):  # a Timeout is such an error
            shutil.rmtree(part, ignore_errors=True)


def _prepare(raw: Splits, data: ParallelConfig, folder: Path, say: Say) -> None:
    languages = [Tokenizer(language, data) for language in data.languages]
    train = raw["train"]
    if data.train_pairs is not None:
        train = Pairs(train.source[: data.train_pairs], train.target[: data.train_pairs], train.origin)
    words = {split: _words(pairs, languages) for split, pairs in {**raw, "train": train}.items()}
    report: dict[str, Any] = {"dropped": [], "empty": []}
    for split in ("valid", "test"):
        report["empty"] += _empty_lines(raw[split]) if split in raw else []
    if data.clean == "words":
        words["train"] = _cleaned(words["train"], train.origin, data, report)
    if "valid" not in raw:
        if data.valid_every is None:
            raise ValueError(f"data.valid_every: {data.source} has no validation pairs of its own")
        words["train"], words["valid"] = _taken_out(words["train"], data.valid_every)
    subwords = learn_bpe((line for side in words["train"] for line in side), data.bpe_merges)
    encoded = {split: _encoded(sides, subwords) for split, sides in words.items()}
    if data.clean == "subwords":
        encoded["train"] = _cleaned(encoded["train"], train.origin, data, report)
    _check_counts(data, encoded)
    for line in (*report["empty"], *report["dropped"]):
        say(line)
    report["pairs"] = {split: len(encoded[split][0]) for split in SPLITS}
    report |= count_overlaps(
        {split: itertools.starmap(_as_bytes, zip(*encoded[split], strict=True)) for split in SPLITS}
    )
    dictionaries = _dictionaries(encoded["train"], data)
    for language, dictionary in zip(data.languages, dictionaries, strict=True):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    for split in SPLITS:
        for language, lines, dictionary in zip(data.languages, encoded[split], dictionaries, strict=True):
            stem = f"{split}.{'-'.join(data.languages)}.{language}"
            report[stem] = _binarize(lines, dictionary, folder / stem)
    if subwords.codes is not None:
        (folder / "codes").write_text(subwords.codes, "utf-8")
    for split in ("valid", "test"):
        _write_references(folder, split, raw.get(split), encoded[split][1], languages[1], data)
    (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


Sides = tuple[list[str], list[str]]


def _as_bytes(source: str, target: str) -> bytes:
    return f"{source}\n{target}".encode()


def _words(pairs: Pairs, languages: Sequence[Tokenizer]) -> Sides:
    return (
        [languages[0].split(line) for line in pairs.source],
        [languages[1].split(line) for line in pairs.target],
    )


def _encoded(sides: Sides, subwords: Bpe) -> Sides:
    return [subwords.split(line) for line in sides[0]], [subwords.split(line) for line in sides[1]]


def _empty_lines(pairs: Pairs) -> list[str]:
    sides = zip(pairs.source, pairs.target, strict=True)
    lines = [number for number, pair in enumerate(sides, 1) if not all(map(str.strip, pair))]
    if not lines:
        return []
    return [f"{pairs.origin}: {len(lines)} pairs with an empty side, the first in line {lines[0]}"]


def _cleaned(sides: Sides, origin: str, data: ParallelConfig, report: dict[str, Any]) -> Sides:
    kept, dropped = clean(*sides, longest=data.longest, ratio=data.ratio)
    report["dropped"] += (lines := dropped.lines(origin))
    if not kept:
        raise ValueError(f"cleaning leaves no pair: {'; '.join(lines)}")
    return [sides[0][index] for index in kept], [sides[1][index] for index in kept]


def _taken_out(sides: Sides, every: int) -> tuple[Sides, Sides]:
    """Return the pairs without every n-th one, and those."""
    indices = range(1, len(sides[0]) + 1)
    train, valid = (
        tuple(
            [line for index, line in zip(indices, side, strict=True) if (index % every == 0) == taken]
            for side in sides
        )
        for taken in (False, True)
    )
    return (train[0], train[1]), (valid[0], valid[1])


def _check_counts(data: ParallelConfig, encoded: dict[str, Sides]) -> None:
    """Raise ValueError where a file without a published checksum gives other counts than published."""
    source = SOURCES.get(data.source)
    if source is None or source.counts is None or data.own_files() or data.train_pairs is not None:
        return
    found = tuple(len(encoded[split][0]) for split in SPLITS)
    off = max(abs(here - there) / there for here, there in zip(found, source.counts, strict=True))
    if off > TOLERANCE:
        raise ValueError(
            f"{source.files[0].name}: gives {found} pairs for training, validation and test, published are"
            f" {source.counts}: not the same archive"
        )


# sacremoses splits a few words unlike Moses's Perl, and the length ratio then drops other pairs.
TOLERANCE = 0.005


def _dictionaries(train: Sides, data: ParallelConfig) -> tuple[Any, Any]:
    counts = [Counter(word for line in side for word in line.split()) for side in train]
    if data.joined_dictionary:
        joined = _dictionary(counts[0] + counts[1], data.dictionary_size)
        return joined, joined
    return _dictionary(counts[0], data.dictionary_size), _dictionary(counts[1], data.dictionary_size)


def _dictionary(counts: Counter[str], size: int | None) -> Any:
    dictionary = fairseq().data.Dictionary()
    for word, count in counts.items():
        dictionary.add_symbol(word, n=count)
    dictionary.finalize(nwords=size or -1, padding_factor=8)
    return dictionary


def _binarize(lines: Iterable[str], dictionary: Any, stem: Path) -> dict[str, int]:
    """Write lines as fairseq's memory-mapped token ids; return their numbers of tokens and unknowns."""
    indexed = fairseq().data.indexed_dataset
    dtype = indexed.best_fitting_int_dtype(len(dictionary))
    builder = indexed.MMapIndexedDatasetBuilder(f"{stem}.bin", dtype=dtype)
    tokens = unknown = 0
    for line in lines:
        ids = dictionary.encode_line(line, append_eos=True, add_if_not_exist=False)
        builder.add_item(ids)
        tokens += len(ids)
        unknown += int((ids == dictionary.unk()).sum())
    builder.finalize(f"{stem}.idx")
    return {"tokens": tokens, "unknown": unknown}


def _write_references(
    folder: Path,
    split: str,
    raw: Pairs | None,
    subwords: list[str],
    language: Tokenizer,
    data: ParallelConfig,
) -> None:
    """Write the words to score against, and the text: the corpus's own where it is running text."""
    words = [Bpe.join(line) for line in subwords]
    has_text = raw is not None and data.tokenize and len(raw.target) == len(words)
    text = raw.target if raw is not None and has_text else [language.join(line) for line in words]
    for kind, lines in (("words", words), ("text", text)):
        (folder / f"{split}.{kind}.{language.language}").write_text(
            "".join(f"{line}\n" for line in lines), "utf-8"
        )
