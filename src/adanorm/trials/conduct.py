"""Makes the runs of a trial, best first, until a budget of time is over."""

import math
import re
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NoReturn

from adanorm.config.experiment import Experiment
from adanorm.config.outside_norms import source_of
from adanorm.config.sections import NormConfig
from adanorm.config.titles import counted, in_words
from adanorm.data.fetch import availability
from adanorm.launch.launch import Launch, run_all
from adanorm.records import reader
from adanorm.records.folder import path_text
from adanorm.runs.setup import compatible_norm
from adanorm.studies.study import Planned
from adanorm.trials.entrant import Entrant, Parameter, entrant_of
from adanorm.trials.reading import Reading, Records, Row, Setting, read_trial, sources
from adanorm.trials.rules import REFERENCE, Optimizer, Rules, setting_overrides

UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86400}


class BudgetError(Exception):
    """The time for runs is over; those under way resume at the next start."""


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
    def config(self) -> NormConfig:
        """The norm's section of a run's settings."""
        bed = next(iter(self.rules.beds.values()))
        return bed.experiment(self.norm, self.optimizer, *self.settings).norm

    @property
    def entrant(self) -> Entrant:
        """The norm by its code and parameters."""
        bed = next(iter(self.rules.beds.values()))
        norm = self.config
        committed = bed.experiment(self.norm, "adam").norm.params
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
            runs = self.next_runs(reading)
            if not runs:
                is_open = reading.answer in ("open", "not run")
                return "the last look has been reached" if is_open else "the answer is decided"
            self.check_source()
            left = ends - time.monotonic()
            if left <= 0:
                return "the budget is over"
            print(f"trial: {counted(len(runs), 'run')} to make; {span(left)} left", file=sys.stderr)
            try:
                with redirect_stdout(sys.stderr), ends_after(left):
                    failed = run_all(runs, self.launch, "trial", self.runs)
            except BudgetError:
                return "the budget is over, and the next start resumes the runs under way"
            self.check_source()
            if failed:
                raise ValueError(f"a run failed: {failed[0].name}; its log is named above")

    def next_runs(self, reading: Reading) -> list[Planned]:
        """Return the missing runs of the next bed: its tries, or its fresh runs up to a look.

        There are none after the last look, or once the answer is decided.
        """
        for look in self.rules.looks:
            for bed, row in reading.rows.items():
                if bed in self.left_out:
                    continue
                runs = [*self._tries(bed, row)]
                if not runs:
                    runs = [*self._fresh(bed, row, look)]
                if runs:
                    return runs
            if reading.answer not in ("open", "not run"):
                return []
        return []

    def _sides(self, row: Row) -> tuple[tuple[str, Parameter | None, Setting | None], ...]:
        """Return the norm and LayerNorm: name, parameter to try, and the setting chosen."""
        return (
            (self.norm, row.entrant.parameter, row.norm.chosen),
            (REFERENCE, None, row.reference.chosen),
        )

    def _tries(self, bed: str, row: Row) -> Iterator[Planned]:
        """Yield the missing tries of a bed."""
        for seed in self.rules.tuning:
            for norm, parameter, chosen in self._sides(row):
                if chosen is not None:
                    continue
                for setting in self.rules.tries(row.bed, parameter):
                    run = self.planned(bed, norm, setting, seed)
                    if not is_on_record(run.experiment):
                        yield run

    def _fresh(self, bed: str, row: Row, look: int) -> Iterator[Planned]:
        """Yield the missing fresh runs of a bed whose settings are chosen."""
        for seed in row.entrant.seeds(look):
            for side, (norm, parameter, chosen) in zip(row.sides, self._sides(row), strict=True):
                if chosen is None or seed in side.fresh:
                    continue
                rate, params = chosen
                name = parameter[0] if parameter else ""
                tried = {key: value for key, value in params if key == name}
                setting = setting_overrides(rate, **tried)
                yield self.planned(bed, norm, setting, seed)

    def planned(self, bed: str, norm: str, overrides: Sequence[str], seed: int) -> Planned:
        """Return a run of the trial and the command that makes it."""
        facts = self.rules.beds[bed]
        settings = [*overrides]
        if norm == self.norm:
            settings += self.settings
        run = facts.experiment(norm, self.optimizer, *settings)
        run = run.model_copy(update={"seed": seed, "runs": self.runs})
        arguments = [f"task={facts.task}", f"norm={norm}", f"scale={facts.scale}"]
        arguments += [*facts.overrides, *settings, f"seed={seed}", f"runs={self.runs}"]
        if self.optimizer != "adam":
            arguments.append(f"training.optimizer={self.optimizer}")
        return Planned(norm, run, arguments)

    def outlook(self, reading: Reading) -> str | None:
        """Return what is missing to the first answer, and about how long it takes; None after it.

        A run takes as long as those on record, or as the rules say.
        """
        bed = next((bed for bed in reading.rows if bed not in self.left_out), None)
        if reading.look or bed is None:
            return None
        row = reading.rows[bed]
        count = 0
        for side in row.sides:
            if side.chosen is None:
                count += max(0, len(self.rules.rates) - len(side.tried))
            count += max(0, self.rules.looks[0] - len(side.fresh))
        known = row.norm.seconds + row.reference.seconds
        seconds = median(known or [60 * row.bed.minutes])
        rounds = math.ceil(count / self.launch.workers)
        runs = f"{counted(count, 'run')} of {row.bed.title}"
        duration = span(rounds * seconds)
        return f"The first answer takes {runs} more, about {duration} on this machine."

    def check_source(self) -> None:
        """Raise ValueError if the norm's source is not what this process began with."""
        code = self.config.code
        source_of.cache_clear()
        for file, content in self.config.code.items():
            if code.get(file) != content:
                raise ValueError(edited(file, self.runs))

    def check_tries(self) -> None:
        """Raise ValueError if the folder has tries of the norm with another source."""
        records = Records(self.rules, [Path(self.runs)])
        entrant = self.entrant
        if entrant.path is None:
            return
        for bed in self.rules.beds:
            for run in records.on(bed, records.folders):
                tried = run.entrant
                is_same = (tried.path, tried.params) == (entrant.path, entrant.params)
                if is_same and tried.digest != entrant.digest:
                    file = entrant.path.partition(":")[0].replace(".", "/")
                    raise ValueError(edited(f"{file}.py", self.runs))


@contextmanager
def ends_after(seconds: float) -> Iterator[None]:
    """Raise BudgetError within a block that lasts longer than this."""

    def stop(number: int, frame: object) -> NoReturn:
        raise BudgetError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
