"""Two norms on a task: what all records of the two say, in one of a few words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

from adanorm.config.titles import task_metric, title
from adanorm.records.published import READ_OFF, published, published_last_loss
from adanorm.verdicts.by_example import compared_by_example
from adanorm.verdicts.cell import Cell, Evidence
from adanorm.verdicts.comparison import Comparison, Hypothesis, PaperGap, compare_gaps
from adanorm.verdicts.crossed import Components, pooled_example_error
from adanorm.verdicts.preregistration import claimed_pairs, preregistration
from adanorm.verdicts.sequential import Looks, Prospect, prospect
from adanorm.verdicts.variance import TaskVariance

Answer = Literal["better", "worse", "equivalent", "open", "not run"]


@dataclass(frozen=True)
class Pair:
    """A norm that is claimed to be better on a task beside the worse.

    `comparison` is None without shared seeds or a variance; `seeds` are those shared, none where a run
    diverged or did not learn, since what is left of its norm would flatter it; `hours_a_seed` are the
    core-hours of one seed of both.
    """

    task: str
    scale: str
    norms: tuple[str, str]  # better, worse
    sides: tuple[Cell, Cell]
    seeds: tuple[int, ...]
    gaps: tuple[float, ...]  # one a shared seed
    comparison: Comparison | None
    sd: float | None  # of a seed's gap
    hours_a_seed: float | None
    divergence_p: float | None  # of as unequal shares of diverged runs; None where none diverged
    looks: Looks

    @property
    def answer(self) -> Answer:
        """What the records say of the norm that is claimed to be better.

        Runs that diverge count as worse than runs that do not, by Fisher's exact test. A norm of which a run
        learned nothing is not compared.
        """
        if any(len(side.recorded) == 0 for side in self.sides):
            return "not run"
        if self.divergence_p is not None:
            if self.divergence_p >= preregistration().level:
                return "open"
            shares = [side.count("diverged") / len(side.recorded) for side in self.sides]
            return "better" if shares[0] < shares[1] else "worse"
        return "open" if self.comparison is None else self.comparison.answer

    @cached_property
    def prospect(self) -> Prospect | None:
        """How many seeds would close it; None without a comparison. Simulated, so that it takes a while."""
        comparison = self.comparison
        if comparison is None or self.sd is None:
            return None
        return prospect(
            self.looks,
            sd=self.sd,
            margin=comparison.margin,
            paper=comparison.paper.value if comparison.paper else None,
            example_error=comparison.example_error,
        )

    @property
    def remark(self) -> str:
        """Why there is no comparison, or what is left out of it; perhaps nothing."""
        parts = []
        counts = {
            "diverged": [side.count("diverged") for side in self.sides],
            "did not learn": [len(side.unlearned) for side in self.sides],
            "failed": [side.count("failed") for side in self.sides],
        }
        for what, of in counts.items():
            if any(of):
                shares = [
                    f"{title(norm)} {n} of {len(side.results)}"
                    for norm, n, side in zip(self.norms, of, self.sides, strict=True)
                ]
                parts.append(f"{what}: {', '.join(shares)}")
        if self.comparison is None and not parts and self.answer == "open":
            planned = self.looks.after[0]
            why = {0: "no shared seeds", 1: "one seed"}
            few = f"{len(self.seeds)} of {planned} planned seeds"
            late = "equal gaps, and no variance"
            parts.append(why.get(len(self.seeds), few if len(self.seeds) < planned else late))
        return "; ".join(parts)

    @property
    def answer_of_no_loss(self) -> str:
        """The answer to a claim that the first norm is no worse, which non-inferiority decides as well."""
        if self.answer != "open" or self.comparison is None:
            return self.answer
        level = preregistration().level
        if self.comparison.p_of("not inferior") < level:
            return "not worse"
        return "worse" if self.comparison.p_of("inferior") < level else "open"

    def p_of(self, hypothesis: Hypothesis) -> float:
        """Return the p of a hypothesis of the first norm; 1 without evidence."""
        if self.divergence_p is not None:
            return self.divergence_p if hypothesis == self.answer else 1.0
        if self.comparison is None or self.answer == "not run":
            return 1.0
        return self.comparison.p_of(hypothesis)


def pair(
    records: Evidence,
    better: str,
    worse: str,
    *,
    margin: float,
    paper: PaperGap | None = None,
    goes_on: bool = False,
) -> Pair | None:
    """Return what is on record of two norms; None where the task is not there.

    Over all seeds that the two share, up to the last look of the plan. If it `goes_on`, the planned seeds are
    the first look of several.
    """
    if better not in records.norms or worse not in records.norms:
        return None
    looks = preregistration().looks_of(records.plan)
    sides = records.norms[better], records.norms[worse]
    shared = records.variance.shared(worse, better)
    seeds = shared[: _read(len(shared), looks, records.plan)]
    variance = _without(records.variance, {*shared} - {*seeds})
    gaps = [sides[0].by_seed[seed] - sides[1].by_seed[seed] for seed in seeds]
    comparison = compared(
        variance,
        better,
        worse,
        gaps,
        margin=margin,
        paper=paper,
        noise=_example_noise(records, better, worse, seeds, goes_on) if gaps else None,
        goes_on=goes_on,
        plan=records.plan,
    )
    seconds = [side.seconds for side in sides]
    spread = variance.of_difference(worse, better)
    return Pair(
        records.task,
        records.scale,
        (better, worse),
        sides,
        tuple(seeds),
        tuple(gaps),
        comparison,
        spread.sd if spread else None,
        None if None in seconds else sum(s for s in seconds if s is not None) / 3600,
        _divergence(sides),
        looks,
    )


def _read(shared: int, looks: Looks, plan: str | None) -> int:
    """Return how many of the shared seeds are read: up to the last look that there is."""
    if plan is None:
        return min(shared, looks.after[-1])
    return max((look for look in looks.after if look <= shared), default=shared)


def _without(variance: TaskVariance, late: Collection[int]) -> TaskVariance:
    """Return a variance without the seeds that are not read."""
    scores = {norm: {s: x for s, x in of.items() if s not in late} for norm, of in variance.scores.items()}
    return replace(variance, scores=scores) if late else variance


class ExampleNoise(NamedTuple):
    """The standard error that the choice of so many test examples adds to a gap."""

    error: float
    examples: int


def _example_noise(
    records: Evidence, better: str, worse: str, seeds: Collection[int], goes_on: bool
) -> ExampleNoise | None:
    """Return the noise of test examples; None where none are counted, and of what is no test score.

    The first plan allows for it where a claim compares the two norms or seeds are added until they are
    decided. A later plan pools it over all pairs of the task's norms.
    """
    if records.quantity not in ("test", "top3"):
        return None
    if records.plan is None:
        if not goes_on and not {(worse, better), (better, worse)} & {*claimed_pairs(records.task)}:
            return None
        noise = _components(records, better, worse, seeds)
        return None if noise is None else ExampleNoise(noise.example_error, noise.examples)
    pairs = [(two, records.variance.shared(*two)) for two in combinations(records.variance.scores, 2)]
    known = [noise for two, shared in pairs if (noise := _components(records, *two, shared)) is not None]
    if not known:
        return None
    examples = known[0].examples
    return ExampleNoise(pooled_example_error([noise.example for noise in known], examples), examples)


def _components(records: Evidence, better: str, worse: str, seeds: Collection[int]) -> Components | None:
    """Return the variances of the gap of two norms over some seeds and over the test examples."""
    cells = [records.norms[norm].of_seeds(seeds) for norm in (worse, better)]
    comparison = compared_by_example([cell.runs for cell in cells], cells[0].metric)
    return None if comparison is None else comparison.noise


def compared(
    variance: TaskVariance,
    better: str,
    worse: str,
    gaps: Sequence[float],
    *,
    margin: float,
    paper: PaperGap | None = None,
    noise: ExampleNoise | None = None,
    goes_on: bool = False,
    plan: str | None = None,
) -> Comparison | None:
    """Return a comparison of gaps, one a seed; None with fewer than two, and without a variance.

    `noise` is that of examples. More gaps than planned, or as many if it `goes_on`, are a look of a
    sequential plan, whose levels are of tests by the comparison's own variance; fewer are then no look.
    A `plan` after the first has looks alone.
    """
    looks, planned = preregistration().looks_of(plan), preregistration().stopping.planned
    is_look = len(gaps) in looks.after and (plan is not None or goes_on or len(gaps) > planned)
    if not is_look and (plan is not None or goes_on):
        return None
    has_several = len(gaps) > 1  # how one seed scatters is no other norm's to say
    spread = variance.of_difference(worse, better, borrowing=not is_look) if has_several else None
    return spread and compare_gaps(
        gaps,
        margin,
        level=looks.level,
        levels=looks.levels(len(gaps)) if is_look else None,
        spread=spread,
        paper=paper,
        example_error=noise.error if noise else 0.0,
        examples=noise.examples if noise else 0,
    )


def _divergence(sides: tuple[Cell, Cell]) -> float | None:
    """Return the p of Fisher's exact test of the shares of runs that diverged; None where none did."""
    diverged = [side.count("diverged") for side in sides]
    if not any(diverged):
        return None
    from scipy.stats import fisher_exact

    table = [[count, len(side.recorded) - count] for count, side in zip(diverged, sides, strict=True)]
    return float(fisher_exact(table).pvalue)


