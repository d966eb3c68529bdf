"""What the records say of a norm on trial: its tries and its lead over LayerNorm on every bed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias

from adanorm.config.experiment import Experiment
from adanorm.config.paths import RUNS
from adanorm.records import lines, reader
from adanorm.records.integrity import NAME
from adanorm.records.result import Result
from adanorm.stats.comparison import Answer
from adanorm.studies.study import Candidate
from adanorm.trials.entrant import FIRST, Entrant, entrant_of, is_of_suite
from adanorm.trials.inequality import Lead, Verdict, verdict_on
from adanorm.trials.rules import OPTIMIZERS, REFERENCE, Bed, Optimizer, Rules
from adanorm.verdicts.cell import cell_of
from adanorm.verdicts.evidence import Evidence, variance_of
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.tried import Tried

Setting: TypeAlias = tuple[float, tuple[tuple[str, Any], ...]]  # learning rate and parameters


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
            if match is None or match[1] != bed.scale or name.startswith("dry-"):
                continue
            seed = int(match[2])
            if seed not in rules.tuning and seed < FIRST:
                continue
            record = reader.record(parent / name)
            # The names in a folder are also those of contributions to it, which are other sources.
            is_here = record.line is not None and record.line.file.is_relative_to(source)
            run = _entered(bed, record, rules) if is_here else None
            if run is not None:
                yield run


def _entered(bed: Bed, record: reader.Record, rules: Rules) -> Entered | None:
    """Return a run on a bed; None for one that has not ended, or in other settings."""
    result = record.ended
    if not isinstance(result, Result) or result.status == "failed":
        return None
    norm, training = record.identity["norm"], record.identity["training"]
    optimizer = training.get("optimizer", "adam")
    base = bed.experiment(norm["name"] if is_of_suite(norm) else REFERENCE, "adam")
    if optimizer not in OPTIMIZERS or _fixed(record.identity) != _fixed(base.identity):
        return None
    code = {}
    for name in record.contents():
        if name.startswith("code/"):
            code[name.removeprefix("code/")] = record.content(name) or b""
    try:
        entrant = entrant_of(norm, code, base.norm.params, rules)
    except ValueError:
        return None
    run = base.model_copy(update={"seed": result.seed})
    run.__dict__["_folder"] = record.folder  # its record is read there, whatever it is called
    setting = training["lr"], tuple(sorted(norm["params"].items()))
    return Entered(entrant, optimizer, setting, run, result)


def _fixed(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run's identity that all runs of a bed share."""
    fixed = {key: value for key, value in identity.items() if key not in ("norm", "seed")}
    fixed["training"] = {**fixed["training"]}
    for tried in ("lr", "optimizer"):
        fixed["training"].pop(tried, None)
    for key in ("placement", "numerics"):
        fixed[key] = identity["norm"][key]
    return fixed


class Records:
    """The runs of all beds, by source; of a run that several have, the first one counts."""

    def __init__(self, rules: Rules, folders: Sequence[Path]) -> None:
        self.rules, self.folders = rules, folders
        self._runs: dict[tuple[str, Path], list[Entered]] = {}

    def on(self, bed: str, folders: Sequence[Path]) -> list[Entered]:
        """Return the runs of a bed in some folders."""
        runs: dict[object, Entered] = {}
        for folder in folders:
            for run in self._in(bed, folder):
                key = run.entrant.digest, run.optimizer, run.setting, run.result.seed
                runs.setdefault(key, run)
        return [*runs.values()]

    def _in(self, bed: str, folder: Path) -> list[Entered]:
        if (bed, folder) not in self._runs:
            self._runs[bed, folder] = [*entered(self.rules.beds[bed], folder, self.rules)]
        return self._runs[bed, folder]


@dataclass(frozen=True)
class Side:
    """A norm on a bed: its tries by setting, the one that validation chose, and its fresh runs."""

    tried: Mapping[Setting, Tried]
    chosen: Setting | None  # None until every planned try has ended
    fresh: Mapping[int, Entered]

    @property
    def seconds(self) -> list[float]:
        """How long its runs took."""
        results = [run.result for run in self.fresh.values()]
        for tried in self.tried.values():
            results += filter(None, tried.results)
        return [result.seconds for result in results if result.seconds]

    @property
    def pace(self) -> float | None:
        """The median seconds per update of its fresh runs."""
        paces = []
        for run in self.fresh.values():
            seconds, steps = run.result.seconds_alone, run.result.steps
            if seconds and steps:
                paces.append(seconds / steps)
        return median(paces) if paces else None


