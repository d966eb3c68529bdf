"""Published findings against records made by hand, with known answers."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_rel

from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_grid, load_analysis
from adanorm.reporting.tables.analysis import findings_markdown
from adanorm.verdicts.conjunction import corrected
from adanorm.verdicts.findings import Finding, compared, load_findings
from tests.reporting.records import record_analysis

FIRSTS = np.array([2.1, 2.2, 2.3])
GAP = (-0.5, -0.51, -0.49)  # surely below zero
ABOVE = tuple(-gap for gap in GAP)
UNDECIDED = ((-1.0, 1.0, 0.1), "undecided")


def recorded(folder: Path, name: str, gaps: tuple[float, ...]) -> tuple[Finding, Analysis, AnalysisGrid]:
    """A finding whose second norm is by these gaps above the first, seed by seed."""
    (finding,) = [entry for entry in load_findings() if entry.id == name]
    analysis = load_analysis(finding.analysis)
    grid = analysis_grid(analysis, runs=str(folder))
    assert finding.norms is not None
    for task in analysis.tasks:
        for norm, values in zip(finding.norms, (FIRSTS, FIRSTS + gaps), strict=True):
            for record, value in zip(grid[norm, task], values.tolist(), strict=True):
                record_analysis(record, summary=dict.fromkeys(finding.quantities, value))
    return finding, analysis, grid


@pytest.mark.parametrize(
    ("name", "gaps", "verdict"),
    [
        *(("noisy-batchnorm", *case) for case in ((ABOVE, "supported"), (GAP, "contradicted"), UNDECIDED)),
        *(("landscape", *case) for case in ((GAP, "supported"), (ABOVE, "contradicted"))),
        *(("covariate-shift", *case) for case in ((GAP, "contradicted"), (ABOVE, "supported"), UNDECIDED)),
    ],
)
def test_a_difference_is_judged_as_the_finding_expects_it_by_ps_corrected_over_its_rows(
    tmp_path: Path, name: str, gaps: tuple[float, ...], verdict: str
) -> None:
    finding, analysis, grid = recorded(tmp_path, name, gaps)
    rows = compared(finding, analysis, grid)
    assert {row.verdict for row in rows} == {verdict}
    labels = {shown.name: shown.label for shown in analysis.shown}
    assert {row.quantity for row in rows} == {labels[quantity] for quantity in finding.quantities}
    seconds, ps = FIRSTS + gaps, []
    for row in rows:
        sides = (np.log(seconds), np.log(FIRSTS)) if row.by_ratio else (seconds, FIRSTS)
        ps.append(ttest_rel(*sides).pvalue)
        assert row.gap == pytest.approx((sides[0] - sides[1]).mean())
        first, second = row.means
        assert (math.log(second / first) if row.by_ratio else second - first) == pytest.approx(row.gap)
    assert [row.p for row in rows] == pytest.approx(corrected(ps))


def test_a_record_that_is_not_done_is_no_part_of_a_comparison(tmp_path: Path) -> None:
    finding, analysis, grid = recorded(tmp_path, "landscape", GAP)
    before = compared(finding, analysis, grid)[0]
    diverged = grid[before.norms[0], before.task][0]
    record_analysis(diverged, status="diverged", summary=dict.fromkeys(finding.quantities, 9.0))
    assert (before.seeds, compared(finding, analysis, grid)[0].seeds) == (3, 2)


def test_a_table_is_supported_where_every_entry_is_the_published_one(tmp_path: Path) -> None:
    analysis = load_analysis("invariance")
    grid = analysis_grid(analysis, runs=str(tmp_path))
    (finding,) = [entry for entry in load_findings() if entry.table]
    for norm, published in finding.table.items():
        entries = zip(analysis.shown, published, strict=True)
        values = {quantity.name: 0.0 if entry else 1.0 for quantity, entry in entries}
        if norm == "weightnorm":
            values["one_rescaled"] = 0.0  # which the published table denies
        record_analysis(grid[norm, ""][0], summary=values)
    text = findings_markdown(str(tmp_path))
    assert "| BatchNorm | yes | no | yes | yes | yes | no | supported |" in text
    assert "| WeightNorm | yes | no | yes | no | no | yes | contradicted |" in text
    assert text.count("Not run.") == len(load_findings()) - 1
