"""Published findings and registered predictions, against records made by hand, with known answers."""

import math
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import ttest_rel

from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_grid, load_analysis
from adanorm.reporting.tables.findings import findings_markdown, predictions_markdown
from adanorm.reporting.tables.formats import table_markdown
from adanorm.reporting.tables.table import Table
from adanorm.stats.conjunction import corrected
from adanorm.studies.study import load_study, study_grid
from adanorm.verdicts.findings import (
    PREDICTIONS,
    Finding,
    finding_rows,
    load_findings,
    load_predictions,
)
from adanorm.verdicts.preregistration import preregistration
from tests.reporting.records import record, record_analysis
from tests.verdicts import not_none

FIRSTS = np.array([2.1, 2.2, 2.3])
GAP = (-0.5, -0.51, -0.49)  # surely below zero
ABOVE = tuple(-gap for gap in GAP)
UNDECIDED = ((-1.0, 1.0, 0.1), "undecided")


def recorded(
    folder: Path, name: str, gaps: tuple[float, ...]
) -> tuple[Finding, Analysis, AnalysisGrid]:
    """Record a finding whose second norm is above the first by these gaps, seed by seed."""
    (finding,) = [entry for entry in load_findings() if entry.id == name]
    analysis = load_analysis(finding.analysis)
    grid = analysis_grid(analysis, runs=str(folder))
    assert finding.norms is not None
    for task in analysis.tasks:
        for norm, values in zip(finding.norms, (FIRSTS, FIRSTS + gaps), strict=True):
            for one, value in zip(grid[norm, task], values.tolist(), strict=True):
                record_analysis(one, summary=dict.fromkeys(finding.quantities, value))
    return finding, analysis, grid


@pytest.mark.parametrize(
    ("name", "gaps", "verdict"),
    [
        *(
            ("noisy-batchnorm", *case)
            for case in ((ABOVE, "supported"), (GAP, "contradicted"), UNDECIDED)
        ),
        *(("landscape", *case) for case in ((GAP, "supported"), (ABOVE, "contradicted"))),
        *(
            ("covariate-shift", *case)
            for case in ((GAP, "contradicted"), (ABOVE, "supported"), UNDECIDED)
        ),
    ],
)
def test_a_difference_is_judged_as_the_finding_expects_it_by_ps_corrected_over_its_rows(
    tmp_path: Path, name: str, gaps: tuple[float, ...], verdict: str
) -> None:
    finding, analysis, grid = recorded(tmp_path, name, gaps)
    rows = finding_rows(finding, analysis, grid)
    assert {row.verdict for row in rows} == {verdict}
    assert {row.quantity.name for row in rows} == {*finding.quantities}
    seconds, ps = FIRSTS + gaps, []
    for row in rows:
        is_ratio, gap = row.quantity.log, fmean(row.gaps)
        sides = (np.log(seconds), np.log(FIRSTS)) if is_ratio else (seconds, FIRSTS)
        ps.append(ttest_rel(*sides).pvalue)
        assert gap == pytest.approx((sides[0] - sides[1]).mean())
        first, second = row.means
        assert (math.log(second / first) if is_ratio else second - first) == pytest.approx(gap)
    assert [not_none(row.comparison).family_p for row in rows] == pytest.approx(corrected(ps))


def test_a_record_that_is_not_done_is_no_part_of_a_comparison(tmp_path: Path) -> None:
    finding, analysis, grid = recorded(tmp_path, "landscape", GAP)
    before = finding_rows(finding, analysis, grid)[0]
    assert finding.norms is not None
    diverged = grid[finding.norms[0], before.task][0]
    record_analysis(diverged, status="diverged", summary=dict.fromkeys(finding.quantities, 9.0))
    assert (len(before.gaps), len(finding_rows(finding, analysis, grid)[0].gaps)) == (3, 2)


def test_a_table_is_supported_where_every_entry_is_the_published_one(tmp_path: Path) -> None:
    analysis = load_analysis("invariance")
    grid = analysis_grid(analysis, runs=str(tmp_path))
    (finding,) = [entry for entry in load_findings() if entry.table]
    for norm, published in finding.table.items():
        entries = zip(analysis.shown, published, strict=True)
        values = {quantity.name: 0.0 if entry else 1.0 for quantity, entry in entries}
        if norm == "weightnorm":
            values["one_rescaled"] = 0.0  # in the published table it is no
        record_analysis(grid[norm, ""][0], summary=values)
    text = findings_markdown(str(tmp_path))
    assert "| BatchNorm | yes | no | yes | yes | yes | no | supported |" in text
    assert "| WeightNorm | yes | no | yes | no | no | yes | contradicted |" in text
    assert text.count("Not run.") == len(load_findings()) - 1


