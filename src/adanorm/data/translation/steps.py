"""The steps of a preparation: shard by shard, in several processes; finished shards are kept."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from adanorm.config.data_sections import SPLITS, ParallelConfig
from adanorm.data.catalogue import SOURCES
from adanorm.data.inspection import count_key_overlaps
from adanorm.data.translation.corpora import Splits
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.shards import (
    Info,
    Shard,
    dictionary_type,
    divide,
    ids,
    split_subwords,
    split_words,
    vocabulary,
)
from adanorm.data.translation.tokenization import Bpe, Say, Tokenizer, learn_bpe
from adanorm.files import write_whole

Map = Callable[..., Iterator[Any]]
Shards = dict[str, list[Shard]]  # by split
PAIRS = 25_000  # of a shard, at most: it bounds the memory of a process


def prepare(raw: Splits, data: ParallelConfig, folder: Path, say: Say, processes: int) -> Path:
    """Return the folder of the prepared corpus, `out` in `folder`; what an earlier start finished is kept.

    Raises ValueError where the corpus cannot be read or is not what it should be, and OSError where a
    process was killed.
    """
    index = folder / "raw.json"
    if not index.exists():
        write_whole(index, json.dumps(_write_raw(raw, data, folder)).encode())
    counted = json.loads(index.read_bytes())
    shards = {
        split: _shards(folder, "raw", split, [{"pairs": size} for size in sizes])
        for split, sizes in counted["pairs"].items()
    }
    with _mapping(min(processes, max(map(len, shards.values())))) as mapping:
        return Steps(raw, data, folder, mapping, say).run(shards, counted["empty"])


def _write_raw(raw: Splits, data: ParallelConfig, folder: Path) -> Info:
    """Write the raw lines as shards; return their numbers of pairs and a line on pairs with an empty side."""
    if "valid" not in raw and data.valid_every is None:
        raise ValueError(f"data.valid_every: {data.source} has no validation pairs of its own")
    counted: Info = {"pairs": {}, "empty": []}
    for split, texts in raw.items():
        sizes = counted["pairs"][split] = []
        for number, sides in enumerate(texts.parts(PAIRS, data.train_pairs if split == "train" else None)):
            path = Shard(folder, "raw", split, number, 0).path
            write_whole(path, json.dumps({"sides": sides}, ensure_ascii=False).encode())
            sizes.append(len(sides[0]))
        if split != "train":
            counted["empty"] += texts.empty_lines()
    return counted


def _shards(folder: Path, step: str, split: str, infos: Sequence[Info]) -> list[Shard]:
    """Return the shards of a split, each with the number of pairs before it."""
    starts = accumulate((info["pairs"] for info in infos[:-1]), initial=0)
    return [Shard(folder, step, split, number, start) for number, start in enumerate(starts)]


class Steps:
    """The steps after the raw lines are in shards; the result is the folder's `out`."""

    def __init__(self, raw: Splits, data: ParallelConfig, folder: Path, mapping: Map, say: Say) -> None:
        self._raw, self._data, self._folder, self._map, self._say = raw, data, folder, mapping, say
        self._out = folder / "out"
        self._dictionaries = tuple(str(self._out / f"dict.{language}.txt") for language in data.languages)
        self._report: Info = {}

    def run(self, raw: Shards, empty: list[str]) -> Path:
        """Return the folder of the prepared corpus, made of the raw shards of each split."""
        self._report = {"dropped": [], "empty": empty}
        words = self._words(raw)
        codes = self._codes(words["train"])
        subwords = self._subwords(words, codes)
        self._ids(subwords)
        if codes is not None:
            (self._out / "codes").write_text(codes, "utf-8")
        for split in ("valid", "test"):
            self._write_references(split, subwords[split])
        report = json.dumps(self._report, indent=1, ensure_ascii=False)
        (self._out / "report.json").write_text(f"{report}\n", "utf-8")
        return self._out

    def _words(self, raw: Shards) -> Shards:
        """Split the raw text into words, clean it and take validation pairs out of it."""
        words: Shards = {}
        for split, shards in raw.items():
            infos = list(self._through(f"{split}: words", partial(split_words, self._data), shards))
            words[split] = _shards(self._folder, "words", split, infos)
            if split == "train":
                self._note_dropped(infos)
        if "valid" not in words:
            train = words["train"]
            for split in ("valid", "train"):
                infos = list(self._through(f"{split}: taken out", partial(divide, self._data, split), train))
                words[split] = _shards(self._folder, "divided", split, infos)
        return words

    def _codes(self, train: list[Shard]) -> str | None:
        """Return the merges of subwords, learned from the training words."""
        if self._data.bpe_merges is None:
            return None
        path = self._folder / "codes"
        if not path.exists():
            counts: list[Counter[str]] = [Counter(), Counter()]
            for counters in self._through("vocabulary", vocabulary, train):
                for count, counter in zip(counts, counters, strict=True):
                    count.update(counter)
            codes = learn_bpe(counts[0] + counts[1], self._data.bpe_merges)
            write_whole(path, codes.encode())
        return path.read_bytes().decode()

    def _subwords(self, words: Shards, codes: str | None) -> Shards:
        """Split words into subwords, count them, and make the dictionaries of the counts."""
        counts: list[Counter[str]] = [Counter(), Counter()]
        subwords: Shards = {}
        keys, pairs = {}, {}
        for split in SPLITS:
            infos, digests = [], []
            step = partial(split_subwords, self._data, codes)
            for info in self._through(f"{split}: subwords", step, words[split]):
                digests.append(np.array(info.pop("keys"), np.uint64))
                for count, counter in zip(counts, info.pop("counts"), strict=True):
                    if split == "train":
                        count.update(counter)
                infos.append(info)
            if split == "train" and self._data.clean == "subwords":
                self._note_dropped(infos)
            subwords[split] = _shards(self._folder, "subwords", split, infos)
            keys[split], pairs[split] = np.concatenate(digests), sum(info["pairs"] for info in infos)
        published, differences = _published(self._data, pairs)
        for line in (*self._report["empty"], *self._report["dropped"], *differences):
            self._say(line)
        self._report |= {"pairs": pairs, **published, **count_key_overlaps(keys)}
        paths, joined = self._dictionaries, self._data.joined_dictionary
        for sides in [slice(0, 2)] if joined else [slice(0, 1), slice(1, 2)]:
            _save_dictionary(paths[sides], counts[sides], self._data.dictionary_size)
        return subwords

    def _ids(self, subwords: Shards) -> None:
        """Write fairseq's files of token ids, and note their numbers of tokens and unknowns."""
        paths, pair = self._dictionaries, "-".join(self._data.languages)
        indexed = fairseq().data.indexed_dataset.MMapIndexedDataset
        for split, shards in subwords.items():
            stems = [self._out / f"{split}.{pair}.{language}" for language in self._data.languages]
            sizes: list[list[int]] = [[], []]
            unknown = [0, 0]
            with ExitStack() as stack:
                files = [stack.enter_context(Path(f"{stem}.bin").open("wb")) for stem in stems]
                for sides in self._through(f"{split}: ids", partial(ids, paths), shards):
                    for side, (values, lengths, unknowns) in enumerate(sides):
                        files[side].write(values)
                        sizes[side] += lengths
                        unknown[side] += unknowns
            for side, stem in enumerate(stems):
                with indexed.Index.writer(f"{stem}.idx", dictionary_type(paths[side])) as index:
                    index.write(sizes[side])
                self._report[stem.name] = {"tokens": sum(sizes[side]), "unknown": unknown[side]}

    def _write_references(self, split: str, shards: list[Shard]) -> None:
        """Write the words to score against, and the text: the corpus's own where it is running text."""
        raw, language = self._raw.get(split), Tokenizer(self._data.languages[1], self._data)
        words = [Bpe.join(line) for shard in shards for line in shard.sides()[1]]
        own = list(raw.target) if raw is not None and self._data.tokenize else []
        text = own if len(own) == len(words) else [language.join(line) for line in words]
        for kind, lines in (("words", words), ("text", text)):
            path = self._out / f"{split}.{kind}.{language.language}"
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def _through(self, step: str, function: Callable[[Shard], Any], shards: Sequence[Shard]) -> Iterator[Any]:
        """Yield what a function returns for each shard, in their order, and show how far it is."""
        yield from tqdm(
            self._map(function, shards), step, len(shards), unit=" shards", ncols=80, leave=False, delay=1.0,
            mininterval=0.1 if sys.stderr.isatty() else 30.0,  # a log gets a line now and then
        )  # fmt: skip

    def _note_dropped(self, infos: Sequence[Info]) -> None:
        """Note what was dropped of training, one line per reason; raises ValueError where nothing is left."""
        total, counts, firsts = sum(info["read"] for info in infos), Counter[str](), dict[str, str]()
        for reason, (count, first) in (entry for info in infos for entry in info["dropped"].items()):
            counts[reason] += count
            firsts.setdefault(reason, first)
        lines = [
            f"{self._raw['train'].origin}: dropped {count:,} of {total:,} pairs, {reason}"
            f" (the first: {firsts[reason]})"
            for reason, count in counts.items()
        ]
        if not sum(info["pairs"] for info in infos):
            raise ValueError(f"cleaning leaves no pair: {'; '.join(lines)}")
        self._report["dropped"] = lines


