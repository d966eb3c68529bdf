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
from adanorm.verdicts.paired import corrected_by, paired
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
    gaps = []
    for task in analysis.tasks:
        for quantity in finding.quantities:
            pairs = [_by_seed(grid, norm, task, quantity) for norm in (first, second)]
            if seeds := sorted(pairs[0].keys() & pairs[1].keys()):
                gaps.append((task, quantity, [[found[seed] for seed in seeds] for found in pairs]))
    by_ratio = [_shown(analysis, quantity).log for _, quantity, _ in gaps]
    differences = [
        paired(*([math.log(number) for number in side] for side in values) if ratio else values)
        for (_, _, values), ratio in zip(gaps, by_ratio, strict=True)
    ]
    ps = corrected_by({index: gap.p for index, gap in enumerate(differences)})
    return [
        FindingRow(
            task,
            _shown(analysis, quantity).label,
            (first, second),
            _means(values, by_ratio=by_ratio[index]),
            differences[index].mean,
            by_ratio[index],
            ps.get(index),
            len(values[0]),
            verdict(differences[index].mean, ps.get(index), finding.expected),
        )
        for index, (task, quantity, values) in enumerate(gaps)
    ]


def verdict(gap: float, p: float | None, expected: str | None) -> str:
    """Return *supported*, *contradicted* or *undecided* for a difference and its p."""
    if p is None or p >= preregistration().level:
        return "undecided"
    is_lower = gap < 0
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
