"""What older papers report of norms, held against records of analyses (conf/claims/earlier-papers.yaml)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, geometric_mean
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from adanorm.analyses.cell import analysis_results
from adanorm.analyses.spec import Analysis, AnalysisGrid, Quantity
from adanorm.config.paths import CONF
from adanorm.config.sections import Config
from adanorm.config.yaml_file import read_yaml_file
from adanorm.verdicts.comparison import Comparison, compare_gaps
from adanorm.verdicts.conjunction import in_family
from adanorm.verdicts.preregistration import preregistration


class Finding(Config):
    """A published finding: a comparison of two norms, or the entries of a table."""

    id: str
    text: str
    source: str
    analysis: str
    norms: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] | None = None
    quantities: tuple[str, ...] = ()
    expected: Literal["higher", "lower", "not lower"] | None = None
    table: dict[str, list[bool]] = Field(default={})


class FindingRow(NamedTuple):
    """A comparison on a task: the means of the quantity under the two norms, and what to think of it."""

    task: str
    quantity: str
    norms: tuple[str, str]
    means: tuple[float, float]  # geometric where the gap is a ratio
    gap: float  # the mean difference of the second from the first, or of their logarithms
    by_ratio: bool
    p: float | None
    seeds: int
    verdict: str


def load_findings() -> list[Finding]:
    """Return the findings of conf/claims/earlier-papers.yaml."""
    return [
        Finding.model_validate(entry) for entry in read_yaml_file(CONF / "claims" / "earlier-papers.yaml")
    ]


def compared(finding: Finding, analysis: Analysis, grid: AnalysisGrid) -> list[FindingRow]:
    """Return a row for each task and quantity that both norms have records of."""
    assert finding.norms is not None, "a comparison names two norms"
    first, second = finding.norms
    measured = []
    for task in analysis.tasks:
        for quantity in finding.quantities:
            pairs = [_by_seed(grid, norm, task, quantity) for norm in (first, second)]
            if seeds := sorted(pairs[0].keys() & pairs[1].keys()):
                measured.append((task, quantity, [[by_seed[seed] for seed in seeds] for by_seed in pairs]))
    by_ratio = [_shown(analysis, quantity).log for _, quantity, _ in measured]
    gaps = [
        [math.log(b) - math.log(a) if ratio else b - a for a, b in zip(*values, strict=True)]
        for (_, _, values), ratio in zip(measured, by_ratio, strict=True)
    ]
    level = preregistration().level
    comparisons = [compare_gaps(of, level=level) for of in gaps]
    known = iter(in_family([one for one in comparisons if one is not None]))
    rows = []
    for (task, quantity, values), of, ratio, comparison in zip(
        measured, gaps, by_ratio, comparisons, strict=True
    ):
        judged = None if comparison is None else next(known)
        rows.append(
            FindingRow(
                task,
                _shown(analysis, quantity).label,
                (first, second),
                _means(values, by_ratio=ratio),
                fmean(of),
                ratio,
                None if judged is None else judged.family_p,
                len(of),
                _verdict(judged, finding.expected),
            )
        )
    return rows


def _verdict(comparison: Comparison | None, expected: str | None) -> str:
    """Return *supported*, *contradicted* or *undecided*: whether the second norm is as expected."""
    if comparison is None or comparison.sign == "not told apart":
        return "undecided"
    is_lower = comparison.sign == "behind"
    return "supported" if is_lower == (expected == "lower") else "contradicted"


def _by_seed(grid: AnalysisGrid, norm: str, task: str, quantity: str) -> dict[int, float]:
    return {
        result.seed: result.summary[quantity]
        for result in analysis_results(grid[norm, task])
        if result.status == "done" and quantity in result.summary
    }


def _shown(analysis: Analysis, quantity: str) -> Quantity:
    return next(shown for shown in analysis.shown if shown.name == quantity)


def _means(values: Sequence[Sequence[float]], *, by_ratio: bool) -> tuple[float, float]:
    first, second = (geometric_mean(side) if by_ratio else fmean(side) for side in values)
    return first, second
