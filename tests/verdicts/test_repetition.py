"""How a repeated run is judged, on records made by hand."""

from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy.stats import t

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.verdicts.repetition import Repetition, differences, repetition
from tests.reporting.records import record, run_in

SCORES = (75.0, 76.0, 77.0)


def run(folder: Path, seed: int = 1) -> Experiment:
    return run_in(folder, "task=rt", "norm=adanorm", seed=seed)


def compared(before: Experiment, after: Experiment) -> Repetition:
    return repetition(*(reader.record(run.folder()) for run in (before, after)))


def repeated(tmp_path: Path, *, loss: float = 0.5, score: float = 75.0) -> Experiment:
    again = run(tmp_path / "again")
    record(again, rows=[{"train_loss": loss, "seconds": 3.0}], test={"accuracy": score})
    return again


@pytest.mark.parametrize(
    ("loss", "score", "agreement"),
    [
        (0.5, 75.0, "to the bit"),  # however long it took
        (0.5, 75.5, "within the seeds' spread"),
        (0.5 * (1 + 9e-5), 75.0, "within rounding"),
        (0.5 * (1 + 2e-4), 75.0, "within the seeds' spread"),
        (0.6, 78.0, "within the seeds' spread"),
        (0.6, 82.0, "differs"),
    ],
)
def test_a_repetition_is_equal_to_the_bit_or_in_rounding_or_one_more_run_beside_the_recorded_seeds(
    tmp_path: Path, loss: float, score: float, agreement: str
) -> None:
    for seed, accuracy in enumerate(SCORES, 1):
        record(run(tmp_path, seed), rows=[{"train_loss": 0.5}], test={"accuracy": accuracy})
    again = repeated(tmp_path, loss=loss, score=score)
    agreed = compared(run(tmp_path), again)
    assert agreed.agreement == agreement
    distance = abs(score - fmean(SCORES)) / (stdev(SCORES) * (1 + 1 / 3) ** 0.5)
    assert agreed.p == pytest.approx(2 * t.sf(distance, 2))
    record(again, status="diverged", test=None)
    assert compared(run(tmp_path), again).agreement == "differs"


def test_a_single_seed_on_record_can_show_nothing_but_equality(tmp_path: Path) -> None:
    alone = run(tmp_path)
    record(alone, rows=[{"train_loss": 0.5}], test={"accuracy": 75.0})
    assert compared(alone, repeated(tmp_path, loss=0.6)).agreement == "open"
    assert compared(alone, repeated(tmp_path)).agreement == "to the bit"


def test_environments_differ_in_what_either_says() -> None:
    before = {"device": "A", "packages": {"torch": "2", "numpy": "1"}, "threads": 1}
    after = {
        "device": "B",
        "packages": {"torch": "3", "numpy": "1"},
        "threads": 1,
        "numerics_version": 2,
    }
    assert differences(before, after) == [
        "processor: A on record, B here",
        "torch: 2 on record, 3 here",
        "numerics version: not said on record, 2 here",
    ]
    assert differences({"packages": {"torch": "2", "numpy": "1"}}, {}) == [
        "packages: torch 2, numpy 1 on record, not said here"
    ]
    eager, other = (
        {"norm_backend": f"eager: {why}"} for why in ("numba is not installed", "as asked")
    )
    assert differences(eager, other) == [], "the reason is no difference"
    assert differences({"norm_backend": "fused: numba"}, eager) != []
