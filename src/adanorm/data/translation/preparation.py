"""The preparation of a parallel corpus: words, cleaning, subwords, dictionaries, fairseq's binary files.

A prepared corpus is a folder that `fairseq-train` can read (a data-bin). It also has the merges of
the subwords, the references as words and as text, and a report of dropped pairs. It is prepared in
shards, by one process per core, in a folder `<name>.part`, which keeps finished shards after an
interruption.
"""

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, partial
from itertools import accumulate, chain, compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock, Timeout
from tqdm import tqdm

from adanorm.config.data_sections import SPLITS, ParallelConfig
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import cache_of
from adanorm.data.inspection import count_key_overlaps, keys_of
from adanorm.data.translation.corpora import Splits, corpus_files, read_corpus
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.tokenization import Bpe, Tokenizer, learn_bpe
from adanorm.files import naming, sha256, write_whole

VERSION = 3  # of this preparation: another version gives another folder
CHECKSUMS = "checksums.json"  # has the SHA-256 of every other file of a prepared corpus, by name
WEEK = 7 * 24 * 3600  # seconds
UNHASHED = {
    "cache",
    "mirror",
    "mirrors",
    "path",
    *SPLITS,
    "batch_tokens",
}  # not in the folder's name
Info = dict[str, Any]
Map = Callable[..., Iterator[Any]]
Sides = list[list[str]]  # lines of both languages
PAIRS = 25_000  # of a shard, at most: this bounds the memory of a process


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepared_corpus(
    data: ParallelConfig, *, processes: int | None = None
) -> tuple[Path, dict[str, str]]:
    """Return the folder of a prepared corpus, which may be prepared now, and its input files' checksums.

    A folder with a changed file is prepared again; an interrupted preparation continues after its
    finished shards. Raises ValueError where the corpus cannot be had or read.
    """
    files = corpus_files(data)
    checksums = _sha256(files)
    folder = prepared_folder(data, checksums)
    if folder.exists() and _broken_file(folder) is None:
        shutil.rmtree(
            folder.with_suffix(".part"), ignore_errors=True
        )  # left if one was killed at the end
        return folder, checksums  # without a lock: the folder may be read-only
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):  # one process prepares, the others wait here
        if folder.exists() and (broken := _broken_file(folder)) is not None:
            print(f"{folder / broken}: has been changed: the corpus is prepared again")
            shutil.rmtree(folder)
        if not folder.exists():
            _remove_old_parts(folder.parent)
            _prepare(data, read_corpus(data, files, checksums), folder, processes or cores())
    return folder, checksums


def prepared_folder(data: ParallelConfig, checksums: Mapping[str, str]) -> Path:
    """Return the folder of a corpus prepared from files with these checksums."""
    settings = data.model_dump(mode="json", exclude=UNHASHED)
    identity = json.dumps([VERSION, settings, list(checksums.values())], sort_keys=True)
    name = f"{'-'.join(data.languages)}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    return cache_of(data) / "prepared" / name


def _remove_old_parts(folder: Path) -> None:
    """Remove what interrupted preparations left over a week ago, unless a process works on it."""
    for part in folder.glob("*.part"):
        with suppress(OSError, Timeout), FileLock(part.with_suffix(".lock"), timeout=0):
            if time.time() - part.stat().st_mtime > WEEK:
                shutil.rmtree(part)


def _prepare(data: ParallelConfig, raw: Splits, folder: Path, processes: int) -> None:
    """Prepare a corpus in `<folder>.part`, which becomes the folder when it is finished."""
    part = folder.with_suffix(".part")
    if part.exists():
        print(f"{part}: goes on from what an interrupted preparation had finished")
    (part / "out").mkdir(parents=True, exist_ok=True)
    try:
        with naming(part):
            Steps(data, raw, part).run(processes)
    except (FileNotFoundError, ValueError):
        shutil.rmtree(part, ignore_errors=True)  # another attempt would fail in the same way
        raise
    write_whole(part / "out" / CHECKSUMS, json.dumps(_checksums(part / "out"), indent=1).encode())
    (part / "out").rename(folder)
    shutil.rmtree(part, ignore_errors=True)


