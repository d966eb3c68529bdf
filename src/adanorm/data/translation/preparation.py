"""The preparation of a parallel corpus: words, cleaning, subwords, dictionaries, token ids.

A prepared corpus is a folder that `fairseq-train` can read (a data-bin). It also has the merges of
the subwords, the references as words and as text, and a report of dropped pairs. Each step maps
chunks of pairs in processes, one per core, and writes whole text files in a folder `<name>.part`.
After an interruption the steps that were finished are not repeated.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from itertools import chain, compress, count, islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from adanorm.config.data_sections import SPLITS, ParallelConfig
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import cache_of
from adanorm.data.inspection import count_key_overlaps, keys_of
from adanorm.data.prepared import checksums_of, prepared
from adanorm.data.translation.corpora import Splits, corpus_files, read_corpus
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.tokenization import Bpe, Tokenizer, learn_bpe, what_cut
from adanorm.files import write_whole, writing

VERSION = 3  # of this preparation: another version gives another folder
# Settings that are not in the folder's name.
UNHASHED = {"cache", "mirror", "mirrors", "path", *SPLITS, "batch_tokens"}
PAIRS = 25_000  # of a chunk, at most: this bounds the memory of a process
Info = dict[str, Any]
Map = Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]
Texts = Sequence[bytes]  # the lines of both languages, each with a line feed
Lines = list[list[str]]  # of both languages
Chunk = tuple[int, Texts]  # the number of pairs before it, and its lines
# By what is said of pairs, how many there are, and what is said of the first.
Remarks = dict[str, tuple[int, Any]]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepared_corpus(
    data: ParallelConfig, *, processes: int | None = None
) -> tuple[Path, dict[str, str]]:
    """Return the folder of a corpus, which may be prepared now, and its input files' checksums.

    A folder with a changed file is prepared again; an interrupted preparation continues after its
    finished steps. Raises ValueError where the corpus cannot be had or read.
    """
    files = corpus_files(data)
    checksums = checksums_of(files)
    folder = prepared_folder(data, checksums)

    def make(part: Path) -> None:
        raw = read_corpus(data, files, checksums)
        Steps(data, raw, part).run(processes or cores())

    return prepared(folder, make), checksums


def prepared_folder(data: ParallelConfig, checksums: Mapping[str, str]) -> Path:
    """Return the folder of a corpus prepared from files with these checksums."""
    settings = data.model_dump(mode="json", exclude=UNHASHED)
    if data.subwords is None:
        settings.pop("subwords")  # it came later: older folders keep their names
    cut = what_cut(data)
    if data.train and (cut is None or not data.tokenize):
        settings["subwords"] = cut or "none"  # once marks within words were those of subwords
    if data.draws_parts:
        settings["parts"] = "drawn"  # once the first ones
    identity = json.dumps([VERSION, settings, list(checksums.values())], sort_keys=True)
    name = f"{'-'.join(data.languages)}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    return cache_of(data) / "prepared" / name


class Part(NamedTuple):
    """A chunk after a step, how many pairs the step had read and kept, and remarks on some."""

    texts: Texts
    read: int
    pairs: int
    remarks: Remarks


def _lines(texts: Texts) -> Lines:
    return [text.decode().split("\n")[:-1] for text in texts]


def _texts(sides: Iterable[Sequence[str]]) -> Texts:
    return ["".join(map("{}\n".format, side)).encode() for side in sides]


class Steps:
    """The steps of a preparation, which fill `out` in its folder.

    A step writes files `<step>.<split>.<language>` and then `<step>.<split>.json`, which has the
    numbers of pairs and the remarks: where that is, the step is finished.
    """

    _map: Map

    def __init__(self, data: ParallelConfig, raw: Splits, folder: Path) -> None:
        self._data, self._raw, self._folder = data, raw, folder
        self._out = folder / "out"
        self._report: Info = {"dropped": [], "empty": []}

    def run(self, processes: int) -> None:
        """Take all steps in at most so many processes."""
        if "valid" not in self._raw and self._data.valid_every is None:
            source = self._data.source
            raise ValueError(f"data.valid_every: {source} has no validation pairs of its own")
        chunks = max([self._write_raw(split) for split in self._raw]) / PAIRS
        with _mapping(min(processes, int(np.ceil(chunks)))) as self._map:
            self._write_words()
            self._write_subwords(self._codes())
            self._write_ids(self._indices())
        self._write_references()
        report = (
            json.dumps(
                self._report,
                indent=1,
                ensure_ascii=False,
            )
            + "\n"
        )
        (self._out / "report.json").write_text(report, "utf-8")

    def _write_raw(self, split: str) -> int:
        """Write a split's raw lines.

        Return the number of pairs. Reports pairs with an empty side.
        """
        texts = self._raw[split]
        limit = self._data.train_pairs if split == "train" else None
        info = self._step(
            "raw",
            split,
            _raw_parts(texts.parts(PAIRS, limit, spread=self._data.draws_parts)),
        )
        if "empty" in info["remarks"] and split != "train":
            empty, first = info["remarks"]["empty"]
            if empty == info["pairs"]:
                raise ValueError(
                    f"{texts.name}: every pair has an empty side: there is nothing to score"
                )
            self._report["empty"].append(
                f"{texts.name}: {empty} pairs with an empty side, the first in line {first}"
            )
        return int(info["pairs"])

    def _write_words(self) -> None:
        """Split the raw text into words.

        Take validation pairs from training if there are no others.
        """
        if "valid" in self._raw:
            for split in self._raw:
                self._split("words", split, "raw")
            return
        self._split("words", "test", "raw")
        self._split("words", "train", "raw", name="whole")
        for split in ("valid", "train"):
            self._step("words", split, self._chosen(split))

    def _chosen(self, split: str) -> Iterator[Part]:
        """Yield a split's pairs: every n-th pair of the whole is validation, the rest training."""
        every = self._data.valid_every
        assert every is not None, "checked before any step"
        for start, texts in self._chunks("words", "whole"):
            sides = _lines(texts)
            numbers = range(start + 1, start + 1 + len(sides[0]))
            is_chosen = [(number % every == 0) == (split == "valid") for number in numbers]
            chosen = [list(compress(side, is_chosen)) for side in sides]
            yield Part(
                _texts(chosen),
                len(numbers),
                len(chosen[0]),
                {},
            )

    def _split(
        self, step: str, split: str, source: str, *, codes: str | None = None, name: str = ""
    ) -> Info:
        """Split the lines of an earlier step, perhaps clean the training pairs.

        Return the numbers.
        """
        cleans = split == "train" and step == self._data.clean
        function = partial(
            split_lines,
            self._data,
            step,
            cleans,
            codes,
        )
        parts = self._mapped(f"{split}: {step}", function, source, split)
        info = self._step(step, name or split, parts)
        if cleans:
            self._report_dropped(info)
        return info

    def _codes(self) -> str | None:
        """Write and return the merges of subwords, learned from training words.

        None for whole words.
        """
        if self._data.bpe_merges is None:
            return None
        path = self._out / "codes"
        if not path.exists():
            counts = self._counted("vocabulary", "words", separator=" ")
            codes = learn_bpe(counts[0] + counts[1], self._data.bpe_merges)
            write_whole(path, codes.encode())
        return path.read_bytes().decode()

    def _counted(self, name: str, step: str, *, separator: str | None) -> list[Counter[str]]:
        """Return how often each training word of a step occurs, for each language."""
        counts: list[Counter[str]] = [Counter(), Counter()]
        for counters in self._mapped(
            name,
            partial(count_words, separator),
            step,
            "train",
        ):
            for total, counter in zip(
                counts,
                counters,
                strict=True,
            ):
                total.update(counter)
        return counts

    def _write_subwords(self, codes: str | None) -> None:
        """Split words into subwords.

        Report numbers of pairs, and pairs in two splits or repeated.
        """
        keys, pairs = {}, {}
        for split in SPLITS:
            info = self._split(
                "subwords",
                split,
                "words",
                codes=codes,
            )
            pairs[split] = info["pairs"]
            digests = self._mapped(f"{split}: overlaps", keys_of_pairs, "subwords", split)
            keys[split] = np.concatenate([*digests])
        published, differences = _published(self._data, pairs)
        for line in (*self._report["empty"], *self._report["dropped"], *differences):
            print(line)
        self._report |= {"pairs": pairs, **published, **count_key_overlaps(keys)}

    def _indices(self) -> list[dict[str, int]]:
        """Write the dictionaries; return the ids by subword, for each language."""
        counts = self._counted("dictionaries", "subwords", separator=None)
        if self._data.joined_dictionary:
            counts = [counts[0] + counts[1]] * 2
        indices = []
        for language, counter in zip(
            self._data.languages,
            counts,
            strict=True,
        ):
            dictionary = fairseq().data.Dictionary()
            for word, number in counter.items():
                dictionary.add_symbol(word, n=number)
            dictionary.finalize(nwords=self._data.dictionary_size or -1, padding_factor=8)
            dictionary.save(str(self._out / f"dict.{language}.txt"))
            indices.append(dictionary.indices)
        return indices

    def _write_ids(self, indices: list[dict[str, int]]) -> None:
        """Write fairseq's files of token ids, and report how many tokens there are, and unknown ones."""
        indexed = fairseq().data.indexed_dataset.MMapIndexedDataset
        pair = "-".join(self._data.languages)
        for split in SPLITS:
            stems = [self._out / f"{split}.{pair}.{language}" for language in self._data.languages]
            sizes: list[list[int]] = [[], []]
            unknown = [0, 0]
            with ExitStack() as stack:
                files = [stack.enter_context(Path(f"{stem}.bin").open("wb")) for stem in stems]
                function = partial(ids, indices)
                for sides in self._mapped(
                    f"{split}: ids",
                    function,
                    "subwords",
                    split,
                ):
                    for side, (values, lengths, unknowns) in enumerate(sides):
                        files[side].write(values)
                        sizes[side] += lengths
                        unknown[side] += unknowns
            for side, stem in enumerate(stems):
                with indexed.Index.writer(f"{stem}.idx", _id_type(indices[side])) as index:
                    index.write(sizes[side])
                self._report[stem.name] = {"tokens": sum(sizes[side]), "unknown": unknown[side]}

    def _write_references(self) -> None:
        """Write the references as words and as text (raw lines if they are text)."""
        language = Tokenizer(self._data.languages[1], self._data)
        for split in ("valid", "test"):
            cut = what_cut(self._data)
            words = [Bpe.join(line, cut) for line in self._targets("subwords", split)]
            if split in self._raw and self._data.tokenize:
                text = self._targets("raw", split)
            else:
                text = [language.join(line) for line in words]
            for kind, lines in (("words", words), ("text", text)):
                path = self._out / f"{split}.{kind}.{language.language}"
                path.write_bytes(_texts([lines])[0])

    def _targets(self, step: str, split: str) -> list[str]:
        return _lines([self._files(step, split)[1].read_bytes()])[0]

    def _files(self, step: str, split: str) -> list[Path]:
        return [self._folder / f"{step}.{split}.{language}" for language in self._data.languages]

    def _chunks(self, step: str, split: str) -> Iterator[Chunk]:
        """Yield the pairs of a step in chunks."""
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("rb")) for path in self._files(step, split)]
            for start in count(0, PAIRS):
                texts = [b"".join(islice(file, PAIRS)) for file in files]
                if not texts[0]:
                    return
                yield start, texts

    def _mapped(
        self, name: str, function: Callable[[Chunk], Any], step: str, split: str
    ) -> Iterator[Any]:
        """Yield what a function returns for each chunk of a step, in order, with a progress bar."""
        pairs = self._info(step, split)["pairs"]
        yield from tqdm(
            self._map(function, self._chunks(step, split)),
            name,
            total=-(-pairs // PAIRS),
            unit=" chunks",
            ncols=80,
            leave=False,
            delay=1.0,
            mininterval=0.1 if sys.stderr.isatty() else 30.0,  # few lines in a log
        )

    def _info(self, step: str, split: str) -> Info:
        path = self._folder / f"{step}.{split}.json"
        return json.loads(path.read_bytes())

    def _step(self, step: str, split: str, parts: Iterable[Part]) -> Info:
        """Write the files of a step, unless it is finished.

        Return its numbers of pairs and remarks.
        """
        path = self._folder / f"{step}.{split}.json"
        if not path.exists():
            read = pairs = 0
            remarks: Remarks = {}
            with ExitStack() as stack:
                files = [stack.enter_context(writing(file)) for file in self._files(step, split)]
                for part in parts:
                    for file, text in zip(
                        files,
                        part.texts,
                        strict=True,
                    ):
                        file.write(text)
                    read += part.read
                    pairs += part.pairs
                    for remark, (number, first) in part.remarks.items():
                        before, earlier = remarks.get(remark, (0, first))
                        remarks[remark] = (before + number, earlier)
            info = {"read": read, "pairs": pairs, "remarks": remarks}
            write_whole(path, json.dumps(info).encode())
        return self._info(step, split)

    def _report_dropped(self, info: Info) -> None:
        """Report dropped training pairs, one line per reason.

        Raises ValueError where no pair is left.
        """
        name = self._raw["train"].name
        lines = []
        for reason, (number, first) in info["remarks"].items():
            dropped = f"{name}: dropped {number:,} of {info['read']:,} pairs"
            lines.append(f"{dropped}, {reason} (the first: {first})")
        if not info["pairs"]:
            raise ValueError(f"cleaning leaves no pair: {'; '.join(lines)}")
        self._report["dropped"] = lines


def _raw_parts(chunks: Iterable[tuple[Sequence[str], Sequence[str]]]) -> Iterator[Part]:
    """Yield raw pairs.

    The remark `empty` is on those with an empty side and has the first one's line.
    """
    start = 0
    for sides in chunks:
        empty = []
        for line, pair in enumerate(zip(*sides, strict=True), start + 1):
            if not all(map(str.strip, pair)):
                empty.append(line)
        size = len(sides[0])
        start += size
        yield Part(
            _texts(sides),
            size,
            size,
            {"empty": (len(empty), empty[0])} if empty else {},
        )


_encoding = lru_cache(1)(Bpe)


def split_lines(
    data: ParallelConfig, step: str, cleans: bool, codes: str | None, chunk: Chunk
) -> Part:
    """Return raw lines as words, or words as subwords, separated by spaces, perhaps cleaned."""
    start, texts = chunk
    sides = []
    for language, lines in zip(
        data.languages,
        _lines(texts),
        strict=True,
    ):
        splitter = Tokenizer(language, data) if step == "words" else _encoding(codes)
        sides.append([splitter.split(line) for line in lines])
    read, dropped = len(sides[0]), Remarks()
    if cleans:
        kept, dropped = clean(
            *sides,
            longest=data.longest,
            ratio=data.ratio,
            start=start,
        )
        sides = [[*map(side.__getitem__, kept)] for side in sides]
    return Part(
        _texts(sides),
        read,
        len(sides[0]),
        dropped,
    )


def count_words(separator: str | None, chunk: Chunk) -> list[Counter[str]]:
    """Return the count of each word, for each language.

    Without a separator any white space parts them.
    """
    counts = []
    for lines in _lines(chunk[1]):
        counter = Counter(" ".join(lines).split(separator))
        del counter[""]
        counts.append(counter)
    return counts


def keys_of_pairs(chunk: Chunk) -> Any:
    """Return a digest per pair, (N,)."""
    sources, targets = (text.split(b"\n")[:-1] for text in chunk[1])
    return keys_of(
        map(
            b"\n".join,
            zip(
                sources,
                targets,
                strict=True,
            ),
        )
    )


def ids(indices: Sequence[Mapping[str, int]], chunk: Chunk) -> list[tuple[bytes, list[int], int]]:
    """Return by side the ids in fairseq's bytes, the lengths of lines, and the number of unknowns."""
    sides = []
    for index, lines in zip(
        indices,
        _lines(chunk[1]),
        strict=True,
    ):
        end, unknown = index["</s>"], index["<unk>"]
        rows = []
        for line in lines:
            rows.append([*(index.get(word, unknown) for word in line.split()), end])
        values = np.fromiter(chain.from_iterable(rows), _id_type(index))
        lengths = [len(row) for row in rows]
        sides.append((values.tobytes(), lengths, int((values == unknown).sum())))
    return sides


def clean(
    source: Sequence[str], target: Sequence[str], *, longest: int, ratio: float, start: int = 0
) -> tuple[list[int], dict[str, tuple[int, str]]]:
    """Return the indices of pairs to keep, and by reason how many are dropped, and the first.

    The rules are those of Moses's clean-corpus-n: both sides have 1 to `longest` words, and neither
    has more than `ratio` times the other's. `start` is the number of lines before these.
    """
    indices = []
    dropped: dict[str, tuple[int, str]] = {}
    for index, pair in enumerate(
        zip(
            source,
            target,
            strict=True,
        )
    ):
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


def _id_type(indices: Mapping[str, int]) -> type[np.generic]:
    """Return the type of a dictionary's ids in fairseq's files."""
    return np.uint16 if len(indices) < 65500 else np.int32


def _published(data: ParallelConfig, pairs: dict[str, int]) -> tuple[Info, list[str]]:
    """Return the published numbers of pairs, and lines on differences.

    Raises ValueError for another corpus.
    """
    source = SOURCES.get(data.source)
    if source is None or source.counts is None or data.own_files() or data.train_pairs is not None:
        return {}, []
    published = dict(
        zip(
            SPLITS,
            source.counts,
            strict=True,
        )
    )
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
    if processes == 1 or multiprocessing.current_process().daemon:  # a daemon starts no process
        yield map
        return
    # Not forked: the child would lack the threads of torch and Numba.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start_worker) as pool:

        def mapped(function: Callable[[Any], Any], chunks: Iterable[Any]) -> Iterator[Any]:
            """Compute a few chunks ahead, which bounds the memory."""
            waiting: deque[Future[Any]] = deque()
            for chunk in chunks:
                with _script_hidden():
                    waiting.append(pool.submit(function, chunk))
                if len(waiting) > 2 * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

        try:
            yield mapped
        except BaseException as error:  # also Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            if not isinstance(error, BrokenProcessPool):
                raise
            raise OSError(
                "a process of the preparation was killed, perhaps for lack of memory; the next"
                " start goes on from the last finished step"
            ) from None


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Let a process that starts in this block not run the user's script again.

    A script without `if __name__ == "__main__"` would prepare the corpus in that process too, and
    wait there for the lock that its parent holds.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _start_worker() -> None:
    """Make a worker process ignore Ctrl-C, which its parent handles, and end with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "started by another"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
