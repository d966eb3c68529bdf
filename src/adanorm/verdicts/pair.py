"""Two norms on a task, compared over all their records; the answer is one of a few words."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any, Literal

from adanorm.config.titles import task_metric, title
from adanorm.records.published import READ_OFF, published, published_last_loss
from adanorm.stats.comparison import Answer, Comparison, Hypothesis, PaperGap, compare_gaps
from adanorm.stats.sequential import Looks, Prospect, seeds_looked_at
from adanorm.stats.variance import Components, Spread, TaskVariance
from adanorm.verdicts.by_example import compared_by_example
from adanorm.verdicts.cell import FATES, Cell, Evidence
from adanorm.verdicts.preregistration import claimed_pairs, preregistration


@dataclass(frozen=True)
class Pair:
    """Two norms on a task: the one that is claimed to be better, and the other."""

    task: str
    scale: str
    norms: tuple[str, str]  # better, worse
    sides: tuple[Cell, Cell]
    # Shared seeds; none if a run diverged or did not learn, since the scores left would flatter its
    # norm.
    seeds: tuple[int, ...]
    comparison: Comparison | None  # None without shared seeds or a variance
    spread: Spread | None  # of one seed's gap
    looks: Looks
    gaps: list[float]  # by how much the first norm is better, one per shared seed

    @property
    def hours_per_seed(self) -> float | None:
        """The core-hours of one seed of both norms; None if one norm has no times on record."""
        seconds = [side.seconds for side in self.sides if side.seconds is not None]
        return sum(seconds) / 3600 if len(seconds) == 2 else None

    @property
    def answer(self) -> Answer | Literal["not run"]:
        """The answer for the norm that is claimed to be better.

        Runs that diverge count as worse than runs that do not, by Fisher's exact test. A norm with
        a run that learned nothing is not compared: *open*.
        """
        if not all(side.recorded for side in self.sides):
            return "not run"
        if self.divergence_p is not None:
            if self.divergence_p >= preregistration().level:
                return "open"
            shares = [side.count("diverged") / len(side.recorded) for side in self.sides]
            return "better" if shares[0] < shares[1] else "worse"
        return "open" if self.comparison is None else self.comparison.answer

    @cached_property
    def divergence_p(self) -> float | None:
        """The p of Fisher's exact test on the shares of runs that diverged; None if none did."""
        counts = [(side.count("diverged"), len(side.recorded)) for side in self.sides]
        if not any(diverged for diverged, _ in counts):
            return None
        from scipy.stats import fisher_exact

        return float(
            fisher_exact([[diverged, ended - diverged] for diverged, ended in counts]).pvalue
        )

    @cached_property
    def prospect(self) -> Prospect | None:
        """How many seeds would close the comparison; None without one. The simulation takes a while."""
        comparison = self.comparison
        if comparison is None or self.spread is None:
            return None
        paper_lead = abs(comparison.paper.value) if comparison.paper else 0.0
        noise = {"sd": self.spread.sd, "example_error": comparison.example_error}
        to_find = seeds_looked_at(self.looks, paper_lead, kind="difference", **noise)
        return Prospect(
            to_find, seeds_looked_at(self.looks, comparison.margin, kind="equivalence", **noise)
        )

    @property
    def remark(self) -> str:
        """Why there is no comparison, or which runs it leaves out; perhaps ''."""
        sides, parts = [*zip(self.norms, self.sides, strict=True)], []
        for fate in FATES:
            shares = [
                f"{title(norm)} {side.count(fate)} of {len(side.results)}" for norm, side in sides
            ]
            parts += (
                [f"{fate}: {', '.join(shares)}"]
                if any(side.count(fate) for _, side in sides)
                else []
            )
        if parts or self.comparison is not None or self.answer != "open":
            return "; ".join(parts)
        if len(self.seeds) < 2:
            return "one seed" if self.seeds else "no shared seeds"
        if len(self.seeds) < self.looks.after[0]:
            return f"{len(self.seeds)} of {self.looks.after[0]} planned seeds"
        return "equal gaps, and no variance"

    @property
    def why(self) -> str:
        """What decides the answer, and how much one test example is if that exceeds the margin."""
        if self.comparison is None:
            return self.remark
        step = max(side.example for side in self.sides)
        is_coarse = step > self.comparison.margin and self.answer in ("equivalent", "open")
        coarse = f"one test example is {step:.2g}" if is_coarse else ""
        return "; ".join(filter(None, [self.comparison.why, coarse, self.remark]))

    @property
    def answer_of_no_loss(self) -> str:
        """The answer to a claim that the first norm is no worse: tests of non-inferiority decide it too."""
        if self.answer != "open" or self.comparison is None:
            return self.answer
        level = preregistration().level
        if self.comparison.p_of("not inferior") < level:
            return "not worse"
        return "worse" if self.comparison.p_of("inferior") < level else "open"

    def p_of(self, hypothesis: Hypothesis) -> float:
        """Return the p of the test for a hypothesis on the first norm; 1 without evidence."""
        if self.divergence_p is not None:
            return self.divergence_p if hypothesis == self.answer else 1.0
        return 1.0 if self.comparison is None else self.comparison.p_of(hypothesis)


