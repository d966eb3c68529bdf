"""The harness of the benchmarks: sides take turns, ratios have a spread, rows name their processor.

A benchmark is a file with a function that yields rows and, at its end, `run_benchmark(measure,
rounds=...)`; `python -m scripts.benchmarks.NAME --help` shows its keys. A ratio is a `Spread`. A
row is written with its spreads, the rounds, the threads and the processor.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar
from unittest.mock import patch

import torch

from adanorm.config.errors import whole_number
from adanorm.records.environment import describe
from scripts.command_line import ended_by_mistakes, parse_keys

T = TypeVar("T")
SideT = TypeVar("SideT")
Row = dict[str, Any]


class Spread(NamedTuple):
    """The median, quartiles and extremes of a number over rounds."""

    median: float
    lowest: float
    lower_quartile: float
    upper_quartile: float
    highest: float
    rounds: int

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Spread:
        """Return the spread of one number per round."""
        lower, middle, upper = (
            quantiles(numbers, method="inclusive") if len(numbers) > 1 else [*numbers] * 3
        )
        return cls(middle, min(numbers), lower, upper, max(numbers), len(numbers))

    def columns(self, name: str) -> dict[str, float]:
        """Return the CSV columns of a number called `name`, which is their prefix unless it is `ratio`."""
        prefix = "" if name == "ratio" else f"{name}_"
        names = [name, *(f"{prefix}{key}" for key in self._fields[1:-1])]
        return {key: float(f"{value:.4g}") for key, value in zip(names, self[:-1], strict=True)}

    def __str__(self) -> str:
        if self.rounds == 1:
            return f"{self.median:.3f} (one round)"
        quartiles = f"quartiles {self.lower_quartile:.3f} to {self.upper_quartile:.3f}"
        every = f"all {self.lowest:.3f} to {self.highest:.3f}, {self.rounds} rounds"
        return f"{self.median:.3f} ({quartiles}, {every})"


@dataclass(frozen=True)
class Rounds(Generic[SideT]):
    """The cost of each side in each round, in seconds or another unit; less is better."""

    spent: Mapping[SideT, Sequence[float]]

    def median(self, side: SideT) -> float:
        """Return the median over rounds of what `side` spent."""
        return median(self.spent[side])

    def ratio(self, side: SideT, other: SideT) -> Spread:
        """Return the spread of the rounds' ratios, what `side` spent : what `other` spent."""
        pairs = zip(self.spent[side], self.spent[other], strict=True)
        return Spread.of([mine / theirs for mine, theirs in pairs])


def take_turns(
    sides: Mapping[SideT, Callable[[], float]], rounds: int, *, warm_up: int = 1
) -> Rounds[SideT]:
    """Return what the sides spent in `rounds` rounds, after `warm_up` rounds that are not counted.

    A side is called once per round and returns what it spent. Each goes first in turn, so two go
    AB, BA, AB: in a fixed order, caches and a machine that slows down would favor one side.
    """
    spent: dict[SideT, list[float]] = {side: [] for side in sides}
    order = deque(sides)
    for round_ in range(warm_up + rounds):
        for side in order:
            amount = sides[side]()
            if round_ >= warm_up:
                spent[side].append(amount)
        order.rotate(-1)
    return Rounds(spent)


def timed(
    work: Callable[[], Any], *, clock: Callable[[], float] = time.perf_counter, cuda: bool = False
) -> Callable[[], float]:
    """Return a side of `take_turns`: it does the work and returns its seconds by `clock`.

    `time.process_time` counts the processor time of this process and its threads. With `cuda` the
    clock stops when the GPU has finished.
    """
    wait: Callable[[], object] = torch.cuda.synchronize if cuda else lambda: None

    def side() -> float:
        wait()
        started = clock()
        work()
        wait()
        return clock() - started

    return side


def flat(row: Row) -> dict[str, Any]:
    """Return the CSV columns of a row that has a spread or a number of rounds; several for each spread."""
    columns: dict[str, Any] = {}
    spreads = {name: value for name, value in row.items() if isinstance(value, Spread)}
    for name, value in row.items():
        columns |= spreads[name].columns(name) if name in spreads else {name: value}
    for name, spread in spreads.items():
        if columns.setdefault("rounds", spread.rounds) != spread.rounds:
            columns[f"{name}_rounds"] = spread.rounds
    assert "rounds" in columns, f"a row without rounds or spread: {row}"
    return columns


