"""A study's own rule, on scores whose answers are known."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean, variance

import pytest
from scipy.stats import ttest_rel

from adanorm.reporting.tables.notes import rule_notes
from adanorm.reporting.tables.table import Table
from adanorm.stats.comparison import compare_gaps
from adanorm.stats.sequential import Looks
from adanorm.stats.variance import TaskVariance
from adanorm.studies.rule import Rule
from adanorm.studies.study import Study, load_study, study_grid
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.rule import Column, check_margins, decide, improvement, not_worse
from tests.conftest import Command
from tests.reporting.records import record, score, scored
from tests.verdicts import not_none

BASE = (70.0, 71.0, 70.5, 69.5, 70.2)
NOISE = (0.1, -0.1, 0.05, 0.0, -0.05)
FAMILY = {"all": (("a", "base"),)}


def ahead(lead: float) -> list[float]:
    return [base + lead + noise for base, noise in zip(BASE, NOISE, strict=True)]


def column(margin: float = 1.0, looks: tuple[int, ...] = (5,), **leads: float) -> Column:
    """Return five seeds of rows that lead `base` by these leads, with the noise of NOISE."""
    rows = {"base": list(BASE), **{row: ahead(lead) for row, lead in leads.items()}}
    scores = {row: dict(enumerate(of_row, 1)) for row, of_row in rows.items()}
    plan = replace(
        preregistration().plan("fresh", "rt"),
        looks=Looks(looks, 1.5),
        margin=margin,
        size_interval="95 %",
    )
    return Column(plan, [TaskVariance(scores, 0.0)])


def test_a_row_is_better_worse_equivalent_or_open_as_the_rule_says() -> None:
    rule = Rule(families={"all": (("a", "base"), ("b", "base"), ("c", "base"), ("d", "base"))})
    decisions = decide(rule, {"test": [column(a=3.0, b=-3.0, c=0.02)]})["all"]
    assert [one.answer for one in decisions] == ["better", "worse", "equivalent", None]
    p, first = ttest_rel(ahead(3.0), BASE).pvalue, not_none(decisions[0].comparison)
    assert first.p == pytest.approx(p)
    assert first.family_p == pytest.approx(1 - (1 - p) ** 4), "of four, one of them without runs"


def test_the_difference_of_two_leads_is_paired_by_seed() -> None:
    near = [column(margin=0.5, a=0.45)]
    assert decide(Rule(families=FAMILY), {"test": near})["all"][0].answer == "better"
    assert (
        decide(Rule(families=FAMILY, beyond_margin=True), {"test": near})["all"][0].answer == "open"
    )
    rule = Rule(families={"all": (("a", "b", "c", "base"),)})
    of_leads = not_none(decide(rule, {"test": [column(a=3.0, b=1.0, c=0.5)]})["all"][0].comparison)
    assert of_leads.gap == pytest.approx(1.5 - sum(NOISE) / 5)


def test_a_column_is_read_over_the_seeds_of_its_last_look_at_the_level_of_that_look() -> None:
    rule = Rule(families=FAMILY)
    of_look = not_none(
        decide(rule, {"test": [column(looks=(2, 4, 9), a=0.5)]})["all"][0].comparison
    )
    first = [ahead(0.5)[seed] - BASE[seed] for seed in range(4)]
    assert of_look.seeds == 4
    assert of_look.gap == pytest.approx(fmean(first))
    assert of_look.levels.difference == Looks((2, 4, 9), 1.5).levels(4).difference
    assert decide(rule, {"test": [column(looks=(6,), a=0.5)]})["all"][0].comparison is None, (
        "no look yet"
    )


def test_an_improvement_is_better_often_enough_and_worse_nowhere() -> None:
    up, down, missing, same = column(a=3.0), column(a=-3.0), column(), column(a=0.0)
    for columns, most, outcome in (
        ([up, up], 2, True),
        ([up, up, down], 2, False),
        ([up, up, missing], 2, None),
        ([up, missing, down], 1, False),  # worse in one
        ([up, same], 2, False),
    ):
        assert improvement(decide(Rule(families=FAMILY), {"test": columns})["all"], most) is outcome
    for first, outcome in ((column(a=-0.2), True), (down, False), (missing, None)):
        assert not_worse("a", "base", [first, up]) is outcome


@pytest.fixture
def study(tmp_path: Path) -> Study:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "title: t\nrows: [adanorm, layernorm]\ncolumns: [rt, sst5, mnist]\nscale: mini\nseeds: [1, 2, 3]\n"
        "rule:\n  families: {all: [[adanorm, layernorm]]}\n"
        "  conclusions: [{says: the paper is right, where: [adanorm, layernorm], found: better}]\n"
    )
    return load_study(str(path))


def test_a_conclusion_is_borne_out_where_its_comparison_has_that_answer_on_the_planned_seeds_alone(
    tmp_path: Path, study: Study
) -> None:
    scores = {("layernorm", task): BASE for task in ("rt", "sst5")}
    leads = {("adanorm", "rt"): ahead(3), ("adanorm", "sst5"): ahead(0)}
    table = scored(study, tmp_path / "runs", {**scores, **leads})
    notes = rule_notes(table)
    assert notes[-1].endswith(
        "“the paper is right”: borne out on RT; not shown on SST5; not run on MNIST."
    )
    for row, accuracy in (("adanorm", 60.0), ("layernorm", 80.0)):
        record(table.grid[row, "rt"].runs[0].model_copy(update={"seed": 4}), **score(accuracy))
    record(table.grid["adanorm", "sst5"].runs[0].model_copy(update={"seed": 4}), **score(5.0))
    after = Table(study, table.grid)
    assert {*after.columns["rt"].variance.scores["adanorm"]} == {1, 2, 3, 4}
    assert rule_notes(after) == notes


def test_a_row_with_a_run_that_diverged_or_learned_nothing_is_left_out(
    tmp_path: Path, study: Study
) -> None:
    rows = {(row, task): ahead(0) for row in ("adanorm", "layernorm") for task in ("rt", "sst5")}
    grid = scored(study, tmp_path / "runs", {**rows, ("adanorm", "sst5"): [70, 70.2, 5]}).grid
    record(
        grid["layernorm", "rt"].runs[1],
        status="diverged",
        valid=None,
        test=None,
    )
    _, family, conclusion = rule_notes(Table(study, grid))
    assert "RT not compared (LayerNorm diverged 1/3)" in family
    assert "SST5 not compared (AdaNorm did not learn 1/3)" in family
    assert "MNIST no scores to compare" in family
    assert conclusion.endswith("not compared on RT, SST5; not run on MNIST.")


def test_a_rule_brings_the_margins_that_the_plan_lacks(tmp_path: Path) -> None:
    margin = {"test": 0.3, "reason": "30 of 10,000 images"}
    families = {"a": [["adanorm", "layernorm"]]}
    study = Study.model_validate(
        {"title": "t", "rows": ["adanorm", "layernorm"], "columns": ["cifar10"], "scale": "mini"}
        | {"seeds": [1, 2, 3], "rule": {"families": families, "margins": {"cifar10": margin}}}
    )
    check_margins(study)
    scores = {
        ("adanorm", "cifar10"): (81.11, 82.12, 83.13),
        ("layernorm", "cifar10"): (81.0, 82.0, 83.0),
    }
    lead, decided = rule_notes(scored(study, tmp_path, scores))
    assert "margins CIFAR-10 0.3." in lead
    assert "+0.12 [+0.10, +0.14] p 0.002 *equivalent*" in decided
    scores["adanorm", "cifar10"] = (81.12, 82.121, 83.119)
    assert "p < .001 *equivalent*" in rule_notes(scored(study, tmp_path / "less", scores))[1], (
        "no p is 0"
    )


@pytest.mark.parametrize(
    ("column", "quantities", "lacks"),
    [
        ("cifar10", {}, "cifar10 has no margin of the test score"),
        ("rt", {"a": "last_train_loss"}, "rt has no margin of the last training loss"),
    ],
)
def test_a_rule_without_a_margin_is_refused_before_any_run(
    tmp_path: Path, command: Command, column: str, quantities: dict[str, str], lacks: str
) -> None:
    content = {
        "title": "t", "rows": ["adanorm", "layernorm"], "columns": [column], "scale": "smoke", "seeds": [1],
        "rule": {"families": {"a": [["adanorm", "layernorm"]]}, "quantities": quantities},
    }  # fmt: skip
    (tmp_path / "own.yaml").write_text(json.dumps(content), encoding="utf-8")
    done = command("study", str(tmp_path / "own.yaml"), f"runs={tmp_path / 'runs'}")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: the study's rule: {lacks}: write it in `margins`\n"
    assert not (tmp_path / "runs").exists()


def test_a_family_may_compare_losses_of_which_the_lower_leads(tmp_path: Path) -> None:
    study = load_study("over-fitting")
    grid = study_grid(study, runs=str(tmp_path))
    losses = {"adanorm": (2.60, 2.61, 2.64), "layernorm": (2.70, 2.72, 2.73)}
    for (row, _), cell in grid.items():
        for run, loss in zip(cell.runs, losses.get(row, ()), strict=False):
            record(run, rows=[{"valid_loss": 3.0}, {"valid_loss": loss}], test={"bleu": 40.0})
    lead, of_losses, of_scores = rule_notes(Table(study, grid))
    assert "De-En 0.01 of the last validation loss, De-En 0.5;" in lead
    assert "a lead in a loss is how many nats lower it is" in lead
    gaps = [b - a for a, b in zip(losses["adanorm"], losses["layernorm"], strict=True)]
    p = ttest_rel(losses["layernorm"], losses["adanorm"]).pvalue
    assert f"AdaNorm over LayerNorm: De-En {fmean(gaps):+.3f} [" in of_losses
    assert f"p {1 - (1 - p) ** 2:.3f} *better*" in of_losses, (
        "of two comparisons, the other without runs"
    )
    assert "LayerNorm-simple over LayerNorm: De-En no scores to compare" in of_losses
    assert "AdaNorm over LayerNorm: De-En too little to compare" in of_scores, "all gaps are alike"


def test_folds_are_paired_by_their_means_with_a_variance_for_shared_training_data(
    tmp_path: Path,
) -> None:
    study = load_study("ptb-folds").model_copy(update={"seeds": [1, 2]})
    folds = {"adanorm": (86.1, 87.0, 85.2, 86.6, 86.9), "layernorm": (85.9, 86.2, 85.3, 86.0, 86.6)}
    scores = {}
    for row, task in study_grid(study):
        norm, at = study.rows[row].norm, study.rows[row].at
        if norm in folds and at is not None:
            mean, apart = folds[norm][int(at) - 1], at / 2 * (1 if norm == "adanorm" else -1)
            scores[row, task] = (mean - apart, mean + apart)
    table = scored(study, tmp_path, scores)
    _, notes = rule_notes(table)
    gaps = [a - b for a, b in zip(*folds.values(), strict=True)]
    comparison = not_none(compare_gaps(gaps, overlap=0.288))
    assert comparison.seed_error**2 == pytest.approx(
        variance(gaps) * (1 / 5 + 0.288)
    )  # their equation 9
    low, high = comparison.interval
    assert f"AdaNorm over LayerNorm: PTB {fmean(gaps):+.2f} [{low:+.2f}, {high:+.2f}]" in notes
    assert "LayerNorm: PTB no scores to compare" in notes
    more = Table(study.model_copy(update={"seeds": [1, 2, 3]}), table.grid)
    assert "There are too few runs yet" in rule_notes(more)[0], (
        "a fold's mean is read with all its seeds"
    )
    of_a_fold = next(
        cell for (row, _), cell in table.grid.items() if study.rows[row].norm == "adanorm"
    )
    record(
        of_a_fold.runs[0],
        status="diverged",
        valid=None,
        test=None,
    )
    _, notes = rule_notes(Table(study, table.grid))
    assert "AdaNorm over LayerNorm: PTB not compared (AdaNorm diverged 1/2)" in notes
