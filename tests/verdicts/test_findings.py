"""Published findings against records made by hand, with known answers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from scipy.stats import ttest_rel

from adanorm.analyses.spec import analysis_grid, load_analysis
from adanorm.reporting.tables.findings import findings_markdown
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
    for row in rows:
        firsts = [2.0 + 0.1 * seed for seed in (1, 2, 3)]
        if row.by_ratio:
            logs = [math.log((first + gap) / first) for first, gap in zip(firsts, gaps, strict=True)]
            assert row.gap == pytest.approx(sum(logs) / 3)
            assert row.means[1] / row.means[0] == pytest.approx(math.exp(row.gap))
        else:
            assert row.gap == pytest.approx(sum(gaps) / 3)
            assert row.means[1] - row.means[0] == pytest.approx(row.gap)
        assert row.seeds == 3


def test_the_ps_of_a_finding_are_corrected_over_its_rows(tmp_path: Path) -> None:
    gaps = (-0.5, -0.3, -0.45)
    rows = rows_of(tmp_path, "landscape", gaps)
    firsts = [2.0 + 0.1 * seed for seed in (1, 2, 3)]
    seconds = [first + gap for first, gap in zip(firsts, gaps, strict=True)]
    assert len(rows) > 1
    raw = {
        ratio: ttest_rel(
            *([math.log(x) for x in side] if ratio else side for side in (seconds, firsts))
        ).pvalue
        for ratio in (False, True)
    }
    ps = sorted(raw[row.by_ratio] for row in rows)
    at_least = 0.0
    expected: dict[float, float] = {}
    for place, p in enumerate(ps):  # Holm's steps
        at_least = max(at_least, p * (len(ps) - place))
        expected.setdefault(p, at_least)
    for row in rows:
        assert row.p == pytest.approx(expected[raw[row.by_ratio]])
        assert row.p > raw[row.by_ratio]


def test_a_record_that_is_not_done_is_no_part_of_a_comparison(tmp_path: Path) -> None:
    before = rows_of(tmp_path, "landscape", GAP)
    (finding,) = [entry for entry in load_findings() if entry.id == "landscape"]
    analysis = load_analysis(finding.analysis)
    grid = analysis_grid(analysis, runs=str(tmp_path))
    assert finding.norms is not None
    diverged = grid[finding.norms[0], before[0].task or analysis.tasks[0]][0]
    record_analysis(diverged, status="diverged", summary=dict.fromkeys(finding.quantities, 9.0))
    after = compared(finding, analysis, grid)
    assert (before[0].seeds, after[0].seeds) == (3, 2)


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
