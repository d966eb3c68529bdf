"""What the records say of a norm on trial: its tries and its lead over LayerNorm on every bed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from adanorm.config.experiment import Experiment
from adanorm.config.paths import RUNS, choices
from adanorm.records import lines, reader
from adanorm.records.integrity import NAME
from adanorm.records.result import Result
from adanorm.stats.comparison import Answer, Interval, student_interval
from adanorm.stats.sequential import Numbers
from adanorm.stats.summary import random_effects
from adanorm.studies.study import Candidate
from adanorm.trials.entrant import FIRST, Entrant, entrant_of
from adanorm.trials.rules import REFERENCE, Bed, Optimizer, Rules
from adanorm.verdicts.cell import cell_of
from adanorm.verdicts.evidence import Evidence, variance_of
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.tried import Tried

ENOUGH_BEDS = 3  # with fewer, the spread between beds cannot be told
Setting: TypeAlias = tuple[float, tuple[tuple[str, Any], ...]]  # learning rate and parameters
# Keys of a run's identity that differ between the runs of a bed.
FREE = ("norm", "seed", "training")


class Entered(NamedTuple):
    """A run on a bed: which norm, in which setting, with which seed, and where its record lies."""

    entrant: Entrant
    optimizer: Optimizer
    setting: Setting
    run: Experiment
    result: Result


def sources(runs: str | None, *, alone: bool = False) -> list[Path]:
    """Return the folders of records: `runs`, unless `alone` this checkout's, and contributions."""
    roots = [Path(runs)] if runs else []
    if not (alone and runs):
        roots.append(RUNS)
    folders = []
    for root in roots:
        folders += [root, *reader.contributions(root).values()]
    return folders


def entered(bed: Bed, source: Path, rules: Rules) -> Iterator[Entered]:
    """Yield the ended runs of a bed in a folder of records, but none in other settings."""
    task = source / bed.task
    parents = {*lines.parents(task)}
    if task.is_dir():
        parents.update(path for path in task.iterdir() if path.is_dir())
    for parent in sorted(parents):
        for name in reader.names(parent):
            match = NAME.fullmatch(name)
            is_of_trial = match and (int(match[2]) in rules.tuning or int(match[2]) >= FIRST)
            if match and match[1] == bed.scale and is_of_trial and not name.startswith("dry-"):
                run = _entered(bed, reader.record(parent / name), rules)
                if run is not None:
                    yield run


def _entered(bed: Bed, record: reader.Record, rules: Rules) -> Entered | None:
    result = record.ended
    if not isinstance(result, Result) or result.status == "failed":
        return None
    identity = record.identity
    norm, training = identity["norm"], {**identity["training"]}
    optimizer = training.pop("optimizer", "adam")
    rate = training.pop("lr")
    is_ours = norm["name"] in choices("norm") and "path" not in norm
    base = bed.experiment(norm["name"] if is_ours else REFERENCE, "adam")
    if optimizer not in ("adam", "muon") or _fixed(base.identity) != _fixed(identity):
        return None
    if norm["placement"] != base.norm.placement or norm["numerics"] != base.norm.numerics:
        return None
    names = [name for name in record.contents() if name.startswith("code/")]
    code = {name.removeprefix("code/"): record.content(name) or b"" for name in names}
    try:
        entrant = entrant_of(norm, code, base.norm.params if is_ours else {}, rules)
    except ValueError:
        return None
    run = base.model_copy(update={"seed": result.seed})
    run.__dict__["_folder"] = record.folder  # its record is read there, whatever it is called
    setting = rate, tuple(sorted(norm["params"].items()))
    return Entered(entrant, optimizer, setting, run, result)


