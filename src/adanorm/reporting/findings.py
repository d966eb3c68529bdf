"""What older papers report of norms, held against the records of the analyses (conf/findings.yaml)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, geometric_mean
from typing import Annotated, Literal, NamedTuple

import yaml
from pydantic import Field

from adanorm import analyses
from adanorm.analyses import Analysis, Grid, Quantity
from adanorm.config import CONF
from adanorm.reporting import observed
from adanorm.reporting.formats import line_of, title
from adanorm.reporting.statistics import CONFIDENCE, difference, holm_by
from adanorm.sections import Section

COLUMNS = ("task", "quantity", "of", "and of", "difference", "p (Holm)", "seeds", "verdict")
NOTE = (
    "Each row compares the second norm with the first, paired by seed; p is of the paired t-test, corrected"
    " over the finding's rows (Holm 1979). *Supported* and *contradicted* need p below 0.05; that something"
    " is *not* lower is supported where it is higher, and contradicted where it is lower. All else is"
    " *undecided*. Quantities that have a logarithmic scale in the figures are compared by their ratio, and"
    " their means are geometric. The models and data are small ones (`conf/analysis/`), not those of the"
    " papers."
)


class Finding(Section):
    """A published finding: a comparison of two norms, or the entries of a table."""

    id: str
    text: str
    source: str
    analysis: str
    norms: Annotated[tuple[str, ...], Field(min_length=2, max_length=2)] | None = None
    quantities: tuple[str, ...] = ()
    expected: Literal["higher", "lower", "not lower"] | None = None
    table: dict[str, list[bool]] = Field(default={})


class Row(NamedTuple):
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


def load() -> list[Finding]:
    """Return the findings of conf/findings.yaml."""
    return [Finding.model_validate(entry) for entry in yaml.safe_load((CONF / "findings.yaml").read_text())]


def compared(finding: Finding, analysis: Analysis, grid: Grid) -> list[Row]:
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
        difference(*([math.log(number) for number in side] for side in values) if ratio else values)
        for (_, _, values), ratio in zip(gaps, by_ratio, strict=True)
    ]
    ps = holm_by({index: gap.p for index, gap in enumerate(differences)})
    return [
        Row(
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
    if p is None or p >= 1 - CONFIDENCE:
        return "undecided"
    is_lower = gap < 0
    return "supported" if is_lower == (expected == "lower") else "contradicted"


def _by_seed(grid: Grid, norm: str, task: str, quantity: str) -> dict[int, float]:
    return {
        result["seed"]: result["summary"][quantity]
        for result in observed.results(grid[norm, task])
        if result["status"] == "done" and quantity in result["summary"]
    }


def _shown(analysis: Analysis, quantity: str) -> Quantity:
    return next(shown for shown in analysis.shown if shown.name == quantity)


def _means(values: Sequence[Sequence[float]], *, by_ratio: bool) -> tuple[float, float]:
    first, second = (geometric_mean(side) if by_ratio else fmean(side) for side in values)
    return first, second


def markdown(runs: str | None = None) -> str:
    """Return every finding with its verdicts, in Markdown; `runs` is the folder that holds `analyses/`."""
    lines = ["# Findings of older papers, tested", "", NOTE]
    for finding in load():
        analysis = analyses.load(finding.analysis)
        grid = analyses.grid(analysis, runs=runs)
        body = _entries(finding, analysis, grid) if finding.table else _rows(finding, analysis, grid)
        lines += ["", f"## {finding.text}", "", f"{finding.source}; `make analyse WHAT={analysis.name}`."]
        lines += ["", *(body or ["Not run."])]
    return "\n".join([*lines, ""])


def _rows(finding: Finding, analysis: Analysis, grid: Grid) -> list[str]:
    rows = compared(finding, analysis, grid)
    if not rows:
        return []
    lines = [line_of(COLUMNS), line_of(["---"] * len(COLUMNS))]
    for row in rows:
        sides = [
            f"{title(norm)} {observed.number(mean)}" for norm, mean in zip(row.norms, row.means, strict=True)
        ]
        p = "-" if row.p is None else f"{row.p:.3f}"
        sign = "-" if row.gap < 0 else "+"
        gap = f"x {math.exp(row.gap):.3f}" if row.by_ratio else sign + observed.number(abs(row.gap))
        cells = [title(row.task), row.quantity.replace("|", "\\|"), *sides, gap, p]
        lines.append(line_of([*cells, str(row.seeds), row.verdict]))
    return lines


def _entries(finding: Finding, analysis: Analysis, grid: Grid) -> list[str]:
    """Return a line a norm of a published table of yes and no."""
    found = {norm: cell for (norm, _), cell in grid.items() if observed.results(cell)}
    columns = [quantity.label for quantity in analysis.shown]
    lines = [line_of(["norm", *columns, "verdict"]), line_of(["---"] * (len(columns) + 2))]
    for norm, published in finding.table.items():
        if norm not in found:
            continue
        ours = [observed.text(found[norm], quantity) for quantity in analysis.shown]
        agrees = ours == ["yes" if entry else "no" for entry in published]
        lines.append(line_of([title(norm), *ours, "supported" if agrees else "contradicted"]))
    return lines if len(lines) > 2 else []