@dataclass(frozen=True, eq=False)
class Row:
    """A norm beside LayerNorm on a bed."""

    rules: Rules
    bed: Bed
    optimizer: Optimizer
    entrant: Entrant
    norm: Side
    reference: Side
    _pairs: dict[int, Pair] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[Side, Side]:
        """The norm and LayerNorm."""
        return self.norm, self.reference

    @property
    def seeds(self) -> int:
        """The number of fresh seeds that both norms have, in their order and without a gap."""
        seeds = self.entrant.seeds(self.rules.looks[-1])
        for count, seed in enumerate(seeds):
            if any(seed not in side.fresh for side in self.sides):
                return count
        return len(seeds)

    @property
    def look(self) -> int | None:
        """The last look that the bed has reached; None before the first."""
        return max((look for look in self.rules.looks if look <= self.seeds), default=None)

    def pair(self, look: int) -> Pair:
        """Return the norm beside LayerNorm at a look, or with the fewer seeds that there are."""
        if look not in self._pairs:
            self._pairs[look] = self._pair(look)
        return self._pairs[look]

    def _pair(self, look: int) -> Pair:
        seeds = self.entrant.seeds(min(look, self.seeds))
        quantity = self.bed.quantity
        cells = {}
        for name, side in {"norm": self.norm, REFERENCE: self.reference}.items():
            runs = [side.fresh[seed].run for seed in seeds]
            cells[name] = cell_of(runs[0], runs, quantity)
        variance = variance_of(cells, quantity)
        plan = self.rules.plan(self.bed, seeds, look)
        evidence = Evidence(plan, cells, variance)
        return pair(evidence, "norm", REFERENCE)

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
            ours, theirs = (side.fresh[seed].run for side in self.sides)
            shares.append(_share_of_updates(ours, theirs))
        return shares

    @property
    def seconds(self) -> float | None:
        """The norm's time per update as a multiple of LayerNorm's; None without fresh runs."""
        ours, theirs = self.norm.pace, self.reference.pace
        return ours / theirs if ours and theirs else None


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
    def read(self) -> list[Row]:
        """The beds with a first look."""
        return [row for row in self.rows.values() if row.look]

    @property
    def look(self) -> int | None:
        """The look that all beds with a first look have reached; None if no bed has one."""
        return min((row.look for row in self.read if row.look), default=None)

    @property
    def decided_at(self) -> int | None:
        """The first look at which the answer is not open, which stands; else the last look."""
        last = self.look
        for look in self.rules.looks:
            if last and look <= last and self.at(look).answer != "open":
                return look
        return last

    def setbacks(self, look: int) -> list[Row]:
        """Return the beds on which runs of a side diverged or did not learn."""
        rows = []
        for row in self.read:
            if any(cell.setback for cell in row.pair(look).sides):
                rows.append(row)
        return rows

    def at(self, look: int) -> Verdict:
        """Return the verdict at a look. Runs that diverge or learn nothing only harm the norm."""
        setbacks = self.setbacks(look)
        if setbacks:
            is_worse = any(row.pair(look).answer == "worse" for row in setbacks)
            return Verdict("worse" if is_worse else "open")
        leads = []
        for row in self.read:
            lead = row.lead(look)
            if lead is None:
                return Verdict("open")
            leads.append(lead)
        return verdict_on(leads, self.rules.plan_of_looks, look)

    @property
    def verdict(self) -> Verdict:
        """The verdict so far, of at least one look."""
        assert self.decided_at, "no bed has a first look"
        return self.at(self.decided_at)

    @property
    def answer(self) -> Answer | Literal["not run"]:
        """The one answer of the trial so far."""
        return self.verdict.answer if self.decided_at else "not run"


def read_trial(
    records: Records, entrant: Entrant, optimizer: Optimizer, source: Sequence[Path] = ()
) -> Reading:
    """Return what records say of a norm. With a source, only its fresh runs of the norm count."""
    rules = records.rules
    seeds = entrant.seeds(rules.looks[-1])
    rows = {}
    for name, bed in rules.beds.items():
        ours, theirs = [], []
        for run in records.on(name, [*source, *records.folders]):
            if run.optimizer != optimizer:
                continue
            if run.entrant.name == REFERENCE:
                theirs.append(run)
            elif run.entrant.digest == entrant.digest and _counts(run, source):
                ours.append(run)
        norm, reference = _side(rules, ours, seeds), _side(rules, theirs, seeds)
        rows[name] = Row(rules, bed, optimizer, entrant, norm, reference)
    return Reading(rules, entrant, rows)


def _counts(run: Entered, source: Sequence[Path]) -> bool:
    """Return whether a run of the norm is a try, or lies in the source, if there is one."""
    if run.result.seed < FIRST or not source:
        return True
    folder = run.run.folder()
    return any(folder.is_relative_to(root) for root in source)


def _side(rules: Rules, runs: Sequence[Entered], seeds: Sequence[int]) -> Side:
    """Return a norm on a bed from its runs there."""
    by_setting: dict[Setting, dict[int, Entered]] = defaultdict(dict)
    for run in runs:
        by_setting[run.setting].setdefault(run.result.seed, run)
    tried: dict[Setting, Tried] = {}
    fresh: dict[Setting, dict[int, Entered]] = {}
    for setting in sorted(by_setting):  # of equal settings the lowest rate is chosen
        by_seed = by_setting[setting]
        if by_seed.keys() >= {*rules.tuning}:
            tries = [by_seed[seed].run for seed in rules.tuning]
            tried[setting] = Tried(Candidate((), tries))
        fresh[setting] = {seed: by_seed[seed] for seed in seeds if seed in by_seed}
    chosen = None
    if len(tried) >= len(rules.rates):
        chosen = max(tried, key=lambda setting: tried[setting].rank())
    fresh_runs = fresh.get(chosen) if chosen else None
    if not fresh_runs:
        # A contribution may bring runs in the setting that was chosen there.
        fresh_runs = max(fresh.values(), key=len, default={})
    return Side(tried, chosen, fresh_runs)
