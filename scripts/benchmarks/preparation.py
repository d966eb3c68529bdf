"""Preparation of a parallel corpus in one process and in several: `python -m scripts.benchmarks.preparation`.

The corpus is made up: `pairs` pairs whose words have realistic frequencies (Zipf's law). It goes
through Moses's tokenizer (tokenize=true) and `merges` merges. `processes` are the numbers of
processes to compare. Memory is the peak of all together: `memory_gb` counts a shared page once,
`resident_gb` per process.

pairs=4500000 is the size of En-De and takes hours. tokenize=false merges=0 measures reading,
cleaning, dictionaries and token ids alone.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import ParallelConfig
from adanorm.config.errors import whole_number
from adanorm.data.translation.fairseq_library import fairseq
from adanorm.data.translation.preparation import cores, prepared_corpus
from scripts.benchmarks.harness import Options, Row, Spread, run_benchmark

LANGUAGES = ("en", "de")
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
BLOCK = 100_000  # pairs written at a time
WORDS = 1_000_000  # possible words; about a third of them occur in 4.5 million pairs
SECONDS = 0.2  # between two measurements of memory


def measure(options: Options) -> Iterator[Row]:
    """Yield one row per number of processes; the ratio is its time over the first row's."""
    keys = options.keys
    pairs = whole_number("pairs", keys["pairs"])
    about = {"pairs": pairs, "tokenize": keys["tokenize"], "merges": keys["merges"]}
    settings = [
        f"data.tokenize={keys['tokenize']}",
        f"data.bpe_merges={int(keys['merges']) or 'null'}",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder, first = Path(name), 0.0
        _write_corpus(folder, pairs)
        for count in (int(number) for number in keys["processes"].split(",")):
            seconds, shared, resident, cpu = _watched(
                folder / f"cache{count}", folder, settings, count
            )
            first = first or seconds
            times = {"seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1)}
            memory = {"memory_gb": round(shared / 1e9, 2), "resident_gb": round(resident / 1e9, 2)}
            ratio = Spread.of([seconds / first])
            yield {**about, "processes": count, **times, **memory, "ratio": ratio}


def _write_corpus(folder: Path, pairs: int) -> None:
    """Write training, validation and test texts, with 5 to 45 made-up words per line."""
    random = np.random.default_rng(0)
    for split, count in (("train", pairs), ("valid", 3000), ("test", 3000)):
        for language in LANGUAGES:
            with (folder / f"{split}.{language}").open("w") as file:
                for start in range(0, count, BLOCK):
                    lengths = random.integers(5, 46, min(BLOCK, count - start))
                    drawn = np.minimum(random.zipf(1.25, int(lengths.sum())), WORDS)
                    for line in np.split(drawn, np.cumsum(lengths)[:-1]):
                        file.write(
                            " ".join(_word(number, language) for number in line.tolist()) + " .\n"
                        )


@cache
def _word(number: int, language: str) -> str:
    """Return the made-up word of a number; frequent words, with small numbers, are short."""
    random = Random(f"{number} {language}")
    return "".join(random.choices(LETTERS, k=2 + len(str(number)) + number % 3))


def _prepare(cache: Path, corpus: Path, settings: list[str], processes: int) -> None:
    """Prepare the corpus in `cache`, and write to `cache/seconds` how many seconds it took."""
    fairseq()  # imported before the clock starts: a run imports it anyway
    own = [f"data.{split}={corpus / split}" for split in ("train", "valid", "test")]
    data = compose_experiment(["task=en-de", f"data.cache={cache}", *own, *settings]).data
    assert isinstance(data, ParallelConfig)
    started = time.monotonic()
    prepared_corpus(data, processes=processes)
    (cache / "seconds").write_text(str(time.monotonic() - started))


def _watched(
    cache: Path, corpus: Path, settings: list[str], processes: int
) -> tuple[float, int, int, float]:
    """Return seconds, peak memory (shared, resident; bytes) and CPU seconds of a preparation."""
    before = os.times()
    arguments = (cache, corpus, settings, processes)
    process = multiprocessing.get_context("spawn").Process(target=_prepare, args=arguments)
    process.start()
    shared = resident = 0
    while process.is_alive():
        sizes = [_memory(pid) for pid in _family(process.pid or 0)]
        shared = max(shared, sum(size for size, _ in sizes))
        resident = max(resident, sum(size for _, size in sizes))
        process.join(SECONDS)
    if process.exitcode != 0:
        raise ValueError(f"the preparation ended with code {process.exitcode}")
    cpu = sum(os.times()[2:4]) - sum(before[2:4])  # of the children, user and system time
    return float((cache / "seconds").read_text()), shared, resident, cpu


def _family(pid: int) -> list[int]:
    """Return the ids of a process and of all its descendants."""
    family = [pid]
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            family += [other for child in path.read_text().split() for other in _family(int(child))]
    return family


def _memory(pid: int) -> tuple[int, int]:
    """Return a process's proportional and resident memory (Pss, Rss) in bytes; zeros if it has ended."""
    with suppress(OSError):
        lines = [
            line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        ]
        sizes = {words[0]: 1024 * int(words[1]) for words in lines if words[-1] == "kB"}
        return sizes["Pss:"], sizes["Rss:"]
    return 0, 0


if __name__ == "__main__":
    processes = f"1,{cores()}" if cores() > 1 else "1"
    keys = {"pairs": "100000", "merges": "32000", "tokenize": "true", "processes": processes}
    run_benchmark(measure, rounds=1, keys=keys)