def _checksums(folder: Path) -> dict[str, str]:
    return _sha256({path.name: path for path in sorted(folder.iterdir()) if path.name != CHECKSUMS})


def _sha256(files: dict[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of files by name; a gigabyte takes one core a second."""
    with ThreadPoolExecutor(
        cores()
    ) as threads:  # in parallel: hashlib releases the interpreter lock
        return dict(zip(files, threads.map(sha256, files.values()), strict=True))


def _broken_file(folder: Path) -> str | None:
    """Return the name of a file of a prepared corpus that was changed, removed or added, or None."""
    try:
        expected = json.loads((folder / CHECKSUMS).read_bytes())
        actual = _checksums(folder)
        return next(
            (name for name in {**expected, **actual} if expected.get(name) != actual.get(name)),
            None,
        )
    except (OSError, ValueError, TypeError, AttributeError):
        return CHECKSUMS


class Shard(NamedTuple):
    """A part of a split's pairs after a step, in a file `<step>.<split>.<number>.json` written whole."""

    folder: Path
    step: str
    split: str
    number: int
    start: int  # number of pairs before it in the split of its file
    # Set if validation pairs are taken from training: the files of training then hold both splits.
    valid_every: int | None = None

    @property
    def path(self) -> Path:
        """The file of the shard."""
        split = "train" if self.valid_every else self.split
        return self.folder / f"{self.step}.{split}.{self.number:05}.json"

    def sides(self) -> Sides:
        """Return the lines of both languages."""
        sides: Sides = json.loads(self.path.read_bytes())["sides"]
        if self.valid_every is None:
            return sides
        numbers = range(self.start + 1, self.start + len(sides[0]) + 1)
        chosen = [(number % self.valid_every == 0) == (self.split == "valid") for number in numbers]
        return [list(compress(side, chosen)) for side in sides]

    def once(self, compute: Callable[[], Info]) -> Info:
        """Return the counts of the shard, computed at its first use; its file also holds the lines."""
        if not self.path.exists():
            write_whole(self.path, json.dumps(compute(), ensure_ascii=False).encode())
        info: Info = json.loads(self.path.read_bytes())
        del info["sides"]
        return info


def _write_raw(raw: Splits, data: ParallelConfig, folder: Path) -> Info:
    """Write raw lines as shards; return by split each shard's number of pairs, and lines on empty sides."""
    if "valid" not in raw and data.valid_every is None:
        raise ValueError(f"data.valid_every: {data.source} has no validation pairs of its own")
    counts: Info = {"pairs": {}, "empty": []}
    for split, texts in raw.items():
        counts["pairs"][split] = sizes = list[int]()
        empty: list[int] = []  # lines of pairs with an empty side
        for number, sides in enumerate(
            texts.parts(PAIRS, data.train_pairs if split == "train" else None)
        ):
            path = Shard(folder, "raw", split, number, 0).path
            write_whole(path, json.dumps({"sides": sides}, ensure_ascii=False).encode())
            pairs = enumerate(zip(*sides, strict=True), sum(sizes) + 1)
            empty += [number for number, pair in pairs if not all(map(str.strip, pair))]
            sizes.append(len(sides[0]))
        if empty and split != "train":
            if len(empty) == sum(sizes):
                raise ValueError(
                    f"{texts.name}: every pair has an empty side: there is nothing to score"
                )
            line = f"{len(empty)} pairs with an empty side, the first in line {empty[0]}"
            counts["empty"].append(f"{texts.name}: {line}")
    return counts


class Steps:
    """The steps of a preparation, which fill `out` in its folder."""

    _map: Map

    def __init__(self, data: ParallelConfig, raw: Splits, folder: Path) -> None:
        self._data, self._texts, self._folder = data, raw, folder
        self._raw: dict[str, list[Shard]] = {}
        self._out = folder / "out"
        self._report: Info = {"dropped": []}
        self._indices: list[dict[str, int]] = []  # ids by subword, for each language

    def run(self, processes: int) -> None:
        """Take all steps in at most so many processes; results of an interrupted preparation are reused."""
        index = self._folder / "raw.json"
        if not index.exists():
            write_whole(
                index, json.dumps(_write_raw(self._texts, self._data, self._folder)).encode()
            )
        raw_counts = json.loads(index.read_bytes())
        self._report["empty"] = raw_counts["empty"]
        with _mapping(min(processes, max(map(len, raw_counts["pairs"].values())))) as self._map:
            words = self.words(raw_counts["pairs"])
            codes = self.codes(words["train"])
            subwords = self.subwords(words, codes)
            self.ids(subwords)
        self.finish(subwords)

    def words(self, pairs: Mapping[str, Sequence[int]]) -> dict[str, list[Shard]]:
        """Split the raw text into words and clean it; return the shards of each split."""
        words = {}
        for split, sizes in pairs.items():
            shards = self._raw[split] = self._shards(
                "raw", split, [{"pairs": size} for size in sizes]
            )
            infos = list(self._results(f"{split}: words", partial(split_words, self._data), shards))
            words[split] = self._shards("words", split, infos)
        if "valid" not in words:
            every, shards = self._data.valid_every, words["train"]
            for split in ("valid", "train"):
                words[split] = [shard._replace(split=split, valid_every=every) for shard in shards]
        return words

    def codes(self, train: list[Shard]) -> str | None:
        """Write and return the merges of subwords, learned from training words; None for whole words."""
        if self._data.bpe_merges is None:
            return None
        path = self._out / "codes"
        if not path.exists():
            counts: list[Counter[str]] = [Counter(), Counter()]
            for counters in self._results("vocabulary", vocabulary, train):
                _add_counts(counts, counters)
            codes = learn_bpe(counts[0] + counts[1], self._data.bpe_merges)
            write_whole(path, codes.encode())
        return path.read_bytes().decode()

    def subwords(self, words: dict[str, list[Shard]], codes: str | None) -> dict[str, list[Shard]]:
        """Split words into subwords and write the dictionaries; return the shards of each split."""
        counts: list[Counter[str]] = [Counter(), Counter()]
        subwords, keys, pairs = {}, {}, {}
        for split in SPLITS:
            infos, digests = [], []
            step = partial(split_subwords, self._data, codes)
            for info in self._results(f"{split}: subwords", step, words[split]):
                digests.append(np.array(info.pop("keys"), np.uint64))
                _add_counts(counts, info.pop("counts"))
                infos.append(info)
            subwords[split] = self._shards("subwords", split, infos)
            keys[split], pairs[split] = (
                np.concatenate(digests),
                sum(info["pairs"] for info in infos),
            )
        published, differences = _published(self._data, pairs)
        for line in (*self._report["empty"], *self._report["dropped"], *differences):
            print(line)
        self._report |= {"pairs": pairs, **published, **count_key_overlaps(keys)}
        if self._data.joined_dictionary:
            counts = [counts[0] + counts[1]] * 2
        for language, count in zip(self._data.languages, counts, strict=True):
            dictionary = fairseq().data.Dictionary()
            for word, number in count.items():
                dictionary.add_symbol(word, n=number)
            dictionary.finalize(nwords=self._data.dictionary_size or -1, padding_factor=8)
            dictionary.save(str(self._out / f"dict.{language}.txt"))
            self._indices.append(dictionary.indices)
        return subwords

    def ids(self, subwords: dict[str, list[Shard]]) -> None:
        """Write fairseq's files of token ids, and report the numbers of tokens and of unknown ones."""
        indexed, pair = (
            fairseq().data.indexed_dataset.MMapIndexedDataset,
            "-".join(self._data.languages),
        )
        step = partial(ids, self._indices)
        for split, shards in subwords.items():
            stems = [self._out / f"{split}.{pair}.{language}" for language in self._data.languages]
            sizes: list[list[int]] = [[], []]
            unknown = [0, 0]
            with ExitStack() as stack:
                files = [stack.enter_context(Path(f"{stem}.bin").open("wb")) for stem in stems]
                for sides in self._results(f"{split}: ids", step, shards):
                    for side, (values, lengths, unknowns) in enumerate(sides):
                        files[side].write(values)
                        sizes[side] += lengths
                        unknown[side] += unknowns
            for side, stem in enumerate(stems):
                with indexed.Index.writer(f"{stem}.idx", _id_type(self._indices[side])) as index:
                    index.write(sizes[side])
                self._report[stem.name] = {"tokens": sum(sizes[side]), "unknown": unknown[side]}

    def finish(self, subwords: dict[str, list[Shard]]) -> None:
        """Write the references as words and as text (raw lines if they are text), and the report."""
        language = Tokenizer(self._data.languages[1], self._data)
        contents = {"report.json": json.dumps(self._report, indent=1, ensure_ascii=False) + "\n"}
        for split in ("valid", "test"):
            words = [Bpe.join(line) for shard in subwords[split] for line in shard.sides()[1]]
            raw = [line for shard in self._raw.get(split, ()) for line in shard.sides()[1]]
            text = raw if raw and self._data.tokenize else [language.join(line) for line in words]
            for kind, lines in (("words", words), ("text", text)):
                contents[f"{split}.{kind}.{language.language}"] = "".join(
                    f"{line}\n" for line in lines
                )
        for name, content in contents.items():
            (self._out / name).write_text(content, "utf-8")

    def _results(
        self, step: str, function: Callable[[Shard], Any], shards: Sequence[Shard]
    ) -> Iterator[Any]:
        """Yield what a function returns for each shard, in order, with a progress bar."""
        yield from tqdm(
            self._map(function, shards), step, len(shards), unit=" shards", ncols=80, leave=False, delay=1.0,
            mininterval=0.1 if sys.stderr.isatty() else 30.0,  # few lines in a log
        )  # fmt: skip

    def _shards(self, step: str, split: str, infos: Sequence[Info]) -> list[Shard]:
        """Return the shards of a split, each with the number of pairs before it."""
        if split == "train" and step == self._data.clean:
            self._report_dropped(infos)
        starts = accumulate((info["pairs"] for info in infos[:-1]), initial=0)
        return [
            Shard(self._folder, step, split, number, start) for number, start in enumerate(starts)
        ]

    def _report_dropped(self, infos: Sequence[Info]) -> None:
        """Report dropped training pairs, one line per reason; raises ValueError where no pair is left."""
        total, dropped = sum(info["read"] for info in infos), dict[str, list[Any]]()
        for reason, (count, first) in (
            entry for info in infos for entry in info["dropped"].items()
        ):
            dropped.setdefault(reason, [0, first])[0] += count
        name = self._texts["train"].name
        lines = [
            f"{name}: dropped {count:,} of {total:,} pairs, {reason} (the first: {first})"
            for reason, (count, first) in dropped.items()
        ]
        if not sum(info["pairs"] for info in infos):
            raise ValueError(f"cleaning leaves no pair: {'; '.join(lines)}")
        self._report["dropped"] = lines


def split_words(data: ParallelConfig, raw: Shard) -> Info:
    """Split raw text into words and, in training, drop the pairs that fail cleaning; return counts."""
    words = raw._replace(step="words")

    def compute() -> Info:
        pairs = zip(data.languages, raw.sides(), strict=True)
        sides = [[*map(Tokenizer(language, data).split, side)] for language, side in pairs]
        return _cleaned(sides, data, words)

    return words.once(compute)


def vocabulary(words: Shard) -> list[Counter[str]]:
    """Return the count of each word, for each side."""
    return [
        Counter(word for line in side for word in line.split(" ") if word) for side in words.sides()
    ]


def split_subwords(data: ParallelConfig, codes: str | None, words: Shard) -> Info:
    """Split words into subwords and, in training, drop the pairs that fail cleaning; return counts."""
    start = words.start
    if words.valid_every:
        valid_before = start // words.valid_every
        start = valid_before if words.split == "valid" else start - valid_before
    subwords = words._replace(step="subwords", start=start, valid_every=None)

    def compute() -> Info:
        encoding = _encoding(codes)
        info = _cleaned(
            [[encoding.split(line) for line in side] for side in words.sides()], data, subwords
        )
        examples = (
            f"{source}\n{target}".encode() for source, target in zip(*info["sides"], strict=True)
        )
        info["keys"] = keys_of(examples).tolist()
        train_sides = info["sides"] if words.split == "train" else []
        info["counts"] = [
            Counter(word for line in side for word in line.split()) for side in train_sides
        ]
        return info

    return subwords.once(compute)


def ids(
    indices: Sequence[Mapping[str, int]], subwords: Shard
) -> list[tuple[bytes, list[int], int]]:
    """Return by side the token ids in fairseq's bytes, the lengths of lines, and the number of unknowns."""
    sides = []
    for index, side in zip(indices, subwords.sides(), strict=True):
        end, unknown = index["</s>"], index["<unk>"]
        lines = [[*(index.get(word, unknown) for word in line.split()), end] for line in side]
        values = np.fromiter(chain.from_iterable(lines), _id_type(index))
        sides.append(
            (values.tobytes(), [len(line) for line in lines], int((values == unknown).sum()))
        )
    return sides


def _cleaned(sides: Sides, data: ParallelConfig, shard: Shard) -> Info:
    info: Info = {"read": len(sides[0]), "dropped": {}}
    if data.clean == shard.step and shard.split == "train":
        indices, info["dropped"] = clean(
            *sides, longest=data.longest, ratio=data.ratio, start=shard.start
        )
        sides = [[side[index] for index in indices] for side in sides]
    return {**info, "pairs": len(sides[0]), "sides": sides}


def clean(
    source: Sequence[str], target: Sequence[str], *, longest: int, ratio: float, start: int = 0
) -> tuple[list[int], dict[str, tuple[int, str]]]:
    """Return the indices of the pairs to keep, and by reason the number of dropped pairs and the first one.

    The rules are those of Moses's clean-corpus-n: both sides have 1 to `longest` words, and neither
    has more than `ratio` times the other's. `start` is the number of lines before these.
    """
    indices: list[int] = []
    dropped: dict[str, tuple[int, str]] = {}
    for index, pair in enumerate(zip(source, target, strict=True)):
        left, right = (len(side.split()) for side in pair)
        if not left or not right:
            reason = "a side is empty"
        elif max(left, right) > longest:
            reason = f"a side is longer than {longest} words"
        elif max(left, right) > ratio * min(left, right):
            reason = f"one side has over {ratio:g} times the other's words"
        else:
            indices.append(index)
            continue
        count, first = dropped.get(
            reason, (0, f"line {start + index + 1}, {left:,} and {right:,} words")
        )
        dropped[reason] = (count + 1, first)
    return indices, dropped


_encoding = lru_cache(1)(Bpe)


def _add_counts(sums: list[Counter[str]], counts: Sequence[Mapping[str, int]]) -> None:
    for total, count in zip(sums, counts, strict=False):
        total.update(count)


def _id_type(indices: Mapping[str, int]) -> type[np.generic]:
    """Return the type of a dictionary's ids in fairseq's files."""
    return np.uint16 if len(indices) < 65500 else np.int32


def _published(data: ParallelConfig, pairs: dict[str, int]) -> tuple[Info, list[str]]:
    """Return the published numbers of pairs, and lines on differences; ValueError for another corpus."""
    source = SOURCES.get(data.source)
    if source is None or source.counts is None or data.own_files() or data.train_pairs is not None:
        return {}, []
    published = dict(zip(SPLITS, source.counts, strict=True))
    if (
        max(abs(pairs[split] - count) / count for split, count in published.items())
        > source.tolerance
    ):
        raise ValueError(
            f"{source.files[0].name}: gives {tuple(pairs.values())} pairs for training, validation and test,"
            f" published are {tuple(source.counts)}: not the same archive"
        )
    lines = [
        f"{data.source}: {pairs[split]:,} pairs for {split}, published are {count:,}"
        f" ({pairs[split] - count:+,})"
        for split, count in published.items()
        if pairs[split] != count
    ]
    return {"published": published}, lines


@contextmanager
def _mapping(processes: int) -> Iterator[Map]:
    """Yield a `map` that computes in so many processes, which end with the block."""
    if processes == 1:
        yield map
        return
    # Not forked: the child would lack the threads of torch and Numba.
    with ProcessPoolExecutor(
        processes, multiprocessing.get_context("spawn"), _start_worker
    ) as pool:
        try:
            yield pool.map
        except BaseException as error:  # also Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            if not isinstance(error, BrokenProcessPool):
                raise
            raise OSError(
                "a process of the preparation was killed, perhaps for lack of memory; the next start goes on"
                " from the last finished shard"
            ) from None


def _start_worker() -> None:
    """Make a worker process ignore Ctrl-C, which its parent handles, and end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "started by another"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
