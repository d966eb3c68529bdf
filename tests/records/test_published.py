"""The paper's numbers as typed: how exactly they are known, and in which unit its losses are."""

import csv
import math

import pytest

from adanorm.config.paths import SHIPPED
from adanorm.records.published import published, published_curves, published_last_loss
from tests.verdicts import not_none


def test_a_printed_number_is_known_to_half_a_unit_of_its_last_digit() -> None:
    for task, text, half in (("rt", "77.50", 0.005), ("en-de", "28.5", 0.05)):
        number = not_none(published(task, "adanorm"))
        assert (number.text, number.confirmed) == (text, True)
        assert number.rounding == pytest.approx(half)
    assert not not_none(published("rt", "detach-mean")).confirmed
    assert published("rt", "rmsnorm") is None


@pytest.mark.parametrize(
    ("task", "norm", "unit"),
    [
        ("ptb", "adanorm", 1.0),
        ("enwik8", "layernorm", math.log(2)),
        ("de-en", "adanorm", math.log(2)),
    ],
)
def test_the_last_losses_of_the_papers_curves_are_in_nats(
    task: str, norm: str, unit: float
) -> None:
    with (SHIPPED / "results" / "published-curves" / f"{task}.csv").open(encoding="utf-8") as file:
        rows = [{key.lower(): value for key, value in row.items()} for row in csv.DictReader(file)]
    for part in ("train", "valid"):
        *_, last = (row[f"{norm} {part}"] for row in rows if row[f"{norm} {part}"])
        assert published_last_loss(task, norm, part) == pytest.approx(unit * float(last))


def test_curves_are_of_the_tasks_and_norms_that_the_paper_shows() -> None:
    over, points = not_none(published_curves("ptb"))
    assert (over, points["adanorm", "train"][0]) == ("epoch", (0.0, 0.18))
    assert published_curves("rt") is None
    assert published_last_loss("rt", "adanorm", "valid") is None
    assert published_last_loss("ptb", "detachnorm", "valid") is None
