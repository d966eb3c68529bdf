"""Published findings against records made by hand, with known answers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from adanorm.analyses.spec import analysis_grid, load_analysis
from adanorm.reporting.tables.findings import findings_markdown
from adanorm.verdicts.conjunction import corrected
from adanorm.verdicts.findings import FindingRow, compared, load_findings
from tests.reporting.records import record_analysis

GAP = (-0.5, -0.51, -0.49)  # surely below zero
NOISE = (-1.0, 1.0, 0.1)


def rows_of(folder: Path, name: str, gaps: tuple[float, ...]) -> list[FindingRow]:
    """The rows of a comparison whose second norm is by these gaps above the first, seed by seed."""
    (finding,) = [entry for entry in load_findings() if entry.id == name]
    analysis = load_analysis(finding.analysis)
    grid = analysis_grid(analysis, runs=str(folder))
    assert finding.norms is not None
    for task in analysis.tasks:
        for norm, shift in zip(finding.norms, ((0.0, 0.0, 0.0), gaps), strict=True):
            for record, gap in zip(grid[norm, task], shift, strict=True):
                base = 2.0 + 0.1 * record.experiment.seed
                record_analysis(record, summary=dict.fromkeys(finding.quantities, base + gap))
    return compared(finding, analysis, grid)


@pytest.mark.parametrize(
    ("name", "gaps", "verdict"),
    [
        ("noisy-batchnorm", tuple(-gap for gap in GAP), "supported"),
        ("noisy-batchnorm", GAP, "contradicted"),
        ("noisy-batchnorm", NOISE, "undecided"),
        ("landscape", GAP, "supported"),
        ("landscape", tuple(-gap for gap in GAP), "contradicted"),
        ("covariate-shift", GAP, "contradicted"),
        ("covariate-shift", tuple(-gap for gap in GAP), "supported"),
        ("covariate-shift", NOISE, "undecided"),
    ],
)
def test_a_difference_is_judged_as_the_finding_expects_it(
    tmp_path: Path, name: str, gaps: tuple[float, ...], verdict: str
) -> None:
    rows = rows_of(tmp_path, name, gaps)
    assert {row.verdict for row in rows} == {verdict}
    (finding,) = [entry for entry in load_findings() if entry.id == name]
    labels = {shown.name: shown.label for shown in load_analysis(finding.analysis).shown}
    assert {row.quantity for row in rows} == {labels[quantity] for quantity in finding.quantities}
    logs = [math.log((first + gap) / first) for first, gap in zip((2.1, 2.2, 2.3), gaps, strict=True)]
    for row in rows:
        assert row.gap == pytest.approx(sum(logs if row.by_ratio else gaps) / 3)
        first, second = row.means
        assert (math.log(second / first) if row.by_ratio else second - first) == pytest.approx(row.gap)


def test_the_ps_of_a_finding_are_corrected_over_its_rows(tmp_path: Path) -> None:
    gaps = (-0.5, -0.3, -0.45)
    rows = rows_of(tmp_path, "landscape", gaps)
    firsts = [2.1, 2.2, 2.3]
    seconds = [first + gap for first, gap in zip(firsts, gaps, strict=True)]
    sides = {False: (seconds, firsts), True: ([*map(math.log, seconds)], [*map(math.log, firsts)])}
    ps = [ttest_rel(*sides[row.by_ratio]).pvalue for row in rows]
    assert len(ps) > 1
    assert [row.p for row in rows] == pytest.approx(corrected(ps))


def test_a_record_that_is_not_done_is_no_part_of_a_comparison(tmp_path: Path) -> None:
    before = rows_of(tmp_path, "landscape", GAP)[0]
    (finding,) = [entry for entry in load_findings() if entry.id == "landscape"]
    analysis = load_analysis(finding.analysis)
    grid = analysis_grid(analysis, runs=str(tmp_path))
    diverged = grid[before.norms[0], before.task][0]
    record_analysis(diverged, status="diverged", summary=dict.fromkeys(finding.quantities, 9.0))
    assert (before.seeds, compared(finding, analysis, grid)[0].seeds) == (3, 2)


def test_a_table_is_supported_where_every_entry_is_the_published_one(tmp_path: Path) -> None:
    analysis = load_analysis("invariance")
    grid = analysis_grid(analysis, runs=str(tmp_path))
    (finding,) = [entry for entry in load_findings() if entry.table]
    for norm, published in finding.table.items():
        values = {
            quantity.name: 0.0 if entry else 1.0
            for quantity, entry in zip(analysis.shown, published, strict=True)
        }
        if norm == "weightnorm":
            values["one_rescaled"] = 0.0  # which the published table denies
        record_analysis(grid[norm, ""][0], summary=values)
    text = findings_markdown(str(tmp_path))
    assert "| BatchNorm | yes | no | yes | yes | yes | no | supported |" in text
    assert "| WeightNorm | yes | no | yes | no | no | yes | contradicted |" in text
    assert text.count("Not run.") == len(load_findings()) - 1
