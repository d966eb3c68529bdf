"""What the records say of a norm on trial: its tries and its lead over LayerNorm on every bed."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.stats.comparison import Answer
from adanorm.stats.sequential import Looks, last_look
from adanorm.studies.study import Candidate
from adanorm.trials.entrant import FIRST, Entrant, entrant_of, is_of_suite
from adanorm.trials.inequality import Lead, Verdict, verdict_on
from adanorm.trials.rules import OPTIMIZERS, REFERENCE, Bed, Optimizer, Rules, Setting
from adanorm.verdicts.cell import cell_of
from adanorm.verdicts.evidence import Evidence, variance_of
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.tried import Tried

# Answers after which no more runs are made.
DECIDED = ("better", "worse", "equivalent")


class TrialRun(NamedTuple):
    """A run on record in the fixed settings of a bed."""

    bed: str
    source: Path  # the folder of records that has it
    entrant: Entrant
    optimizer: Optimizer
    setting: Setting
    run: Experiment
    result: Result

    @property
    def is_fresh(self) -> bool:
        """Whether its scores are compared; otherwise it is a try."""
        return self.result.seed >= FIRST


def trial_runs(rules: Rules, folders: Sequence[Path]) -> list[TrialRun]:
    """Return the ended runs of all beds in some folders of records, in the folders' order."""
    runs = []
    for folder, name in product(folders, rules.beds):
        for record in reader.records(folder / rules.beds[name].task):
            # A folder also names the runs of its contributions, which are other sources.
            if record.line is not None and record.line.file.is_relative_to(folder):
                run = _trial_run(rules, name, folder, record)
                if run is not None:
                    runs.append(run)
    return runs


def _trial_run(rules: Rules, name: str, source: Path, record: reader.Record) -> TrialRun | None:
    """Return a run on a bed; None for one that failed, or has other seeds or settings."""
    result = record.ended
    if not isinstance(result, Result) or result.status == "failed" or result.dry_run is not None:
        return None
    if result.seed not in rules.tuning and result.seed < FIRST:
        return None
    identity = record.identity
    norm, training = identity["norm"], identity["training"]
    optimizer = training.get("optimizer", "adam")
    known_norm = norm["name"] if is_of_suite(norm) else REFERENCE
    base = rules.beds[name].experiment(known_norm)
    if optimizer not in OPTIMIZERS or _fixed(identity) != _fixed(base.identity):
        return None
    try:
        entrant = entrant_of(norm, record.code, base.norm.params, rules)
    except ValueError:
        return None
    run = base.model_copy(update={"seed": result.seed})
    run.__dict__["_folder"] = record.folder  # its record is read there, whatever it is called
    setting = Setting(training["lr"], norm["params"].get(entrant.tries))
    return TrialRun(name, source, entrant, optimizer, setting, run, result)


