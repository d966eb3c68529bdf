"""The stages of a preparation, each gone through shard by shard and kept when it is finished."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from adanorm.config.data_sections import ParallelConfig
from adanorm.config.user_files import SPLITS
from adanorm.data.catalogue import SOURCES
from adanorm.data.inspection import count_key_overlaps
from adanorm.data.translation import shards
from adanorm.data.translation.cleaning import Dropped
from adanorm.data.translation.corpora import Splits
from adanorm.data.translation.fairseq_files import make_dictionaries, merge_ids
from adanorm.data.translation.shards import Info, Shard
from adanorm.data.translation.tokenization import Bpe, Tokenizer, learn_bpe
from adanorm.data.translation.workers import Progress, Say, Workers
from adanorm.files import write_whole

Job = tuple[Shard, Callable[..., Info], tuple[Any, ...]]  # a shard to finish, and what finishes it


class Stages:
    """A preparation that is under way in a folder; its result is the folder's `out`."""

    def __init__(self, raw: Splits, data: ParallelConfig, folder: Path, workers: Workers, say: Say) -> None:
        self._raw, self._data, self._folder, self._workers, self._say = raw, data, folder, workers, say
        self._out = folder / "out"

    def run(self) -> Path:
        """Go through the stages that are not finished, and return the folder of the prepared corpus.

        Raises ValueError where the corpus cannot be read or is not what it should be.
        """
        words = self._finished("words", self._words)
        codes = self._finished("codes", lambda: self._codes(words))
        report = self._finished("subwords", lambda: self._subwords(words, codes))
        for line in (*words["empty"], *report["dropped"], *report.pop("differs")):
            self._say(line)
        sizes = report.pop("shards")
        for stage in ("words", "divided"):  # what no later stage reads
            shutil.rmtree(self._folder / stage, ignore_errors=True)
        report |= self._ids(sizes)
        if codes is not None:
            (self._out / "codes").write_text(codes, "utf-8")
        for split in ("valid", "test"):
            self._write_references(split, self._shards("subwords", split, sizes[split]))
        report = {"dropped": report.pop("dropped"), "empty": words["empty"], **report}
        (self._out / "report.json").write_text(
            json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        return self._out

    def _finished(self, stage: str, compute: Callable[[], Any]) -> Any:
        """Return what a stage came to: now, or when it was finished."""
        path = self._folder / f"{stage}.json"
        if not path.exists():
            (self._folder / stage).mkdir(exist_ok=True)
            write_whole(path, json.dumps(compute()).encode())
        return json.loads(path.read_bytes())

    def _words(self) -> Info:
        """Split the raw text into words, clean it and take validation pairs out of it."""
        data = self._data
        if "valid" not in self._raw and data.valid_every is None:
            raise ValueError(f"data.valid_every: {data.source} has no validation pairs of its own")
        found: Info = {"shards": {}, "folders": {}, "dropped": [], "empty": []}
        for split, raw in self._raw.items():
            cleaned = split == "train" and data.clean == "words"
            limit = data.train_pairs if split == "train" else None
            size = sum(1 for _ in raw.source)
            jobs: Iterator[Job] = (
                (
                    self._shard("words", split, number, number * shards.PAIRS),
                    shards.words,
                    (data, part, cleaned),
                )
                for number, part in enumerate(raw.parts(shards.PAIRS, limit))
            )
            infos = list(self._done(f"{split}: words", min(size, limit or size), jobs))
            found["shards"][split] = [info["pairs"] for info in infos]
            found["folders"][split] = "words"
            if split == "train":
                found["dropped"] = _dropped(infos, raw.origin)
            else:
                found["empty"] += raw.empty_lines()
        if "valid" not in self._raw:
            self._divide(found)
        return found

    def _divide(self, found: Info) -> None:
        """Take every n-th of the cleaned training pairs out for validation."""
        (self._folder / "divided").mkdir(exist_ok=True)
        sizes = found["shards"]["train"]
        for split in ("valid", "train"):
            jobs: Iterator[Job] = (
                (self._shard("divided", split, source.number), shards.divide, (self._data, source))
                for source in self._shards("words", "train", sizes)
            )
            infos = self._done(f"{split}: taken out", sum(sizes), jobs)
            found["shards"][split] = [info["pairs"] for info in infos]
            found["folders"][split] = "divided"

    def _codes(self, words: Info) -> str | None:
        """Learn the merges of subwords from the training words."""
        if self._data.bpe_merges is None:
            return None
        counts: list[Counter[str]] = [Counter(), Counter()]
        sources = self._shards(words["folders"]["train"], "train", words["shards"]["train"])
        for found in self._workers.map((shards.vocabulary, (source,)) for source in sources):
            for side in (0, 1):
                counts[side].update(found[side])
        return learn_bpe(counts[0] + counts[1], self._data.bpe_merges, self._say).codes

    def _subwords(self, words: Info, codes: str | None) -> Info:
        """Split words into subwords, count them, and make the dictionaries of the counts."""
        data = self._data
        counts: list[Counter[str]] = [Counter(), Counter()]
        found: Info = {"shards": {}, "dropped": words["dropped"]}
        for split in SPLITS:
            cleaned = split == "train" and data.clean == "subwords"
            sources = self._shards(words["folders"][split], split, words["shards"][split])
            jobs: Iterator[Job] = (
                (
                    source._replace(folder=str(self._folder / "subwords")),
                    shards.subwords,
                    (data, codes, source, cleaned),
                )
                for source in sources
            )
            found["shards"][split], infos = [], []
            for info in self._done(f"{split}: subwords", sum(words["shards"][split]), jobs):
                found["shards"][split].append(info["pairs"])
                for side, more in enumerate(info.pop("counts") if split == "train" else ()):
                    counts[side].update(more)
                infos.append(info)
            if cleaned:
                found["dropped"] = _dropped(infos, self._raw["train"].origin)
        pairs = {split: sum(found["shards"][split]) for split in SPLITS}
        found |= {"pairs": pairs, **self._published(pairs)}
        keys = {
            split: np.concatenate(
                [shard.keys() for shard in self._shards("subwords", split, found["shards"][split])]
            )
            for split in SPLITS
        }
        for language, dictionary in zip(data.languages, make_dictionaries(counts, data), strict=True):
            dictionary.save(str(self._out / f"dict.{language}.txt"))
        return found | count_key_overlaps(keys)

    def _published(self, pairs: dict[str, int]) -> Info:
        """Return the published numbers of pairs, if any, and a line where ours differ.

        Raises ValueError where they differ by so much that it must be another corpus.
        """
        source, data = SOURCES.get(self._data.source), self._data
        if source is None or source.counts is None or data.own_files() or data.train_pairs is not None:
            return {"differs": []}
        published = dict(zip(SPLITS, source.counts, strict=True))
        found = tuple(pairs.values())
        off = max(abs(pairs[split] - there) / there for split, there in published.items())
        if off > source.tolerance:
            raise ValueError(
                f"{source.files[0].name}: gives {found} pairs for training, validation and test, published"
                f" are {source.counts}: not the same archive"
            )
        lines = [
            f"{self._data.source}: {pairs[split]:,} pairs for {split}, published are {there:,}"
            f" ({pairs[split] - there:+,})"
            for split, there in published.items()
            if pairs[split] != there
        ]
        return {"published": published, "differs": lines}

    def _ids(self, sizes: dict[str, list[int]]) -> Info:
        """Write fairseq's files of token ids, and return their numbers of tokens and unknowns."""
        (self._folder / "ids").mkdir(exist_ok=True)
        pair, found = "-".join(self._data.languages), {}
        paths = tuple(str(self._out / f"dict.{language}.txt") for language in self._data.languages)
        for split in SPLITS:
            sources = self._shards("subwords", split, sizes[split])
            outs = [source._replace(folder=str(self._folder / "ids")) for source in sources]
            jobs: Iterator[Job] = (
                (out, shards.ids, (paths, source)) for out, source in zip(outs, sources, strict=True)
            )
            infos = list(self._done(f"{split}: ids", sum(sizes[split]), jobs))
            for side, language in enumerate(self._data.languages):
                stem = f"{split}.{pair}.{language}"
                merge_ids(outs, language, self._out / stem, shards.dictionary_type(paths[side]))
                found[stem] = {
                    name: sum(info[language][name] for info in infos) for name in ("tokens", "unknown")
                }
        return found

    def _write_references(self, split: str, sources: Sequence[Shard]) -> None:
        """Write the words to score against, and the text: the corpus's own where it is running text."""
        raw, language = self._raw.get(split), Tokenizer(self._data.languages[1], self._data)
        words = [Bpe.join(line) for source in sources for line in source.lines(1)]
        own = list(raw.target) if raw is not None and self._data.tokenize else []
        text = own if len(own) == len(words) else [language.join(line) for line in words]
        for kind, lines in (("words", words), ("text", text)):
            path = self._out / f"{split}.{kind}.{language.language}"
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def _shard(self, stage: str, split: str, number: int, start: int = 0) -> Shard:
        return Shard(str(self._folder / stage), split, number, self._data.languages, start)

    def _shards(self, stage: str, split: str, sizes: Sequence[int]) -> list[Shard]:
        """Return the shards of a split, each with the number of pairs before it."""
        starts = accumulate(sizes, initial=0)
        return [
            self._shard(stage, split, number, start)
            for number, (start, _) in enumerate(zip(starts, sizes, strict=False))
        ]

    def _done(self, step: str, total: int, jobs: Iterator[Job]) -> Iterator[Info]:
        """Yield what was counted of each shard, in their order; one that is finished stays as it is."""
        with Progress(step, total, self._say) as progress:
            calls = ((shards.once, job) for job in jobs)
            for info, was_there in self._workers.map(calls):
                progress.add(info["read"], now=not was_there)
                yield info


def _dropped(infos: Sequence[Info], origin: str) -> list[str]:
    """Return what was dropped of all shards, a line a reason; raises ValueError where nothing is left."""
    dropped = Dropped(sum(info["read"] for info in infos))
    for reason, count, where in (entry for info in infos for entry in info["dropped"]):
        dropped.add(reason, where, count)
    lines = dropped.lines(origin)
    if not sum(info["pairs"] for info in infos):
        raise ValueError(f"cleaning leaves no pair: {'; '.join(lines)}")
    return lines
