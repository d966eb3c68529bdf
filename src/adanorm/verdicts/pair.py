"""Two norms on a task, compared over all their records; the answer is one of a few words."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from statistics import fmean, median
from typing import Any, Literal

from adanorm.config.titles import task_metric, title
from adanorm.records.published import READ_OFF, published, published_last_loss
from adanorm.stats.comparison import Answer, Comparison, Hypothesis, PaperGap
from adanorm.stats.conjunction import fisher_test
from adanorm.stats.example_noise import ENOUGH_SEEDS, example_error
from adanorm.stats.sequential import Prospect, seeds_looked_at
from adanorm.stats.variance import Spread, TaskVariance
from adanorm.verdicts.cell import FATES, Cell
from adanorm.verdicts.evidence import Evidence
from adanorm.verdicts.plan import Plan, compare_by
from adanorm.verdicts.preregistration import claimed_pairs
from adanorm.verdicts.same_examples import ByExample, compare_examples


@dataclass(frozen=True)
class Pair:
    """Two norms on a task as a plan reads them; the first is claimed to be better."""

    plan: Plan
    norms: tuple[str, str]  # better, worse
    sides: tuple[Cell, Cell]
    # Shared seeds; none if a run diverged or did not learn, since the scores left would flatter its
    # norm.
    seeds: tuple[int, ...]
    comparison: Comparison | None  # None without shared seeds or a variance
    spread: Spread | None  # of one seed's gap
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
        if self.divergence_p is None:
            return "open" if self.comparison is None else self.comparison.answer
        if self.divergence_p >= self.plan.looks.level:
            return "open"
        shares = [side.count("diverged") / len(side.recorded) for side in self.sides]
        return "better" if shares[0] < shares[1] else "worse"

    @property
    def has_looked(self) -> bool:
        """Whether the plan has had its first look, at scores or at runs that diverged."""
        return self.comparison is not None or self.divergence_p is not None

    @cached_property
    def divergence_p(self) -> float | None:
        """The p of Fisher's exact test on the shares of runs that diverged; None if none did."""
        diverged = [side.count("diverged") for side in self.sides]
        runs = [len(side.recorded) for side in self.sides]
        return fisher_test(diverged, runs) if any(diverged) else None

    @cached_property
    def prospect(self) -> Prospect | None:
        """How many seeds would close the comparison; None without one.

        The simulation takes a while.
        """
        comparison = self.comparison
        looks = self.plan.looks
        if comparison is None or self.spread is None:
            return None
        paper_lead = abs(comparison.paper.value) if comparison.paper else 0.0
        noise = {"sd": self.spread.sd, "example_error": comparison.example_error}
        to_find = seeds_looked_at(
            looks,
            paper_lead,
            kind="difference",
            **noise,
        )
        to_equate = seeds_looked_at(
            looks,
            comparison.margin,
            kind="equivalence",
            **noise,
        )
        return Prospect(to_find, to_equate)

    @property
    def remark(self) -> str:
        """Why there is no comparison, or which runs it leaves out; perhaps ''."""
        parts = []
        for fate in FATES:
            if any(side.count(fate) for side in self.sides):
                shares = []
                for norm, side in zip(self.norms, self.sides, strict=True):
                    shares.append(f"{title(norm)} {side.count(fate)} of {len(side.results)}")
                parts.append(f"{fate}: {', '.join(shares)}")
        if parts or self.comparison is not None or self.answer != "open":
            return "; ".join(parts)
        first_look = self.plan.looks.after[0]
        if len(self.seeds) < 2:
            return "one seed" if self.seeds else "no shared seeds"
        if len(self.seeds) < first_look:
            return f"{len(self.seeds)} of {first_look} planned seeds"
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

    def p_of(self, hypothesis: Hypothesis) -> float:
        """Return the p of the test for a hypothesis on the first norm; 1 without evidence."""
        if self.divergence_p is not None:
            return self.divergence_p if hypothesis == self.answer else 1.0
        return 1.0 if self.comparison is None else self.comparison.p_of(hypothesis)


def pair(records: Evidence, better: str, worse: str) -> Pair:
    """Return the pair of two norms as the plan of the records reads them, up to its last look.

    If a decision stands, that is the first look that decides.
    """
    plan = records.plan
    paper = paper_gap(
        records,
        better,
        worse,
    )
    sides = records.norms[better], records.norms[worse]
    shared = records.variance.shared(worse, better)
    for look in plan.read_in_turn(len(shared)) or [len(shared)]:
        seeds = shared[:look]
        variance = _without(records.variance, shared[look:])
        noise = _example_noise(records, better, worse, seeds) if seeds else {}
        comparison = compare_by(
            plan,
            [variance],
            (better, worse),
            paper=paper,
            **noise,
        )
        if comparison is not None and comparison.answer != "open":
            break
    return Pair(
        plan,
        (better, worse),
        sides,
        tuple(seeds),
        comparison,
        variance.of_difference(worse, better),
        variance.gaps(worse, better),
    )


def by_own_noise(records: Evidence, read: Pair) -> Comparison | None:
    """Return the comparison of a pair with the pair's own noise of test examples, at the same look.

    None without a comparison of test scores. If no examples are counted, it is the pair's own.
    """
    if read.plan.quantity not in ("test", "top3"):
        return None
    noise = _own_noise(
        records,
        *read.norms,
        read.seeds,
    )
    return read.comparison and replace(read.comparison, **noise)