def test_every_prediction_is_of_a_comparison_that_its_studies_rules_make() -> None:
    predictions = [*chain(*(load_predictions(file)[0] for file in PREDICTIONS))]
    assert len({one.id for one in predictions}) == len(predictions)
    for one in predictions:
        for rule in (load_study(name).rule for name in one.studies):
            assert rule is not None
            assert one.rows in rule.families[one.family], one.id
            assert one.given is None or one.given in chain(*rule.families.values()), one.id
    assert preregistration().digest == "d217371e", "what was registered before stays as it was"


def outcomes(page: str, text: str) -> list[str]:
    section = page.partition(f"## {text}\n")[2].partition("\n## ")[0]
    return [line.rsplit("*", 2)[1] for line in section.splitlines() if "RT" in line]


@pytest.mark.parametrize(
    ("without", "xu", "singhal"),
    [
        (60.0, "borne out", "contradicted"),
        (90.0, "contradicted", "borne out"),
        (81.0, "open", "open"),
    ],
)
def test_fewer_wrong_labels_learned_at_the_end_are_for_the_one_paper_and_against_the_other(
    tmp_path: Path, without: float, xu: str, singhal: str
) -> None:
    grid = study_grid(load_study("label-noise"), runs=str(tmp_path))
    for norm, share in (("LayerNorm", 80.0), ("LayerNorm-simple", without)):
        for seed, run in enumerate(grid[f"{norm} pre, 0.4", "rt"].runs):
            at_the_end = share + seed * (
                0.01 if norm == "LayerNorm" else 0.02 if without != 81 else 30
            )
            shares = [{"accuracy": 60.0, "memorized": learned} for learned in (50.0, at_the_end)]
            record(
                run,
                rows=({"valid_accuracy": 70.0}, {}),
                tests=shares,
                test={"accuracy": 60.0},
            )
    page = predictions_markdown(str(tmp_path))
    for fewer, outcome in (("fewer", xu), ("no fewer", singhal)):
        where = "In front of a branch, with 40 % wrong labels"
        assert outcomes(page, f"{where}, {fewer} are learned without gain and bias.") == [outcome]


def test_a_prediction_about_a_norm_is_void_where_the_norm_is_worth_nothing(tmp_path: Path) -> None:
    grid = study_grid(load_study("square"), runs=str(tmp_path))
    scores = {"none": 75.0, "grad-only": 77.0, "layernorm-simple": 75.0, "detachnorm": 74.0}
    for norm, accuracy in scores.items():
        for seed, run in enumerate(grid[norm, "rt"].runs[:5]):
            score = accuracy + 0.01 * seed * len(norm)
            record(run, tests=[score], test={"accuracy": score})
    page = predictions_markdown(str(tmp_path))
    assert outcomes(page, "Normalizing the gradient alone is better than no norm.") == ["void"]
    over_value = "Normalizing the gradient alone is better than normalizing the value alone."
    assert outcomes(page, over_value) == ["borne out"]


def test_a_page_says_why_runs_on_record_are_not_compared_and_how_many_wrong_labels_they_learned(
    tmp_path: Path,
) -> None:
    study = load_study("label-noise")
    grid = study_grid(study, runs=str(tmp_path))
    for position, accuracies in (("pre", (60.0,)), ("post", (40.0, 60.0, 60.0))):
        for norm in ("LayerNorm", "LayerNorm-simple"):
            for run, accuracy in zip(
                grid[f"{norm} {position}, 0.4", "rt"].runs, accuracies, strict=False
            ):
                test = {"accuracy": accuracy, "memorized": 75.0, "recovered": 25.0}
                record(run, tests=[test], test=test)
    page = predictions_markdown(str(tmp_path))
    titles = (
        f"## {where}, with 40 % wrong labels, fewer"
        for where in ("In front of a branch", "Behind the sum")
    )
    in_front, behind = (page.partition(title)[2].partition("##")[0] for title in titles)
    assert "| too little to compare (1 shared run) |" in in_front
    assert "did not learn 1/3" in behind
    text = table_markdown(Table(study, grid))
    assert "| LayerNorm pre, 0.4 | 75.00, 25.00 |" in text.partition("## Wrong labels")[2]
    assert "RT too little to compare (1 shared run)" in text