def _fixed(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a run's identity that all runs of a bed share."""
    fixed = {key: value for key, value in identity.items() if key not in ("norm", "seed")}
    fixed["training"] = {**fixed["training"]}
    for tried in ("lr", "optimizer"):
        fixed["training"].pop(tried, None)
    for key in ("placement", "numerics"):
        fixed[key] = identity["norm"][key]
    return fixed


@dataclass(frozen=True)
class Side:
    """A norm on a bed: its tries by setting, and its fresh runs in the one that is chosen.

    `planned` has the settings to try, among which validation chooses; the first of equal ones has
    the lowest rate. Further settings that somebody tried are counted in `tried`.
    """

    runs: Sequence[TrialRun]
    planned: Sequence[Setting]
    tried: Mapping[Setting, Tried]
    chosen: Setting | None  # None until every planned try has ended
    fresh: Mapping[int, TrialRun]  # by seed

    @property
    def seconds_per_update(self) -> float | None:
        """The median of its fresh runs."""
        seconds = []
        for run in self.fresh.values():
            if run.result.seconds_alone and run.result.steps:
                seconds.append(run.result.seconds_alone / run.result.steps)
        return median(seconds) if seconds else None


@dataclass(frozen=True)
class Row:
    """A norm beside LayerNorm on a bed."""

    rules: Rules
    bed: Bed
    optimizer: Optimizer
    entrant: Entrant
    norm: Side
    reference: Side

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
        return last_look(self.rules.looks, self.seeds)

    def pair(self, look: int) -> Pair:
        """Return the norm beside LayerNorm at a look that the bed has reached."""
        seeds = self.entrant.seeds(look)
        quantity = self.bed.quantity
        cells = {}
        for name, side in (("norm", self.norm), (REFERENCE, self.reference)):
            runs = [side.fresh[seed].run for seed in seeds]
            cells[name] = cell_of(runs[0], runs, quantity)
        plan = self.rules.plan(self.bed, seeds, look)
        variance = variance_of(cells, quantity)
        evidence = Evidence(plan, cells, variance)
        return pair(evidence, "norm", REFERENCE)

    @property
    def speed(self) -> list[float]:
        """How long each run of the norm takes to reach LayerNorm's lowest validation loss.

        In updates, as a share of those that LayerNorm's run with the same seed takes; inf: never.
        """
        shares = []
        for seed in self.entrant.seeds(self.seeds):
            ours = self.norm.fresh[seed].run
            theirs = self.reference.fresh[seed].run
            shares.append(_share_of_updates(ours, theirs))
        return shares

    @property
    def time(self) -> float | None:
        """The norm's time per update as a multiple of LayerNorm's; None without fresh runs."""
        ours, theirs = self.norm.seconds_per_update, self.reference.seconds_per_update
        return ours / theirs if ours and theirs else None


def _share_of_updates(ours: Experiment, theirs: Experiment) -> float:
    """Return the first update with LayerNorm's lowest validation loss over LayerNorm's; or inf."""
    lowest = min(_losses(theirs), default=None)
    if lowest is None:
        return math.inf
    loss, update = lowest
    for reached, step in _losses(ours):
        if reached <= loss:
            return step / update
    return math.inf


def _losses(run: Experiment) -> list[tuple[float, int]]:
    """Return the validation losses and updates of a run's evaluations."""
    losses = []
    for row in reader.record(run.folder()).rows():
        if "valid_loss" in row:
            losses.append((row["valid_loss"], row["update"]))
    return losses


@dataclass(frozen=True)
class Reading:
    """A norm on all beds with one optimizer. The rows of beds without a run are empty."""

    rules: Rules
    entrant: Entrant
    rows: Mapping[str, Row]
    # The first look that decides, which stands; else the last that all beds with a look have
    # reached. None before the first.
    look: int | None = None
    pairs: Mapping[str, Pair] = field(default_factory=dict)  # at this look, by bed
    verdict: Verdict | None = None  # at this look

    @property
    def answer(self) -> Answer | Literal["not run"]:
        """The one answer of the trial so far."""
        return self.verdict.answer if self.verdict else "not run"

    @property
    def read(self) -> list[Row]:
        """The beds with a look."""
        return [self.rows[bed] for bed in self.pairs]

    @property
    def setbacks(self) -> dict[str, Pair]:
        """The beds on which runs of a side diverged or did not learn."""
        return {bed: pair for bed, pair in self.pairs.items() if _has_setback(pair)}


def read_trial(
    rules: Rules, runs: Sequence[TrialRun], entrant: Entrant, optimizer: Optimizer
) -> Reading:
    """Return what runs say of a norm; of two with one setting and seed, the first counts."""
    rows = {}
    for name, bed in rules.beds.items():
        ours, theirs = [], []
        for run in runs:
            if (run.bed, run.optimizer) != (name, optimizer):
                continue
            if run.entrant.is_reference:
                theirs.append(run)
            elif run.entrant.digest == entrant.digest:
                ours.append(run)
        seeds = entrant.seeds(rules.looks[-1])
        norm = _side(rules, rules.tries(bed, entrant.parameter), ours, seeds)
        reference = _side(rules, rules.tries(bed, None), theirs, seeds)
        rows[name] = Row(rules, bed, optimizer, entrant, norm, reference)
    reading = Reading(rules, entrant, rows)
    reached = {bed: row.look for bed, row in rows.items() if row.look}
    for look in rules.looks:
        if look <= min(reached.values(), default=0):
            pairs = {bed: rows[bed].pair(look) for bed in reached}
            verdict = _verdict([*pairs.values()], rules.plan_of_looks, look)
            reading = Reading(rules, entrant, rows, look, pairs, verdict)
            if verdict.answer != "open":
                break
    return reading


def _side(
    rules: Rules, planned: Sequence[Setting], runs: Sequence[TrialRun], seeds: Sequence[int]
) -> Side:
    """Return a norm on a bed from its runs there."""
    by_setting: dict[Setting, dict[int, TrialRun]] = defaultdict(dict)
    for run in runs:
        by_setting[run.setting].setdefault(run.result.seed, run)
    tried = {}
    for setting, by_seed in by_setting.items():
        if by_seed.keys() >= {*rules.tuning}:
            tries = [by_seed[seed].run for seed in rules.tuning]
            tried[setting] = Tried(Candidate((), tries))
    if any(setting not in tried for setting in planned):
        return Side(runs, planned, tried, None, {})
    chosen = max(sorted(planned), key=lambda setting: tried[setting].rank())
    its_runs = by_setting[chosen]
    fresh = {seed: its_runs[seed] for seed in seeds if seed in its_runs}
    return Side(runs, planned, tried, chosen, fresh)


def _verdict(pairs: Sequence[Pair], looks: Looks, look: int) -> Verdict:
    """Return the verdict at a look. Runs that diverge or learn nothing only harm the norm."""
    setbacks = [*filter(_has_setback, pairs)]
    if setbacks:
        answers = [on_bed.answer for on_bed in setbacks]
        return Verdict("worse" if "worse" in answers else "open")
    leads = []
    for on_bed in pairs:
        comparison = on_bed.comparison
        if comparison is None:
            return Verdict("open")
        margin = comparison.margin
        leads.append(Lead(comparison.gap / margin, comparison.error / margin, comparison.df))
    return verdict_on(leads, looks, look)


def _has_setback(on_bed: Pair) -> bool:
    return any(cell.setback for cell in on_bed.sides)
