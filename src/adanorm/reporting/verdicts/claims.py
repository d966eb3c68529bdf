"""The paper's claims, tested as what they are: supported, contradicted or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from adanorm.config.compose_cache import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.reporting.names import task_metric
from adanorm.reporting.statistics import CONFIDENCE, Difference, difference, holm_by
from adanorm.reporting.verdicts.preregistration import Claim, preregistration

SEEDS = (1, 2, 3)
Verdict = Literal["supported", "contradicted", "undecided", "not run"]


@dataclass(frozen=True)
class TaskComparison:
    """A claim on one task.

    `gap` is by how much `better` beats `worse`, whichever way the metric points, None where no runs
    are paired; `p` is corrected over the claim's tasks. `ended` and `diverged` count the runs of
    the two norms; `runs` are their folders.
    """

    task: str
    better: str
    worse: str
    quantity: str
    gap: Difference | None
    ended: tuple[int, int]
    diverged: tuple[int, int]
    runs: tuple[str, ...]
    p: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What the runs say; a norm whose every run diverged is worse than one of which none did."""
        if 0 in self.ended:
            return "not run"
        if any(self.diverged):
            if self.diverged == (0, self.ended[1]):
                return "supported"
            return "contradicted" if self.diverged == (self.ended[0], 0) else "undecided"
        if self.gap is None or self.p is None or self.p >= 1 - CONFIDENCE:
            return "undecided"
        return "supported" if self.gap.mean > 0 else "contradicted"


@dataclass(frozen=True)
class ClaimResult:
    """A claim with what was found on each of its tasks."""

    claim: Claim
    scale: str
    findings: tuple[TaskComparison, ...]

    @property
    def verdict(self) -> Verdict:
        """Supported where all its tasks support it, contradicted where any contradicts it."""
        verdicts = {finding.verdict for finding in self.findings}
        if verdicts == {"not run"}:
            return "not run"
        if "contradicted" in verdicts:
            return "contradicted"
        return "supported" if verdicts == {"supported"} else "undecided"


def evaluate_claim(claim: Claim, *, scale: str, seeds: Sequence[int], runs: str | None = None) -> ClaimResult:
    """Return what the records of a scale say of a claim, over runs paired by seed.

    On a task a claim is supported where the paired t-test, corrected over the claim's tasks (Holm
    1979), finds a gap in its direction at level 0.05, and contradicted where it finds one
    against it. That no gap is found supports nothing, not even `no_worse`.
    """
    findings = [_finding(claim, task, scale, seeds, runs) for task in claim.tasks]
    corrected = holm_by({f.task: f.gap.p for f in findings if f.gap is not None})
    return ClaimResult(claim, scale, tuple(replace(f, p=corrected.get(f.task)) for f in findings))


def _finding(claim: Claim, task: str, scale: str, seeds: Sequence[int], runs: str | None) -> TaskComparison:
    norms = claim.norms(task)
    sides = [_results(task, norm, scale, seeds, runs) if task in choices("task") else [] for norm in norms]
    values = [
        {run.seed: _value(claim, run, result) for run, result in side if result.status == "done"}
        for side in sides
    ]
    paired = sorted(values[0].keys() & values[1].keys())
    metric = task_metric(task)
    sign = 1 if claim.quantity == "test" and metric.higher_is_better else -1
    better, worse = ([sign * side[seed] for seed in paired] for side in values)
    ended = [len(side) for side in sides]
    diverged = [sum(result.status == "diverged" for _, result in side) for side in sides]
    return TaskComparison(
        task=task,
        better=norms[0],
        worse=norms[1],
        quantity=metric.label if claim.quantity == "test" else claim.quantity.replace("_", " "),
        gap=difference(worse, better) if paired else None,
        ended=(ended[0], ended[1]),
        diverged=(diverged[0], diverged[1]),
        runs=tuple(str(run.folder()) for side in sides for run, _ in side),
    )


def _results(
    task: str, norm: str, scale: str, seeds: Sequence[int], runs: str | None
) -> list[tuple[Experiment, Result]]:
    """Return the results of the runs that have ended."""
    first = cached_experiment([f"task={task}", f"norm={norm}", f"scale={scale}"], runs=runs)
    made = [first.model_copy(update={"seed": seed}) for seed in seeds]
    found = [(run, reader.result(run.folder())) for run in made]
    return [(run, result) for run, result in found if result is not None]


def _value(claim: Claim, run: Experiment, result: Result) -> float:
    if claim.quantity == "test":
        return result.test_score(run.task.metric)
    return float(reader.metrics(run.folder())[-1][claim.quantity.removeprefix("last_")])


def claim_results(runs: str | None = None) -> list[ClaimResult]:
    """Return what the records say of every claim of the paper, at the paper's scale and at mini."""
    return [
        evaluate_claim(claim, scale=scale, seeds=SEEDS, runs=runs)
        for scale in ("paper", "mini")
        for claim in preregistration().claims
    ]