def _published(data: ParallelConfig, pairs: dict[str, int]) -> tuple[Info, list[str]]:
    """Return the published numbers of pairs, if any, and a line where ours differ.

    Raises ValueError where they differ by so much that it must be another corpus.
    """
    source = SOURCES.get(data.source)
    if source is None or source.counts is None or data.own_files() or data.train_pairs is not None:
        return {}, []
    published = dict(zip(SPLITS, source.counts, strict=True))
    if max(abs(pairs[split] - count) / count for split, count in published.items()) > source.tolerance:
        raise ValueError(
            f"{source.files[0].name}: gives {tuple(pairs.values())} pairs for training, validation and test,"
            f" published are {source.counts}: not the same archive"
        )
    lines = [
        f"{data.source}: {pairs[split]:,} pairs for {split}, published are {count:,}"
        f" ({pairs[split] - count:+,})"
        for split, count in published.items()
        if pairs[split] != count
    ]
    return {"published": published}, lines


def _save_dictionary(paths: Sequence[str], counts: Sequence[Counter[str]], size: int | None) -> None:
    """Write fairseq's dictionary of how often the subwords of one language or both occur."""
    dictionary = fairseq().data.Dictionary()
    for word, count in chain.from_iterable(counter.items() for counter in counts):
        dictionary.add_symbol(word, n=count)
    dictionary.finalize(nwords=size or -1, padding_factor=8)
    for path in paths:
        dictionary.save(path)


@contextmanager
def _mapping(processes: int) -> Iterator[Map]:
    """Yield a `map` that computes in so many processes, which end with the block; Python's own for one."""
    if processes == 1:
        yield map
        return
    # Not forked: threads of torch and of Numba would be missing in the child.
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _start)
    try:
        yield pool.map
        pool.shutdown()
    except BaseException as error:  # Ctrl-C, too
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        if not isinstance(error, BrokenProcessPool):
            raise
        raise OSError(
            "a process of the preparation was killed, perhaps for lack of memory; the next start goes on"
            " from the last finished shard"
        ) from None


def _start() -> None:
    """Have a process ignore Ctrl-C, which its parent answers, and end when its parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None, "started by another"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