def paper_gap(records: Evidence, better: str, worse: str) -> PaperGap | None:
    """Return by how much a norm is better than another in the paper; None where it has no two numbers.

    None too at another scale than the paper's, whose numbers are no measure there.
    """
    if records.scale != "paper" or better not in records.norms:
        return None
    if records.quantity in ("test", "top3"):
        return published_gap(records.task, better, worse)
    part = {"last_train_loss": "train", "last_valid_loss": "valid"}.get(records.quantity)
    losses = [published_last_loss(records.task, norm, part) for norm in (better, worse)] if part else [None]
    if None in losses:
        return None
    first, second = (loss for loss in losses if loss is not None)
    return PaperGap(second - first, 2 * READ_OFF, confirmed=True)


def published_gap(task: str, better: str, worse: str) -> PaperGap | None:
    """Return by how much a norm's test score is better in the paper, in the task's unit.

    None where the paper has no two numbers.
    """
    numbers = [published(task, norm) for norm in (better, worse)]
    known = [n for n in numbers if n is not None and n.value is not None]
    if len(known) < 2:
        return None
    first, second = (n.value or 0.0 for n in known)
    sign = 1 if task_metric(task).higher_is_better else -1
    rounding = sum(n.rounding for n in known)
    return PaperGap(sign * (first - second), rounding, all(n.confirmed for n in known))