def _fixed(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run's identity that all runs of a bed share."""
    fixed = {key: value for key, value in identity.items() if key not in FREE}
    training = identity["training"].items()
    return fixed | {key: value for key, value in training if key not in ("lr", "optimizer")}


class Records:
    """The runs of all beds, by source; of a run that several have, the first one counts."""

    def __init__(self, rules: Rules, folders: Sequence[Path]) -> None:
        self.rules, self.folders = rules, folders
        self._runs: dict[tuple[str, Path], list[Entered]] = {}

    def of(self, bed: str, folders: Sequence[Path] | None = None) -> list[Entered]:
        """Return the runs of a bed in `folders`, or in all."""
        runs: dict[object, Entered] = {}
        for folder in self.folders if folders is None else folders:
            if (bed, folder) not in self._runs:
                found_here = entered(self.rules.beds[bed], folder, self.rules)
                self._runs[bed, folder] = [*found_here]
            for run in self._runs[bed, folder]:
                key = run.entrant.digest, run.optimizer, run.setting, run.result.seed
                runs.setdefault(key, run)
        return [*runs.values()]


@dataclass(frozen=True)
class Side:
    """A norm on a bed: its tries by setting, the one that validation chose, and its fresh runs."""

    tried: Mapping[Setting, Tried]
    chosen: Setting | None  # None until every planned try has ended
    fresh: Mapping[int, Entered]


class Lead(NamedTuple):
    """A lead over LayerNorm in margins, with its standard error and degrees of freedom."""

    value: float
    error: float
    df: float


@dataclass(frozen=True, eq=False)
class Row:
    """A norm beside LayerNorm on a bed."""

    rules: Rules
    bed: Bed
    optimizer: Optimizer
    entrant: Entrant
    norm: Side
    reference: Side

    @property
    def seeds(self) -> int:
        """The number of fresh seeds that both norms have, in their order and without a gap."""
        seeds = self.entrant.seeds(self.rules.looks[-1])
        for count, seed in enumerate(seeds):
            if seed not in self.norm.fresh or seed not in self.reference.fresh:
                return count
        return len(seeds)

    @property
    def look(self) -> int | None:
        """The last look that the bed has reached; None before the first."""
        return max((look for look in self.rules.looks if look <= self.seeds), default=None)

    @cached_property
    def _pairs(self) -> dict[int, Pair]:
        return {}

    def pair(self, look: int) -> Pair:
        """Return the norm beside LayerNorm at a look, or with the fewer seeds that there are."""
        if look not in self._pairs:
            self._pairs[look] = self._pair(look)
        return self._pairs[look]

    def _pair(self, look: int) -> Pair:
        seeds = self.entrant.seeds(min(look, self.seeds))
        cells = {"norm": self.norm, REFERENCE: self.reference}
        by_norm = {}
        for name, side in cells.items():
            runs = [side.fresh[seed].run for seed in seeds]
            by_norm[name] = cell_of(runs[0], runs, self.bed.quantity)
        variance = variance_of(by_norm, self.bed.quantity)
        plan = self.rules.plan(self.bed, seeds, look)
        return pair(Evidence(plan, by_norm, variance, ("trial",)), "norm", REFERENCE)

    def lead(self, look: int) -> Lead | None:
        """Return the lead at a look; None if runs diverged, did not learn, or scores are equal."""
        comparison = self.pair(look).comparison
        if comparison is None:
            return None
        scale = self.bed.margin
        return Lead(comparison.gap / scale, comparison.error / scale, comparison.df)

    @property
    def speed(self) -> list[float]:
        """How long each run of the norm takes to reach LayerNorm's lowest validation loss.

        In updates, as a share of those that LayerNorm's run with the same seed takes; inf: never.
        """
        shares = []
        for seed in self.entrant.seeds(self.seeds):
            ours, theirs = self.norm.fresh[seed], self.reference.fresh[seed]
            shares.append(_share_of_updates(ours.run, theirs.run))
        return shares

    @property
    def seconds(self) -> float | None:
        """The norm's time per update as a multiple of LayerNorm's; None without fresh runs."""
        ours, theirs = _pace(self.norm), _pace(self.reference)
        return ours / theirs if ours and theirs else None


def _pace(side: Side) -> float | None:
    """Return the median seconds per update of a side's fresh runs."""
    paces = []
    for run in side.fresh.values():
        seconds, steps = run.result.seconds_alone, run.result.steps
        if seconds and steps:
            paces.append(seconds / steps)
    return median(paces) if paces else None


def _share_of_updates(ours: Experiment, theirs: Experiment) -> float:
    """Return the first update with LayerNorm's lowest validation loss over LayerNorm's; or inf."""
    lowest = min(_losses(theirs), key=lambda point: point[1], default=None)
    if lowest is None:
        return math.inf
    update, loss = lowest
    for step, reached in _losses(ours):
        if reached <= loss:
            return step / update
    return math.inf


def _losses(run: Experiment) -> list[tuple[int, float]]:
    """Return the updates and validation losses of a run's evaluations."""
    rows = reader.record(run.folder()).rows()
    return [(row["update"], row["valid_loss"]) for row in rows if "valid_loss" in row]


@dataclass(frozen=True)
class Reading:
    """A norm on all beds with one optimizer. The rows of beds without a run are empty."""

    rules: Rules
    entrant: Entrant
    rows: Mapping[str, Row]

    @property
    def look(self) -> int | None:
        """The look that all beds with a first look have reached; None if no bed has one."""
        return min((row.look for row in self.read if row.look), default=None)

    @property
    def is_whole(self) -> bool:
        """Whether every bed has reached its first look."""
        return len(self.read) == len(self.rows)

    @property
    def read(self) -> list[Row]:
        """The beds with a first look."""
        return [row for row in self.rows.values() if row.look]

    def setbacks(self, look: int) -> list[Row]:
        """Return the beds on which runs of a side diverged or did not learn."""
        rows = []
        for row in self.read:
            if any(side.setback for side in row.pair(look).sides):
                rows.append(row)
        return rows

    def mean(self, look: int) -> Lead | None:
        """Return the mean lead over the beds at a look, in margins."""
        leads = self._leads(look)
        return None if leads is None else mean_lead(leads)

    def _leads(self, look: int) -> list[Lead] | None:
        """Return the lead of every bed with a first look; None if one has no lead."""
        leads = []
        for row in self.read:
            lead = row.lead(look)
            if lead is None:
                return None
            leads.append(lead)
        return leads or None

    def interval(self, look: int) -> Interval | None:
        """Return the interval of the mean at a look."""
        leads = self._leads(look)
        return None if leads is None else intervals_of(self.rules, look, leads)[0]

    @property
    def decided_at(self) -> int | None:
        """The first look at which the answer is not open, which stands; else the last look."""
        looks = [look for look in self.rules.looks if self.look and look <= self.look]
        for look in looks:
            if self.answer_at(look) != "open":
                return look
        return looks[-1] if looks else None

    def answer_at(self, look: int) -> Answer:
        """Return the answer at a look. Runs that diverge or learn nothing only harm the norm."""
        setbacks = self.setbacks(look)
        if setbacks:
            answers = [row.pair(look).answer for row in setbacks]
            return "worse" if "worse" in answers else "open"
        leads = self._leads(look)
        return "open" if leads is None else answer_of(self.rules, look, leads)

    @property
    def answer(self) -> Answer | Literal["not run"]:
        """The one answer of the trial so far."""
        return self.answer_at(self.decided_at) if self.decided_at else "not run"


def answer_of(rules: Rules, look: int, leads: Sequence[Lead]) -> Answer:
    """Return the answer of one inequality on the mean of leads, in margins; its sign goes first."""
    interval, narrow = intervals_of(rules, look, leads)
    if interval.low > 0:
        return "better"
    if interval.high < 0:
        return "worse"
    return "equivalent" if narrow.low > -1 and narrow.high < 1 else "open"


def intervals_of(rules: Rules, look: int, leads: Sequence[Lead]) -> tuple[Interval, Interval]:
    """Return the intervals of the mean lead at a look that decide its sign and its size."""
    mean = mean_lead(leads)
    levels = rules.plan_of_looks.levels(look)
    sign = student_interval(mean.value, mean.error, mean.df, levels.difference)
    return sign, student_interval(mean.value, mean.error, mean.df, levels.equivalence)


def mean_lead(leads: Sequence[Lead]) -> Lead:
    """Return the mean lead over beds.

    From ENOUGH_BEDS beds on it is that of random effects, which speaks for further beds too. Fewer
    speak for themselves: their plain mean, with Satterthwaite's degrees of freedom.
    """
    values, errors, dfs = (np.array(column) for column in zip(*leads, strict=True))
    if len(leads) >= ENOUGH_BEDS:
        effects = random_effects(values, errors)
        return Lead(effects.mean, effects.error, effects.df)
    variances: Numbers = errors**2
    df = float(variances.sum() ** 2 / (variances**2 / dfs).sum())
    return Lead(float(values.mean()), math.sqrt(float(variances.sum())) / len(leads), df)


def read_trial(
    records: Records, entrant: Entrant, optimizer: Optimizer, source: Sequence[Path] = ()
) -> Reading:
    """Return what records say of a norm. With a source, only its fresh runs of the norm count."""
    folders = [*source, *records.folders]
    rows = {}
    for name, bed in records.rules.beds.items():
        ours, theirs = [], []
        for run in records.of(name, folders):
            if run.optimizer != optimizer:
                continue
            is_try = run.result.seed < FIRST
            if run.entrant.name == REFERENCE:
                theirs.append(run)
            elif run.entrant.digest == entrant.digest and (is_try or _is_in(source, run)):
                ours.append(run)
        seeds = entrant.seeds(records.rules.looks[-1])
        norm = _side(records.rules, ours, seeds)
        reference = _side(records.rules, theirs, seeds)
        rows[name] = Row(
            records.rules,
            bed,
            optimizer,
            entrant,
            norm,
            reference,
        )
    return Reading(records.rules, entrant, rows)


def _is_in(source: Sequence[Path], run: Entered) -> bool:
    folder = run.run.folder()
    return not source or any(folder.is_relative_to(root) for root in source)


def _side(rules: Rules, runs: Sequence[Entered], seeds: Sequence[int]) -> Side:
    by_setting: dict[Setting, dict[int, Entered]] = defaultdict(dict)
    for run in runs:
        by_setting[run.setting].setdefault(run.result.seed, run)
    tried: dict[Setting, Tried] = {}
    fresh: dict[Setting, dict[int, Entered]] = {}
    for setting in sorted(by_setting):  # of equal settings the lowest rate is chosen
        by_seed = by_setting[setting]
        tries = [by_seed[seed].run for seed in rules.tuning if seed in by_seed]
        if len(tries) == len(rules.tuning):
            tried[setting] = Tried(Candidate((), tries))
        fresh[setting] = {seed: by_seed[seed] for seed in seeds if seed in by_seed}
    chosen = None
    if len(tried) >= len(rules.rates):
        chosen = max(tried, key=lambda setting: tried[setting].rank())
    if chosen and fresh[chosen]:
        return Side(tried, chosen, fresh[chosen])
    # A contribution may bring runs in the setting that was chosen there.
    return Side(tried, chosen, max(fresh.values(), key=len, default={}))