def pair(records: Evidence, better: str, worse: str, *, goes_on: bool = False) -> Pair:
    """Return the pair of two norms by the records of a task with a registered margin.

    It is compared over all shared seeds up to the plan's last look. `goes_on` says that seeds are
    added until it is decided: the planned seeds are then the first look of several.
    """
    margin = preregistration().margin(records.task, records.quantity, records.plan)
    assert margin is not None, "checked with the claims"
    looks, plan = preregistration().looks_of(records.plan), records.plan
    variance = until_last_look(records.variance, better, worse, plan)
    seeds = variance.shared(worse, better)
    paper = paper_gap(records, better, worse)
    noise = _example_noise(records, better, worse, seeds, goes_on=goes_on) if seeds else None
    gaps = variance.gaps(worse, better)
    comparison = compared(
        variance,
        better,
        worse,
        gaps,
        margin=margin,
        paper=paper,
        noise=noise,
        goes_on=goes_on,
        plan=plan,
    )
    task, scale, sides = records.task, records.scale, (records.norms[better], records.norms[worse])
    spread = variance.of_difference(worse, better)
    return Pair(task, scale, (better, worse), sides, tuple(seeds), comparison, spread, looks, gaps)


def until_last_look(
    variance: TaskVariance, better: str, worse: str, plan: str | None
) -> TaskVariance:
    """Return a task's scores without the seeds that two norms share beyond the last look they reach."""
    looks, shared = preregistration().looks_of(plan), variance.shared(worse, better)
    reached = [look for look in looks.after if plan is None or look <= len(shared)]
    late = {*shared[reached[-1] :]} if reached else {*()}
    scores = {
        n: {s: x for s, x in own.items() if s not in late} for n, own in variance.scores.items()
    }
    return replace(variance, scores=scores) if late else variance


def _example_noise(
    records: Evidence, better: str, worse: str, seeds: Collection[int], *, goes_on: bool
) -> Components | None:
    """Return the noise of test examples; None if none are counted, or the quantity is no test score.

    The first plan allows for it in claims, and if seeds are added until a pair is decided. A later
    plan pools it over all pairs of the task's norms, each up to its last look. A pair's component
    may be negative; only a negative mean is set to 0.
    """
    if records.quantity not in ("test", "top3"):
        return None
    if records.plan is None:
        is_claimed = {(worse, better), (better, worse)} & {*claimed_pairs(records.task)}
        return _components(records, better, worse, seeds) if goes_on or is_claimed else None
    noises = []
    for two in combinations(records.variance.scores, 2):
        shared = until_last_look(records.variance, *two, records.plan).shared(*two)
        # One shared seed cannot separate the noise of examples from its own.
        if len(shared) > 1 and (noise := _components(records, *two, shared)):
            noises.append(noise)
    return noises[0]._replace(example=fmean(noise.example for noise in noises)) if noises else None


def _components(
    records: Evidence, better: str, worse: str, seeds: Collection[int]
) -> Components | None:
    cells = [records.norms[norm] for norm in (worse, better)]
    sides = [[run for run in cell.runs if run.seed in seeds] for cell in cells]
    comparison = compared_by_example(sides, cells[0].metric)
    return comparison.noise if comparison else None


def compared(
    variance: TaskVariance,
    better: str,
    worse: str,
    gaps: Sequence[float],
    *,
    margin: float,
    paper: PaperGap | None = None,
    noise: Components | None = None,
    goes_on: bool = False,
    plan: str | None = None,
) -> Comparison | None:
    """Return the comparison of gaps, one per seed; None below two gaps, without a variance, or off a look.

    More gaps than planned, or as many if it `goes_on`, are a look of a sequential plan. Its levels
    hold for tests by the comparison's own variance. A later `plan`, and one that `goes_on`, has
    looks only.
    """
    looks, looks_alone = preregistration().looks_of(plan), plan is not None or goes_on
    is_look = len(gaps) in (looks.after if looks_alone else looks.after[1:])
    if len(gaps) < 2 or (looks_alone and not is_look):  # other norms do not tell how one gap varies
        return None
    spread = variance.of_difference(worse, better, borrowing=not is_look)
    facts: dict[str, Any] = {"paper": paper}
    if noise is not None:
        facts |= {"example_error": noise.example_error, "examples": noise.examples}
    levels = looks.levels(len(gaps)) if is_look else None
    return spread and compare_gaps(
        gaps, margin, level=looks.level, levels=levels, spread=spread, **facts
    )


def paper_gap(records: Evidence, better: str, worse: str) -> PaperGap | None:
    """Return a norm's lead in the paper; None without two numbers, at another scale or in other settings."""
    if records.scale != "paper" or records.overrides:
        return None
    if records.quantity in ("test", "top3"):
        return published_gap(records.task, better, worse)
    part = records.quantity.removeprefix("last_").removesuffix("_loss")  # train or valid
    first, second = (published_last_loss(records.task, norm, part) for norm in (better, worse))
    if first is None or second is None:
        return None
    return PaperGap(second - first, 2 * READ_OFF, confirmed=True)


def published_gap(task: str, better: str, worse: str) -> PaperGap | None:
    """Return by how much a norm's test score is better in the paper; None unless it has both numbers."""
    numbers = [number for norm in (better, worse) if (number := published(task, norm)) is not None]
    if len(numbers) < 2 or any(number.value is None for number in numbers):
        return None
    gap = published_score(task, better) - published_score(task, worse)
    return PaperGap(gap, sum(n.rounding for n in numbers), all(n.confirmed for n in numbers))


def published_score(task: str, norm: str) -> float:
    """Return the paper's number, signed so that larger is better; -inf where it says Diverge."""
    number = published(task, norm)
    assert number is not None, "called only for numbers that the paper has"
    return -math.inf if number.value is None else task_metric(task).sign * number.value
