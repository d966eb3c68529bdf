"""Makes the runs of a trial, best first, until a budget of time is over."""

import math
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import NoReturn

from adanorm.config.compose import cached_experiment
from adanorm.config.outside_norms import source_of
from adanorm.config.paths import RUNS
from adanorm.config.sections import NormConfig
from adanorm.config.titles import counted, in_words
from adanorm.data.fetch import availability
from adanorm.records.folder import path_text
from adanorm.runs.execute import compatible_norm
from adanorm.studies.launch import Launch, run_all
from adanorm.studies.study import Planned
from adanorm.trials.entrant import Entrant, entrant_of
from adanorm.trials.reading import (
    DECIDED,
    Reading,
    Row,
    Side,
    read_trial,
    trial_runs,
)
from adanorm.trials.rules import REFERENCE, Bed, Optimizer, Rules, Setting

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
        return bed.experiment(self.norm, *self.settings).norm

    @property
    def entrant(self) -> Entrant:
        """The norm by its code and parameters."""
        bed = next(iter(self.rules.beds.values()))
        committed = bed.experiment(self.norm).norm.params
        norm = self.config
        return entrant_of(norm.model_dump(), norm.code, committed, self.rules)

    @property
    def name(self) -> str:
        """The name of the trial's page: that of the norm, its digest and another optimizer's."""
        parts = [self.entrant.name, self.entrant.digest]
        return "-".join(parts if self.optimizer == "adam" else [*parts, self.optimizer])

    def reading(self, optimizer: Optimizer | None = None) -> Reading:
        """Return what the records say so far."""
        runs = trial_runs(self.rules, [Path(self.runs), RUNS])
        return read_trial(self.rules, runs, self.entrant, optimizer or self.optimizer)

    def run(self, budget: float) -> str:
        """Make missing runs for `budget` seconds; return why no more are made."""
        ends = time.monotonic() + budget
        while True:
            reading = self.reading()
            runs = self.next_runs(reading)
            if not runs:
                is_decided = reading.answer in DECIDED
                return "the answer is decided" if is_decided else "the last look has been reached"
            left = ends - time.monotonic()
            if left <= 0:
                return "the budget is over"
            count = counted(len(runs), "run")
            logs = path_text(Path(self.runs, "studies"))
            begun = f"trial of {self.norm}: {count} to make or resume, logs in {logs};"
            print(f"{begun} {span(left)} left", file=sys.stderr)
            code = self.config.code
            try:
                with redirect_stdout(sys.stderr), ends_after(left):
                    failed = run_all(runs, self.launch, "trial", self.runs)
            except BudgetError:
                return "the budget is over, and the next start resumes the runs under way"
            self.check_source(code)
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
                runs = self._tries(row) or self._fresh(row, look)
                if runs:
                    return runs
            if reading.answer in DECIDED:
                return []
        return []

    def _tries(self, row: Row) -> list[Planned]:
        """Return the missing tries of a bed."""
        runs = []
        for seed in self.rules.tuning:
            for norm, side in self._sides(row):
                if side.chosen is not None:
                    continue
                ended = {run.setting for run in side.runs if run.result.seed == seed}
                for setting in side.planned:
                    if setting not in ended:
                        runs.append(self.planned(row.bed, norm, setting, seed))
        return runs

    def _fresh(self, row: Row, look: int) -> list[Planned]:
        """Return the missing fresh runs of a bed up to a look, in the settings that are chosen."""
        runs = []
        for seed in row.entrant.seeds(look):
            for norm, side in self._sides(row):
                if seed in side.fresh:
                    continue
                assert side.chosen, "all tries have ended"
                runs.append(self.planned(row.bed, norm, side.chosen, seed))
        return runs

    def _sides(self, row: Row) -> tuple[tuple[str, Side], ...]:
        return (self.norm, row.norm), (REFERENCE, row.reference)

    def planned(self, bed: Bed, norm: str, setting: Setting, seed: int) -> Planned:
        """Return a run of the trial and the command that makes it."""
        overrides = [f"training.lr={setting.rate:.12g}"]
        row = f"{norm} lr {setting.rate:g}"
        if setting.value is not None:
            overrides.append(f"++norm.params.{self.entrant.tries}={setting.value:.12g}")
            row += f" {self.entrant.tries} {setting.value:g}"
        if norm == self.norm:
            overrides += self.settings
        line = bed.command_line(norm, *overrides, optimizer=self.optimizer)
        run = cached_experiment(line).model_copy(update={"seed": seed, "runs": self.runs})
        # The end of a budget then costs a minute's work at most.
        line += [f"seed={seed}", f"runs={self.runs}", "checkpoint_minutes=1"]
        return Planned(row, run, line)

    def missing(self, reading: Reading) -> str:
        """Return how many runs the first look needs, and about how long they take here.

        A run takes as long as those on record, or as the rules say.
        """
        bed = next(bed for bed in reading.rows if bed not in self.left_out)
        row = reading.rows[bed]
        count = 0
        seconds = []
        for side in row.sides:
            count += sum(setting not in side.tried for setting in side.planned)
            count += max(0, self.rules.looks[0] - len(side.fresh))
            seconds += [run.result.seconds for run in side.runs if run.result.seconds]
        rounds = math.ceil(count / self.launch.workers)
        duration = span(rounds * median(seconds or [60 * row.bed.minutes]))
        runs = counted(count, "more run")
        return f"it takes {runs} of {row.bed.title}, about {duration} on this machine"

    def check_source(self, code: Mapping[str, bytes]) -> None:
        """Raise ValueError if the norm's source is not `code`."""
        source_of.cache_clear()
        for file, content in self.config.code.items():
            if code.get(file) != content:
                raise ValueError(edited(file, self.runs))

    def check_tries(self) -> None:
        """Raise ValueError if the folder has tries of the norm with another source.

        Also if the class has `tries` that cannot be read in its code, or the norm has no path.
        """
        entrant = self.entrant
        if self.config.is_ours:
            return
        if entrant.path is None:
            raise ValueError(f"{self.norm}: name its class, as package.module:Class")
        if hasattr(self.config.choice.outside, "tries") and entrant.parameter is None:
            raise ValueError(f"{self.norm}: write `tries` into the class itself, as a literal")
        module = entrant.path.partition(":")[0]
        file = f"{module.replace('.', '/')}.py"
        for run in trial_runs(self.rules, [Path(self.runs)]):
            tried = run.entrant
            is_same = tried.path == entrant.path and tried.params == entrant.params
            if is_same and tried.digest != entrant.digest:
                raise ValueError(edited(file, self.runs))


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


def beds_left_out(rules: Rules, norm: str, settings: Sequence[str]) -> dict[str, str]:
    """Return the beds that cannot run here, each with the reason; ValueError if none can."""
    left_out = {}
    for name, bed in rules.beds.items():
        run = bed.experiment(norm, *settings)
        try:
            compatible_norm(run)
        except ValueError as error:
            left_out[name] = str(error)
            continue
        lacking = availability(run.data.source, run.data)
        if lacking is not None:
            left_out[name] = lacking
    if len(left_out) == len(rules.beds):
        first, reason = next(iter(left_out.items()))
        raise ValueError(
            f"{norm}: no bed can run here; {first}: {reason};"
            " docs/howto/offline.md says how to bring files"
        )
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
