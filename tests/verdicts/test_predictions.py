"""The registered predictions of two papers: what they are about, and what records say of them."""

from itertools import chain
from pathlib import Path

import pytest

from adanorm.reporting.tables.predictions import predictions_markdown
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_study
from adanorm.verdicts.predictions import load_predictions
from adanorm.verdicts.preregistration import preregistration
from tests.reporting.records import record

SEEDS = 3


def test_every_prediction_is_of_a_comparison_that_its_studies_rules_make() -> None:
    predictions, _ = load_predictions()
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
    [(60.0, "borne out", "contradicted"), (90.0, "contradicted", "borne out"), (81.0, "open", "open")],
)
def test_fewer_wrong_labels_learned_at_the_end_are_for_the_one_paper_and_against_the_other(
    tmp_path: Path, without: float, xu: str, singhal: str
) -> None:
    grid = study_grid(load_study("label-noise"), runs=str(tmp_path))
    for norm, share in (("LayerNorm", 80.0), ("LayerNorm-simple", without)):
        for seed, run in enumerate(grid[f"{norm} pre, 0.4", "rt"].runs):
            at_the_end = share + seed * (0.01 if norm == "LayerNorm" else 0.02 if without != 81 else 30)
            shares = [{"accuracy": 60.0, "memorized": learned} for learned in (50.0, at_the_end)]
            record(run, rows=({"valid_accuracy": 70.0}, {}), tests=shares, test={"accuracy": 60.0})
    page = predictions_markdown(str(tmp_path))
    assert outcomes(
        page, "In front of a branch, with 40 % wrong labels, fewer are learned without gain and bias."
    ) == [xu]
    assert outcomes(
        page, "In front of a branch, with 40 % wrong labels, no fewer are learned without gain and bias."
    ) == [singhal]


def test_what_is_a_norms_is_void_where_the_norm_is_worth_nothing(tmp_path: Path) -> None:
    grid = study_grid(load_study("square"), runs=str(tmp_path))
    scores = {"none": 75.0, "grad-only": 77.0, "layernorm-simple": 75.0, "detachnorm": 74.0}
    for norm, accuracy in scores.items():
        for seed, run in enumerate(grid[norm, "rt"].runs):
            tests = [accuracy + 0.01 * seed * len(norm)]
            record(run, tests=tests, test={"accuracy": accuracy})
    page = predictions_markdown(str(tmp_path))
    assert outcomes(page, "Normalizing the gradient alone is better than no norm.") == ["void"]
    over_value = "Normalizing the gradient alone is better than normalizing the value alone."
    assert outcomes(page, over_value) == ["borne out"]
