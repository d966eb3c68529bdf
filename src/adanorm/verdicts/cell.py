"""One cell of a table: the runs of a task under a norm, over seeds, beside the paper's number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

from adanorm.config.compose import papers_sources
from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.baselines import has_learned
from adanorm.records.published import Published, published
from adanorm.records.result import Result, Status
from adanorm.studies.grid import Candidate
from adanorm.verdicts.prediction import place
from adanorm.verdicts.variance import Spread


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
    unlearned: tuple[int, ...] = ()  # seeds whose runs are no better than a trivial baseline

    @property
    def scores(self) -> list[float]:
        """The test scores of the runs that ended well."""
        return [result.test_score(self.metric) for result in self.results if result.status == "done"]

    @property
    def by_seed(self) -> dict[int, float]:
        """The test scores of the runs that ended well and learned something, by seed."""
        done = (r for r in self.results if r.status == "done" and r.seed not in self.unlearned)
        return {result.seed: result.test_score(self.metric) for result in done}

    @property
    def all_learned(self) -> bool:
        """Whether no run diverged or failed to learn: scores that are left of others are the better ones."""
        return not self.setback

    @property
    def setback(self) -> str:
        """How many runs diverged, or did not learn; nothing where none did."""
        ended, diverged = len(self.results), self.count("diverged")
        if diverged:
            return f"diverged {diverged}/{ended}"
        return f"did not learn {len(self.unlearned)}/{ended}" if self.unlearned else ""

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
        nothing = f", did not learn ({len(self.unlearned)}/{ended})" if self.unlearned else ""
        return f"{mean:.{digits}f}{spread}{lacking}{nothing}"

    def verdict(self, spread: Spread | None) -> str:
        """Return whether the paper's number, one seed's, may come from the runs' distribution.

        `spread` is that of one more run. *consistent*, *inconclusive* or *differs*, and the number's
        percentile; none against a number that is recollected.
        """
        if not self.results or self.paper is None:
            return "not run" if not self.results else ""
        if not self.paper.confirmed:
            return "no verdict"
        diverged = self.count("diverged")
        if diverged or self.paper.value is None:
            agree = diverged == len(self.results) and self.paper.value is None
            return "consistent" if agree else f"differs: diverges {diverged}/{len(self.results)}"
        if self.unlearned:
            return f"did not learn ({len(self.unlearned)}/{len(self.results)})"
        if not self.scores or spread is None or spread.sd == 0:
            return "inconclusive"
        number, count = self.paper, len(self.scores)
        found = place(
            number.value or 0.0, rounding=number.rounding, mean=fmean(self.scores), count=count, spread=spread
        )
        return f"{found.verdict} ({found.percentile:.0f} %)"


def cell(experiments: Sequence[Experiment], *, metric: str | None = None) -> Cell:
    """Return the cell of runs that differ in nothing but their seed, and of all such on record.

    Each run is looked up by its digest, so no other run can enter. Another `metric` than the task's
    is shown where the runs have it, and is not compared with the paper.
    """
    first = experiments[0]
    asked = {experiment.seed for experiment in experiments}
    alike = [*experiments, *(run for run in reader.runs_on_record(first) if run.seed not in asked)]
    made = [(run, found) for run in alike if (found := reader.result(run.folder())) is not None]
    shown_metric = first.task.metric
    if metric is not None and any(metric in (result.test or {}) for _, result in made):
        shown_metric = metric
    paper = published(first.task.name, first.norm.name) if shown_metric == first.task.metric else None
    if paper is not None and unlike_the_papers(first) is not None:
        paper = None
    done = [(run, result) for run, result in made if result.status == "done"]
    return Cell(
        first.task.name,
        first.norm.name,
        shown_metric,
        len(experiments),
        tuple(result for _, result in made),
        paper,
        tuple(run.folder() for run, _ in made),
        tuple(run.seed for run, result in done if not has_learned(run, result.test_score(first.task.metric))),
    )


def unlike_the_papers(run: Experiment) -> str | None:
    """Return why a run is not to be compared with the paper's number; None where it is."""
    if run.norm.path is not None:
        return "a norm from outside"
    if run.own_data:
        return "own data"
    if run.scale != "paper":
        return f"{run.scale} scale"
    source = run.data.source
    return None if source in papers_sources(run.task.name) else f"data.source={source}"


class Tried(NamedTuple):
    """A setting that was tried: the results of its runs, None of those not ended, and validation scores."""

    candidate: Candidate
    results: tuple[Result | None, ...]
    valid: tuple[float, ...]  # the best evaluation's, of the runs that ended well

    @property
    def has_ended(self) -> bool:
        """Whether no seed is left to run."""
        return None not in self.results

    @property
    def text(self) -> str:
        """The mean validation score, with the runs that lack it; `-` where no run has ended."""
        ended = [result for result in self.results if result is not None]
        metric = METRICS[self.candidate.runs[0].task.selection_metric]
        facts = [metric.text(fmean(self.valid))] if self.valid else []
        for status in ("diverged", "failed"):
            if count := sum(result.status == status for result in ended):
                facts.append(f"{count} {status}")
        if facts and not self.has_ended:
            facts.append(f"{len(ended)}/{len(self.results)} seeds")
        return ", ".join(facts) or "-"


def tried(candidate: Candidate) -> Tried:
    """Return what the validation set says of a candidate of a cell; no test score is looked at."""
    target = candidate.runs[0].task
    results = tuple(reader.result(run.folder()) for run in candidate.runs)
    done = (result for result in results if result is not None and result.status == "done")
    return Tried(candidate, results, tuple(result.valid_score(target.selection_metric) for result in done))


def best(candidates: Sequence[Candidate]) -> tuple[Candidate, int]:
    """Return the candidate with the best mean validation score, and how many candidates have ended.

    A candidate has ended with its last seed. One of which every run ended well is better than one of
    which some did not, and that better than one not ended. No test score is looked at.
    """
    scores: list[tuple[bool, bool, float]] = []
    for one in map(tried, candidates):
        sign = 1 if one.candidate.runs[0].task.selects_highest else -1
        mean = sign * fmean(one.valid) if one.valid else -math.inf
        scores.append((one.has_ended, len(one.valid) == len(one.results), mean))
    index = max(range(len(scores)), key=scores.__getitem__)
    return candidates[index], sum(ended for ended, _, _ in scores)