def _without(variance: TaskVariance, late: Collection[int]) -> TaskVariance:
    """Return a task's scores without some seeds."""
    if not late:
        return variance
    scores = {}
    for norm, by_seed in variance.scores.items():
        scores[norm] = {seed: score for seed, score in by_seed.items() if seed not in late}
    return replace(variance, scores=scores)


def _example_noise(
    records: Evidence, better: str, worse: str, seeds: Collection[int]
) -> Mapping[str, Any]:
    """Return the noise of test examples, as fields of a comparison.

    {} if none are counted, or the quantity is no test score. Pooled, it is a mean over all pairs
    of the task's norms, each up to its last look. A pair's component may be negative; only a
    negative mean is set to 0.
    """
    plan = records.plan
    if plan.quantity not in ("test", "top3") or plan.examples == "none":
        return {}
    if plan.examples == "own":
        return _own_noise(
            records,
            better,
            worse,
            seeds,
        )
    if plan.examples == "pooled":
        noises = [by_example.noise for _, by_example in _pairs_of(records, records.variance.scores)]
    else:
        claimed = {*claimed_pairs(plan.task)}
        is_claimed = (worse, better) in claimed or (better, worse) in claimed
        by_example = _by_example(records, better, worse, seeds) if is_claimed else None
        noises = [by_example.noise] if by_example else []
    if not noises:
        return {}
    mean = noises[0]._replace(example=fmean(noise.example for noise in noises))
    return {"example_error": mean.example_error, "examples": mean.examples}


def _own_noise(
    records: Evidence, better: str, worse: str, seeds: Collection[int]
) -> Mapping[str, Any]:
    """Return the pair's own noise of test examples; {} if none are counted, or for one seed.

    With few seeds it is shrunk towards the median of the other pairs (conf/plans/later.yaml).
    """
    by_example = _by_example(records, better, worse, seeds) if len(seeds) > 1 else None
    if by_example is None or by_example.own_noise is None:
        return {}
    noise = by_example.own_noise
    median_of_pairs = 0.0
    if noise.seeds < ENOUGH_SEEDS:
        median_of_pairs = _median_noise(records, {better, worse})
    error = example_error(noise, median_of_pairs)
    return {"example_error": error, "examples": by_example.noise.examples}


def _median_noise(records: Evidence, pair_of: Collection[str]) -> float:
    """Return the median noise of other pairs of norms that learn about as much as LayerNorm, or 0."""
    norms = []
    for norm in records.variance.scores:
        gaps = records.variance.gaps("layernorm", norm)
        if norm == "layernorm" or (gaps and fmean(gaps) >= -records.plan.margin):
            norms.append(norm)
    variances = []
    for two, by_example in _pairs_of(records, norms):
        if two != pair_of and by_example.own_noise is not None:
            variances.append(by_example.own_noise.variance)
    return median(variances) if variances else 0.0


def _pairs_of(records: Evidence, norms: Iterable[str]) -> Iterator[tuple[set[str], ByExample]]:
    """Yield every two norms compared by test examples, up to their last look, if they have counts.

    Not with one seed, which cannot separate the noise of examples from its own.
    """
    for first, second in combinations(norms, 2):
        shared = records.variance.shared(first, second)
        shared = shared[: records.plan.seeds_read(len(shared))]
        by_example = _by_example(records, first, second, shared) if len(shared) > 1 else None
        if by_example is not None:
            yield {first, second}, by_example


def _by_example(
    records: Evidence, better: str, worse: str, seeds: Collection[int]
) -> ByExample | None:
    sides = []
    for norm in (worse, better):
        sides.append([run for run in records.norms[norm].runs if run.seed in seeds])
    return compare_examples(sides, records.norms[worse].metric)


def paper_gap(records: Evidence, better: str, worse: str) -> PaperGap | None:
    """Return a norm's lead in the paper.

    None without two numbers, at another scale or in other settings.
    """
    task = records.plan.task
    quantity = records.plan.quantity
    if records.plan.scale != "paper" or records.plan.overrides:
        return None
    if quantity in ("test", "top3"):
        return published_gap(
            task,
            better,
            worse,
        )
    part = quantity.removeprefix("last_").removesuffix("_loss")  # train or valid
    better_loss = published_last_loss(
        task,
        better,
        part,
    )
    worse_loss = published_last_loss(task, worse, part)
    if better_loss is None or worse_loss is None:
        return None
    return PaperGap(worse_loss - better_loss, 2 * READ_OFF, confirmed=True)


def published_gap(task: str, better: str, worse: str) -> PaperGap | None:
    """Return by how much a norm's test score is better in the paper.

    None unless it has both numbers.
    """
    ours = published(task, better)
    theirs = published(task, worse)
    if ours is None or theirs is None or None in (ours.value, theirs.value):
        return None
    gap = published_score(task, better) - published_score(task, worse)
    rounding = ours.rounding + theirs.rounding
    return PaperGap(gap, rounding, ours.confirmed and theirs.confirmed)


def published_score(task: str, norm: str) -> float:
    """Return the paper's number, signed so that larger is better; -inf where it says Diverge."""
    number = published(task, norm)
    assert number is not None, "called only for numbers that the paper has"
    return -math.inf if number.value is None else task_metric(task).sign * number.value
