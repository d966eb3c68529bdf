"""Makes the runs of a trial, best first, as many as a budget of time has room for."""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import source_of
from adanorm.config.titles import counted, in_words
from adanorm.data.fetch import availability
from adanorm.launch.launch import Launch, run_all
from adanorm.records import reader
from adanorm.records.folder import path_text
from adanorm.runs.setup import compatible_norm
from adanorm.studies.study import Planned
from adanorm.trials.entrant import Entrant, entrant_of
from adanorm.trials.reading import Reading, Records, Setting, read_trial, sources
from adanorm.trials.rules import REFERENCE, Optimizer, Rules

START_SECONDS = 5.0  # from the start of a run's process to its first update
UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


class Wanted(NamedTuple):
    """A run that the trial asks for, on a bed."""

    bed: str
    planned: Planned


@dataclass
class Trial:
    """A norm on trial: what it is, what it is tried with, and where its records lie."""

    norm: str  # as the user names it
    rules: Rules
    optimizer: Optimizer
    settings: tuple[str, ...]  # parameters of the norm, as overrides
    runs: str
    launch: Launch
    left_out: dict[str, str] = field(default_factory=dict)  # beds that cannot run here, and why

    @property
    def entrant(self) -> Entrant:
        """The norm by its code and parameters."""
        bed = next(iter(self.rules.beds.values()))
        norm = bed.experiment(self.norm, self.optimizer, *self.settings).norm
        committed = bed.experiment(self.norm, "adam").norm.params if norm.is_ours else {}
        return entrant_of(norm.model_dump(), norm.code, committed, self.rules)

    def reading(self, optimizer: Optimizer | None = None) -> Reading:
        """Return what the records say so far."""
        records = Records(self.rules, sources(self.runs))
        return read_trial(records, self.entrant, optimizer or self.optimizer)

    def run(self, budget: float) -> str:
        """Make missing runs for `budget` seconds; return why no more are made."""
        ends = time.monotonic() + budget
        while True:
            reading = self.reading()
            wanted = [*self._wanted(reading)]
            if not wanted:
                is_decided = reading.answer not in ("open", "not run")
                return "the answer is decided" if is_decided else "the last look has been reached"
            self.check_source()
            batch = self._fitting(wanted, reading, ends - time.monotonic())
            if not batch:
                return "the next run would take more than is left of the budget"
            left = span(ends - time.monotonic())
            print(f"trial: {counted(len(batch), 'run')} to make; {left} left", file=sys.stderr)
            with redirect_stdout(sys.stderr):
                failed = run_all(batch, self.launch, "trial", self.runs)
            self.check_source()
            if failed:
                raise ValueError(f"a run failed: {failed[0].name}; its log is named above")

    def _wanted(self, reading: Reading) -> Iterator[Wanted]:
        """Yield the missing runs in their order: tries, then fresh runs, up to the next look.

        A bed's tries come right before its first fresh runs. Nothing follows a decision.
        """
        for look in self.rules.looks:
            is_missing = False
            for bed in self.rules.beds:
                if bed in self.left_out:
                    continue
                for wanted in self._wanted_on(bed, reading, look):
                    is_missing = True
                    yield wanted
            if is_missing or (reading.look and reading.answer_at(look) != "open"):
                return

    def _wanted_on(self, bed: str, reading: Reading, look: int) -> Iterator[Wanted]:
        row = reading.rows[bed]
        sides = ((self.norm, row.norm), (REFERENCE, row.reference))
        is_tried = True
        for norm, side in sides:
            if side.chosen is None:
                is_tried = False
                yield from self._tries(bed, norm, side.tried)
        if not is_tried:
            return
        for seed in reading.entrant.seeds(look):
            for norm, side in sides:
                if seed not in side.fresh:
                    assert side.chosen is not None, "checked above"
                    yield self._planned(bed, norm, self._overrides(bed, norm, side.chosen), seed)

    def _tries(self, bed: str, norm: str, tried: object) -> Iterator[Wanted]:
        for seed in self.rules.tuning:
            for setting in self._settings(bed, norm):
                wanted = self._planned(bed, norm, setting, seed)
                if not is_on_record(wanted.planned.experiment):
                    yield wanted

    def _settings(self, bed: str, norm: str) -> list[tuple[str, ...]]:
        parameter = self.entrant.parameter if norm == self.norm else None
        return self.rules.tries(self.rules.beds[bed], parameter)

    def _overrides(self, bed: str, norm: str, chosen: Setting) -> tuple[str, ...]:
        """Return the planned try whose setting is the chosen one, as overrides."""
        for overrides in self._settings(bed, norm):
            run = self._planned(bed, norm, overrides, 1).planned.experiment
            if (run.training.lr, tuple(sorted(run.norm.params.items()))) == chosen:
                return overrides
        raise ValueError(f"{bed}, {norm}: the records have tries that the rules do not have")

    def _planned(self, bed: str, norm: str, overrides: Sequence[str], seed: int) -> Wanted:
        facts = self.rules.beds[bed]
        settings = (*overrides, *(self.settings if norm == self.norm else ()))
        run = facts.experiment(norm, self.optimizer, *settings)
        run = run.model_copy(update={"seed": seed, "runs": self.runs})
        arguments = [f"task={facts.task}", f"norm={norm}", f"scale={facts.scale}"]
        arguments += [*facts.overrides, *settings, f"seed={seed}", f"runs={self.runs}"]
        if self.optimizer != "adam":
            arguments.append(f"training.optimizer={self.optimizer}")
        return Wanted(bed, Planned(norm, run, arguments))

    def _fitting(self, wanted: Sequence[Wanted], reading: Reading, seconds: float) -> list[Planned]:
        """Return the first runs of the first bed that fit into the time, `workers` at a time."""
        for bed in dict.fromkeys(entry.bed for entry in wanted):
            rounds = int(seconds // (self._seconds(bed, reading) + START_SECONDS))
            if rounds > 0:
                runs = [entry.planned for entry in wanted if entry.bed == bed]
                return runs[: rounds * self.launch.workers]
        return []

    def _seconds(self, bed: str, reading: Reading) -> float:
        """Return about how long a run of a bed takes: as runs on record, or as the rules say."""
        row = reading.rows[bed]
        seconds = []
        for side in (row.norm, row.reference):
            for tried in side.tried.values():
                seconds += [result.seconds for result in tried.results if result]
            seconds += [run.result.seconds for run in side.fresh.values()]
        known = [time for time in seconds if time]
        return median(known) if known else 60 * self.rules.beds[bed].minutes

    def check_source(self) -> None:
        """Raise ValueError if the norm's source is not what this process began with."""
        bed = next(iter(self.rules.beds.values()))
        norm = bed.experiment(self.norm, self.optimizer, *self.settings).norm
        if norm.is_ours:
            return
        before = norm.code
        source_of.cache_clear()
        for file, content in norm.code.items():
            if before.get(file) != content:
                raise ValueError(edited(file, self.runs))

    def check_tries(self) -> None:
        """Raise ValueError if the folder has tries of the norm with another source."""
        records = Records(self.rules, [Path(self.runs)])
        entrant = self.entrant
        if entrant.path is None:
            return
        for bed in self.rules.beds:
            for run in records.of(bed):
                tried = run.entrant
                is_same = (tried.path, tried.params) == (entrant.path, entrant.params)
                if is_same and tried.digest != entrant.digest:
                    file = entrant.path.partition(":")[0].replace(".", "/")
                    raise ValueError(edited(f"{file}.py", self.runs))


def edited(file: str, runs: str) -> str:
    """Return the line that ends the trial of a norm whose source has been changed."""
    return (
        f"{file}: changed since the tries in {path_text(Path(runs))}: an edited norm is another"
        " norm; start its trial with another runs=FOLDER"
    )


def is_on_record(run: Experiment) -> bool:
    """Return whether a run has ended, in its folder or among the records of this checkout."""
    here = run.model_copy(update={"runs": None})
    return reader.is_complete(run.folder()) or reader.is_complete(here.folder())


def beds_left_out(rules: Rules, norm: str, settings: Sequence[str]) -> dict[str, str]:
    """Return the beds that cannot run here, each with the reason; ValueError if none can."""
    left_out = {}
    for name, bed in rules.beds.items():
        run = bed.experiment(norm, "adam", *settings)
        try:
            compatible_norm(run)
        except ValueError as error:
            left_out[name] = str(error)
            continue
        if availability(run.data.source, run.data) is not None:
            command = f"adanorm data task={bed.task} scale={bed.scale}"
            left_out[name] = f"its data are not here; `{command}` gets them"
    if len(left_out) == len(rules.beds):
        raise ValueError(f"{norm}: no bed can run: {next(iter(left_out.values()))}")
    return left_out


def budget_seconds(text: str) -> float:
    """Return the seconds of a budget such as 90s or 2h; ValueError for any other text."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(s|min|h|d)", text, re.ASCII)
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise ValueError(f"budget={text}: write a time above zero such as 90s, 10min, 2h or 1d")
    return seconds


def span(seconds: float) -> str:
    """Return a time as text, such as `90 s`, `10 min` or `3 hours`."""
    return f"{max(0, seconds):.0f} s" if seconds < 100 else in_words(seconds / 3600)
