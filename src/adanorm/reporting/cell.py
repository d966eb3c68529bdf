"""One cell of a table: the runs of a task under a norm, over seeds, beside the paper's number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.published import Published, published
from adanorm.records.result import Result, Status
from adanorm.studies.grid import Candidate


@dataclass(frozen=True)
class Cell:
    """The results of one cell, and their folders; `wanted` is the number of seeds asked for."""

    task: str
    norm: str
    metric: str
    wanted: int
    results: tuple[Result, ...]
    paper: Published | None
    folders: tuple[Path, ...] = ()

    @property
    def scores(self) -> list[float]:
        """The test scores of the runs that ended well."""
        return [result.test_score(self.metric) for result in self.results if result.status == "done"]

    @property
    def by_seed(self) -> dict[int, float]:
        """The test scores of the runs that ended well, by seed."""
        done = (result for result in self.results if result.status == "done")
        return {result.seed: result.test_score(self.metric) for result in done}

    def count(self, status: Status) -> int:
        """Return how many runs ended with a status."""
        return sum(result.status == status for result in self.results)

    @property
    def text(self) -> str:
        """`mean ± standard deviation`, `Diverge (k/n)`, `failed`, or `-`; and how many seeds lack."""
        ended = len(self.results)
        if ended == 0:
            return "-"
        diverged = self.count("diverged")
        if diverged:
            return f"Diverge ({diverged}/{ended})"
        if not self.scores:
            return "failed"
        mean = fmean(self.scores)
        digits = METRICS[self.metric].decimals(mean)
        spread = f" ± {stdev(self.scores):.{digits}f}" if len(self.scores) > 1 else ""
        lacking = f" ({len(self.scores)}/{self.wanted} seeds)" if len(self.scores) < self.wanted else ""
        return f"{mean:.{digits}f}{spread}{lacking}"

    @property
    def verdict(self) -> str:
        """Whether the paper's number, one seed's, may come from the runs' distribution.

        *reproduced*: within two standard deviations of the mean, rounding included; *differs*:
        outside the 95 % prediction interval of one more run, mean ± t(n-1) s sqrt(1 + 1/n);
        *cannot be told apart*: between the two, or fewer than three runs.
        """
        if not self.results or self.paper is None:
            return "not run" if not self.results else ""
        diverged = self.count("diverged")
        if diverged or self.paper.value is None:
            agree = diverged == len(self.results) and self.paper.value is None
            return "reproduced" if agree else f"diverges ({diverged}/{len(self.results)})"
        count = len(self.scores)
        if count < 3:
            return "cannot be told apart"
        from scipy.stats import t

        distance = max(0.0, abs(self.paper.value - fmean(self.scores)) - self.paper.rounding)
        spread = stdev(self.scores)
        if distance <= 2 * spread:
            return "reproduced"
        reach = float(t.ppf(0.975, count - 1)) * spread * math.sqrt(1 + 1 / count)
        return "differs" if distance > reach else "cannot be told apart"


def cell(experiments: Sequence[Experiment], *, metric: str | None = None) -> Cell:
    """Return the cell of runs that differ in nothing but their seed.

    Each run is looked up by its digest, so no other run can enter. Another `metric` than the task's
    is shown where the runs have it, and is not compared with the paper.
    """
    first = experiments[0]
    folders = [experiment.folder() for experiment in experiments]
    made = [(folder, found) for folder in folders if (found := reader.result(folder)) is not None]
    shown_metric = first.task.metric
    if metric is not None and any(metric in (result.test or {}) for _, result in made):
        shown_metric = metric
    comparable = first.scale == "paper" and not first.own_data and shown_metric == first.task.metric
    return Cell(
        first.task.name,
        first.norm.name,
        shown_metric,
        len(experiments),
        tuple(result for _, result in made),
        published(first.task.name, first.norm.name) if comparable else None,
        tuple(folder for folder, _ in made),
    )


def best(candidates: Sequence[Candidate]) -> tuple[Candidate, int]:
    """Return the candidate with the best mean validation score, and how many candidates have ended.

    A candidate has ended with its last seed. One of which every run ended well is better than one of
    which some did not, and that better than one not ended. No test score is looked at.
    """
    scores: list[tuple[bool, bool, float]] = []
    for candidate in candidates:
        runs = candidate.runs
        results = [reader.result(run.folder()) for run in runs]
        target = runs[0].task
        valid = [r.valid_score(target.criterion) for r in results if r is not None and r.status == "done"]
        sign = 1 if target.selects_highest else -1
        mean = sign * fmean(valid) if valid else -math.inf
        scores.append((None not in results, len(valid) == len(runs), mean))
    index = max(range(len(scores)), key=scores.__getitem__)
    return candidates[index], sum(ended for ended, _, _ in scores)
