"""Two norms on a task: what all records of the two say, in one of a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from adanorm.config.titles import task_metric, title
from adanorm.records.comparisons import ComparisonRecord, read_comparison
from adanorm.records.published import READ_OFF, published, published_last_loss
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.comparison import Comparison, PaperGap, compare_gaps
from adanorm.verdicts.evidence import Evidence
from adanorm.verdicts.planning import Prospect, prospect
from adanorm.verdicts.preregistration import preregistration
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
    divergence_p: float | None = None  # of as unequal shares of diverged runs; None where none diverged

    @property
    def answer(self) -> Answer:
        """What the records say of the norm that is claimed to be better.

        Runs that diverge count as worse than runs that do not, by Fisher's exact test. A norm of which a run
        learned nothing is not compared.
        """
        if any(side.ended == 0 for side in self.sides):
            return "not run"
        if self.divergence_p is not None:
            if self.divergence_p >= preregistration().level:
                return "open"
            shares = [side.count("diverged") / side.ended for side in self.sides]
            return "better" if shares[0] < shares[1] else "worse"
        return "open" if self.comparison is None else self.comparison.answer

    @cached_property
    def prospect(self) -> Prospect | None:
        """How many seeds would close it; None without a comparison. Simulated, so that it takes a while."""
        comparison = self.comparison
        if comparison is None or self.sd is None:
            return None
        return prospect(
            preregistration().looks,
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
            planned = preregistration().stopping.planned
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
        if self.comparison.p_not_inferior < level:
            return "not worse"
        return "worse" if self.comparison.p_inferior < level else "open"

    def p(self, kind: str) -> float:
        """Return the p of a hypothesis here, such as `p_better` of a comparison; 1 without evidence."""
        if self.divergence_p is not None:
            shown = "p_better" if self.answer == "better" else "p_worse"
            return self.divergence_p if kind == shown and self.answer != "open" else 1.0
        return 1.0 if self.comparison is None else float(getattr(self.comparison, kind))


def pair(
    found: Evidence,
    better: str,
    worse: str,
    *,
    margin: float,
    paper: PaperGap | None = None,
    goes_on: bool = False,
) -> Pair | None:
    """Return what is on record of two norms; None where the task is not there.

    Over all seeds that the two share, up to the most of the plan. If it `goes_on`, the planned seeds are
    the first look of several.
    """
    if better not in found.norms or worse not in found.norms:
        return None
    registered = preregistration()
    sides = found.norms[better], found.norms[worse]
    shared, most = found.variance.shared(worse, better), registered.stopping.most
    seeds, late = shared[:most], {*shared[most:]}
    variance = found.variance
    if late:
        kept = {n: {s: x for s, x in of.items() if s not in late} for n, of in variance.scores.items()}
        variance = replace(variance, scores=kept)
    gaps = [sides[0].by_seed[seed] - sides[1].by_seed[seed] for seed in seeds]
    noise = None
    if gaps and found.quantity == "test":
        noise = read_comparison(*(side.runs[0] for side in sides))
    comparison = compared(
        variance, better, worse, gaps, margin=margin, paper=paper, noise=noise, goes_on=goes_on
    )
    seconds = [side.seconds for side in sides]
    spread = variance.of_difference(worse, better)
    return Pair(
        found.task,
        found.scale,
        (better, worse),
        sides,
        tuple(seeds),
        tuple(gaps),
        comparison,
        spread.sd if spread else None,
        None if None in seconds else sum(s for s in seconds if s is not None) / 3600,
        _divergence(sides),
    )


def compared(
    variance: TaskVariance,
    better: str,
    worse: str,
    gaps: Sequence[float],
    *,
    margin: float,
    paper: PaperGap | None = None,
    noise: ComparisonRecord | None = None,
    goes_on: bool = False,
) -> Comparison | None:
    """Return a comparison of gaps, one a seed; None with fewer than two, and without a variance.

    `noise` is that of examples. More gaps than planned, or as many if it `goes_on`, are a look of a
    sequential plan, whose levels are of tests by the comparison's own variance; fewer are then no look.
    """
    plan = preregistration().stopping
    if goes_on and len(gaps) < plan.planned:
        return None
    is_look = len(gaps) > plan.planned or (goes_on and len(gaps) == plan.planned)
    has_several = len(gaps) > 1  # how one seed scatters is no other norm's to say
    spread = variance.of_difference(worse, better, borrowing=not is_look) if has_several else None
    return spread and compare_gaps(
        gaps,
        margin,
        level=preregistration().level,
        levels=preregistration().looks.levels(len(gaps)) if is_look else None,
        spread=spread,
        paper=paper,
        example_error=noise.example_error if noise else 0.0,
        examples=noise.examples if noise else 0,
    )


def _divergence(sides: tuple[Cell, Cell]) -> float | None:
    """Return the p of Fisher's exact test of the shares of runs that diverged; None where none did."""
    diverged = [side.count("diverged") for side in sides]
    if not any(diverged):
        return None
    from scipy.stats import fisher_exact

    table = [[count, side.ended - count] for count, side in zip(diverged, sides, strict=True)]
    return float(fisher_exact(table).pvalue)


def paper_gap(found: Evidence, better: str, worse: str) -> PaperGap | None:
    """Return by how much a norm is better than another in the paper; None where it has no two numbers.

    None too at another scale than the paper's, whose numbers are no measure there.
    """
    if found.scale != "paper" or better not in found.norms:
        return None
    if found.quantity == "test":
        return published_gap(found.task, better, worse)
    part = {"last_train_loss": "train", "last_valid_loss": "valid"}.get(found.quantity)
    losses = [published_last_loss(found.task, norm, part) for norm in (better, worse)] if part else [None]
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
