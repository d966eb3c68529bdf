"""A record that is not what its folder says, or not whole, is named in one line and not counted."""

import json
import os
import tracemalloc
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pytest

from adanorm.config.experiment import Experiment
from adanorm.config.values import digest_of
from adanorm.files import as_json
from adanorm.records import integrity, reader
from adanorm.records.lines import RECORD
from tests.conftest import Smoke
from tests.faults.spoiling import REMOVED, spoil
from tests.reporting.records import (
    as_older_version,
    contents_of,
    edit,
    put,
    record,
    result_of,
    write_record,
)

ROWS = [{"valid_accuracy": 70.0, "train_loss": 1.0}, {"train_loss": 0.9}, {"train_loss": 0.8}]


@pytest.fixture
def run(smoke: Smoke) -> Experiment:
    """A run on record: with the checksums of its files and its own."""
    experiment = smoke("norm=adanorm")
    files = {"environment.json": b'{"commit": "0"}'}
    record(
        experiment,
        rows=ROWS,
        outputs=["0", "1"],
        files=files,
        test={"accuracy": 75.0},
    )
    return experiment


def complaint(folder: Path) -> str:
    """Return the reason why a run is not counted; '' if it is counted."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = reader.result(folder)
    assert (result is None) == bool(caught)
    return str(caught[0].message).partition(" is not counted: ")[2] if caught else ""


CHANGES = ("cut by a byte", "a bit flipped", "emptied", REMOVED)


@pytest.mark.parametrize(
    "name", ["config.yaml", "environment.json", "metrics.jsonl", "predictions.txt.gz"]
)
@pytest.mark.parametrize("change", CHANGES)
def test_an_older_versions_record_with_a_changed_file_is_not_counted(
    run: Experiment, name: str, change: str
) -> None:
    as_older_version(run.folder())
    assert (complaint(run.folder()), reader.is_complete(run.folder())) == ("", True)
    spoil(run.folder() / name, change, Random(0))
    assert complaint(run.folder()).startswith(name)
    assert not reader.is_complete(run.folder()), "it is made again"


@pytest.mark.parametrize("change", CHANGES[1:3])
@pytest.mark.parametrize("number", range(5))
def test_a_changed_line_is_not_counted(run: Experiment, change: str, number: int) -> None:
    spoil(run.folder() / RECORD, change, Random(number))
    assert complaint(run.folder())
    assert not reader.is_complete(run.folder()), "it is made again"


@pytest.mark.parametrize(
    ("task", "test"),
    [
        ("rt", {"accuracy": 0.0}),
        ("rt", {"accuracy": 100.0}),
        ("de-en", {"bleu": 100.00000000000004}),
    ],
)
def test_the_worst_and_the_best_score_are_counted(
    smoke: Smoke, task: str, test: dict[str, float]
) -> None:
    """The best that sacrebleu gives is a little above 100."""
    record(run := smoke(f"task={task}", "norm=adanorm"), test=test)
    assert complaint(run.folder()) == ""


EDITS: dict[str, dict[str, Any]] = {
    "seed is 2, its folder is of 1": {"seed": 2},
    "norm is 'layernorm', its folder is of 'adanorm'": {"norm": "layernorm"},
    "task is 'mnist', its folder is of 'rt'": {"task": "mnist"},
    "scale is 'paper', its folder is of 'smoke'": {"scale": "paper"},
    "test.accuracy is 999.0, which is impossible": {"test": {"accuracy": 999}},
    "valid.accuracy is -1.0, which is impossible": {"valid": {"accuracy": -1}},
    "test lacks accuracy": {"test": {}},
    "valid lacks accuracy": {"valid": None},
    "metrics.jsonl ends at update 30, the run at 40": {"steps": 40},
    "metrics.jsonl has no row of the best step, 7": {"best_step": 7},
    "valid is not what metrics.jsonl has at the best step": {"best_step": 20},
    "test.accuracy: input should be a finite number": {"test": {"accuracy": 1e999}},
    "test.accuracy: input should be a valid number": {"test": {"accuracy": True}},
    "seed: input should be a valid integer": {"seed": "one"},
}


@pytest.mark.parametrize("expected", EDITS)
def test_a_result_that_contradicts_its_folder_is_not_counted(
    run: Experiment, expected: str
) -> None:
    edit(run.folder(), **EDITS[expected])
    assert complaint(run.folder()) == expected


def test_an_unknown_key_is_ignored_and_only_finite_numbers_are_written(run: Experiment) -> None:
    edit(run.folder(), energy=3.0)
    assert (complaint(run.folder()), reader.is_complete(run.folder())) == ("", True)
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json({"accuracy": float("nan")})


@pytest.mark.parametrize("name", [RECORD, "result.json", "metrics.jsonl"])
def test_a_file_larger_than_any_record_has_is_not_read(run: Experiment, name: str) -> None:
    if name != RECORD:
        as_older_version(run.folder())
    os.truncate(run.folder() / name, integrity.LARGEST + 1)
    tracemalloc.start()
    assert complaint(run.folder())
    assert tracemalloc.get_traced_memory()[1] < integrity.LARGEST
    tracemalloc.stop()


@pytest.mark.parametrize("keys", [(), ("files",), ("files", "checksum")])
def test_a_result_that_was_edited_is_not_counted(run: Experiment, keys: tuple[str, ...]) -> None:
    as_older_version(run.folder())
    path = run.folder() / "result.json"
    values = json.loads(path.read_bytes())
    edited = {
        **result_of(run.folder()),
        "test": {"accuracy": 75.5},
        **{key: values[key] for key in keys},
    }
    path.write_text(json.dumps(edited))
    expected = "it has been changed" if "checksum" in keys else "it has no checksum"
    assert complaint(run.folder()) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "metrics.jsonl ends at update None, the run at 30"),
        (["{"], "metrics.jsonl, line 1: not a JSON object"),
        (["[1]"], "metrics.jsonl, line 1: not a JSON object"),
        (["[" * 9999 + "]" * 9999], "metrics.jsonl, line 1: not a JSON object"),
        ([0, 1], "metrics.jsonl ends at update 20, the run at 30"),
    ],
)
def test_a_record_lacking_rows_is_not_counted(
    run: Experiment, rows: list[int | str], expected: str
) -> None:
    lines = contents_of(run.folder())["metrics.jsonl"].decode().splitlines()
    chosen = [lines[row] if isinstance(row, int) else row for row in rows]
    put(run.folder(), "metrics.jsonl", "".join(f"{line}\n" for line in chosen).encode())
    assert complaint(run.folder()) == expected


def test_a_folder_of_another_run_is_not_counted(run: Experiment) -> None:
    folder = run.folder()
    as_older_version(folder)
    for name, expected in (
        ("smoke-seed1-00000000", "config.yaml has another digest than its folder"),
        (f"smoke-seedX-{run.digest}", "its folder does not have the name of a record"),
    ):
        folder = folder.rename(folder.with_name(name))
        assert complaint(folder) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "config.yaml names no metric"),
        ({"task": {"metric": ["accuracy"]}}, "config.yaml names no metric"),
        ({"task": 7}, "config.yaml: task, norm or data is not a section"),
    ],
)
def test_settings_of_no_run_are_not_counted(
    run: Experiment, settings: dict[str, Any], expected: str
) -> None:
    folder = run.folder().with_name(f"smoke-seed1-{digest_of(settings)}")
    contents = contents_of(run.folder()) | {"config.yaml": json.dumps(settings).encode()}
    write_record(folder, contents, result_of(run.folder()))
    assert complaint(folder) == expected
