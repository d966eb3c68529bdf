"""What older papers report of norms, held against records of analyses (conf/claims/earlier-papers.yaml)."""

import math
from itertools import product
from statistics import fmean, geometric_mean
from typing import Literal, NamedTuple

from pydantic import Field

from adanorm.analyses.cell import analysis_results
from adanorm.analyses.spec import Analysis, AnalysisGrid
from adanorm.config.paths import CONF
from adanorm.config.sections import Config
from adanorm.config.yaml_file import read_yaml_file
from adanorm.verdicts.comparison import compare_gaps
from adanorm.verdicts.conjunction import in_family
from adanorm.verdicts.preregistration import preregistration


class Finding(Config):
    """A published finding: a comparison of two norms, or the entries of a table."""

    id: str
    text: str
    source: str
    analysis: str
    norms: tuple[str, str] | None = None
    quantities: tuple[str, ...] = ()
    expected: Literal["higher", "lower", "not lower"] | None = None
    table: dict[str, list[bool]] = Field(default={})


class FindingRow(NamedTuple):
    """A comparison on a task: the means of the quantity under the two norms, and what to think of it."""

    task: str
    quantity: str
    norms: tuple[str, ...]
    means: tuple[float, ...]  # geometric where the gap is a ratio
    gap: float  # the mean difference of the second from the first, or of their logarithms
    by_ratio: bool
    p: float | None
    seeds: int
    verdict: str


def load_findings() -> list[Finding]:
    """Return the findings of conf/claims/earlier-papers.yaml."""
    entries = read_yaml_file(CONF / "claims" / "earlier-papers.yaml")
    return [Finding.model_validate(entry) for entry in entries]


def compared(finding: Finding, analysis: Analysis, grid: AnalysisGrid) -> list[FindingRow]:
    """Return a row for each task and quantity that both norms have records of."""
    assert finding.norms is not None, "a comparison names two norms"
    entries = []  # a row without its p, and its comparison
    for task, name in product(analysis.tasks, finding.quantities):
        first, second = (_by_seed(grid, norm, task, name) for norm in finding.norms)
        seeds = sorted(first.keys() & second.keys())
        if not seeds:
            continue
        quantity = next(shown for shown in analysis.shown if shown.name == name)
        scale, mean = (math.log, geometric_mean) if quantity.log else (float, fmean)
        gaps = [scale(second[seed]) - scale(first[seed]) for seed in seeds]
        means = tuple(mean([side[seed] for seed in seeds]) for side in (first, second))
        facts = task, quantity.label, finding.norms, means, fmean(gaps), quantity.log
        row = FindingRow(*facts, None, len(gaps), "undecided")
        entries.append((row, compare_gaps(gaps, level=preregistration().level)))
    # What has one seed, or equal gaps, is not tested, and counts for nothing in the correction.
    tested = iter(in_family([one for _, one in entries if one is not None]))
    signs = {"not told apart": "undecided", "ahead": "contradicted", "behind": "contradicted"}
    signs["behind" if finding.expected == "lower" else "ahead"] = "supported"
    rows = []
    for row, comparison in entries:
        one = comparison and next(tested)
        rows.append(row._replace(p=one.family_p, verdict=signs[one.sign]) if one else row)
    return rows


def _by_seed(grid: AnalysisGrid, norm: str, task: str, quantity: str) -> dict[int, float]:
    return {
        result.seed: result.summary[quantity]
        for result in analysis_results(grid[norm, task])
        if result.status == "done" and quantity in result.summary
    }