def where_and_when() -> dict[str, Any]:
    """Return the last columns of every row: threads, processor, load, date, torch's version, commit."""
    facts = described(torch.device("cpu"))
    today, load = datetime.now(UTC).date().isoformat(), round(os.getloadavg()[0], 1)
    machine = {
        "threads": facts["threads"],
        "processor": facts["device"],
        "load": load,
        "date": today,
    }
    return machine | {
        "torch": facts["packages"]["torch"],
        "commit": facts["commit"],
        "dirty": facts["dirty"],
    }


def described(device: torch.device) -> dict[str, Any]:
    """Return the machine and versions that a benchmark runs on, as in the records of runs."""
    return describe(device=device, precision="", processes=1, threads=torch.get_num_threads())


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows to a CSV; a row may lack columns, or have its own number of threads."""
    facts = where_and_when()
    full_rows = [{**facts, **flat(row)} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        names = dict.fromkeys(name for row in full_rows for name in row if name not in facts)
        writer = csv.DictWriter(file, [*names, *facts], lineterminator="\n")
        writer.writeheader()
        writer.writerows(full_rows)


def _line(row: Row) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in row.items() if value is not None
    )


class Options(NamedTuple):
    """A benchmark's command line: the number of rounds and its other keys."""

    rounds: int
    keys: dict[str, str]


def run_benchmark(
    measure: Callable[[Options], Iterable[Row]],
    *,
    rounds: int,
    threads: int | None = 1,
    keys: Mapping[str, str] = MappingProxyType({}),
    as_line: Callable[[Row], str] = _line,
) -> Path:
    """Measure as the command line says, write <output>/<name of the benchmark>.csv and return its path.

    The arguments are the keys' defaults; `threads` None is as many as torch takes here. --help ends
    the process; so does a user's mistake, with one line and exit code 2.
    """
    name, about = Path(sys.argv[0]).stem, sys.modules["__main__"].__doc__
    used = threads or torch.get_num_threads()
    defaults = {"rounds": str(rounds), "threads": str(used), "output": "results/bench", **keys}
    if {"-h", "--help"} & {*sys.argv[1:]}:
        print(f"{about}\nKeys: {' '.join(f'{key}={value}' for key, value in defaults.items())}")
        raise SystemExit(0)
    rows = []
    with ended_by_mistakes():
        chosen = parse_keys(sys.argv[1:], defaults)
        torch.set_num_threads(whole_number("threads", chosen["threads"]))
        for row in measure(Options(whole_number("rounds", chosen["rounds"]), chosen)):
            print(as_line(row), flush=True)
            rows.append(row)
    path = Path(chosen["output"]) / f"{name}.csv"
    write(path, rows)
    return path


def fresh_process(
    function: Callable[..., T], *arguments: Any, environment: Mapping[str, str | None] | None = None
) -> T:
    """Return function(*arguments), computed in a new process with as many threads as this one.

    Variables in `environment` are set there, or unset where None: the C library reads some only at
    start.
    """
    changed = {**os.environ, **(environment or {})}
    kept = {name: value for name, value in changed.items() if value is not None}
    spawn, threads = multiprocessing.get_context("spawn"), torch.get_num_threads()
    with (
        patch.dict(os.environ, kept, clear=True),
        ProcessPoolExecutor(1, spawn, torch.set_num_threads, (threads,)) as process,
    ):
        return process.submit(function, *arguments).result()


def peak_mb() -> float:
    """Return the largest resident size of this process in MB, from Linux's VmHWM.

    Not ru_maxrss of getrusage: a spawned process inherits its parent's.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def added_peak_mb(work: Callable[[], Any]) -> float:
    """Return by how many MB `work` raises the peak resident size when it is done a second time.

    Freed memory must return to the system at once: MALLOC_MMAP_THRESHOLD_=65536.
    """
    work()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is resident
    before = peak_mb()
    work()
    return peak_mb() - before
