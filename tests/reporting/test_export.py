"""Exports for other tools, against the lines on record and SciPy's intervals."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from scipy import stats

from adanorm.cli.command import dispatch
from adanorm.config.compose import compose_experiment
from adanorm.config.paths import RUNS
from adanorm.reporting.export import SCHEMA, schema_type
from tests.faults import command as faults
from tests.reporting.records import record


def exported(folder: Path, *arguments: str) -> dict[str, Any]:
    assert dispatch(["export", *arguments, f"output={folder}"]) == 0
    (file,) = (path for path in folder.rglob("*") if path.is_file())
    values: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return values


def test_a_cell_is_exported_with_all_that_its_number_needs(
    tmp_path: Path,
) -> None:
    log = exported(tmp_path / "a", "table4/AdaNorm/RT")
    score = log["evaluation_results"][0]["score_details"]
    runs, seeds = (json.loads(score["details"][key]) for key in ("runs", "seeds"))
    lines = map(
        json.loads,
        (RUNS / "rt" / "adanorm.jsonl").read_text("utf-8").splitlines(),
    )
    results = {line["run"]: json.loads(line["files"]["result.json"]) for line in lines}
    named = [results[run.rpartition("/")[2]] for run in runs]
    values = [result["test"]["accuracy"] for result in named]
    assert seeds == sorted(result["seed"] for result in named)
    assert score["score"] == pytest.approx(np.mean(values))
    spread, error = score["uncertainty"], stats.sem(values)
    assert spread["num_samples"] == json.loads(score["details"]["n"]) == len(values) > 2
    assert spread["standard_error"]["value"] == pytest.approx(error)
    bounds = [spread["confidence_interval"][key] for key in ("lower", "upper")]
    assert bounds == pytest.approx(
        stats.t.interval(
            0.95,
            len(values) - 1,
            np.mean(values),
            error,
        )
    )
    data, config = (log["evaluation_results"][0][key] for key in ("source_data", "metric_config"))
    assert data["additional_details"] == {
        name: f"sha256:{sha}" for name, sha in named[0]["data"].items()
    }
    assert (config["lower_is_better"], config["max_score"]) == (
        False,
        100,
    )
    schema = schema_type(SCHEMA)
    for key, wrong in (
        ("model_info", {}),
        ("more", 1),
        ("evaluation_id", None),
        ("schema_version", "1"),
    ):
        with pytest.raises(ValueError, match=key):
            schema.checked(log | {key: wrong})


def test_runs_that_diverged_are_counted_and_smoke_is_no_evidence(
    tmp_path: Path,
) -> None:
    for scale, ends in (
        ("mini", ("done", "diverged")),
        ("smoke", ("done",)),
    ):
        for seed, status in enumerate(ends, 1):
            settings = [
                "task=rt",
                f"scale={scale}",
                f"seed={seed}",
                f"runs={tmp_path / scale}",
            ]
            record(compose_experiment(settings), status=status)
    mini = tmp_path / "mini"
    copytree(mini, tmp_path / "copy")
    log = exported(tmp_path / "out", str(mini / "rt"), str(tmp_path / "copy"))
    score = log["evaluation_results"][0]["score_details"]
    assert (score["details"]["n"], score["details"]["diverged"]) == (
        "1",
        "1",
    )
    assert "uncertainty" not in score, "of one seed"
    dry = compose_experiment(["task=rt", "updates=1", f"runs={tmp_path / 'smoke'}"])
    record(dry, dry_run={"peak_memory": 1})
    with pytest.raises(ValueError, match="nothing to export"):
        exported(tmp_path / "none", str(tmp_path / "smoke"))
    with pytest.raises(ValueError, match="already exists"):
        exported(tmp_path / "out", str(mini))


def test_an_export_that_the_disk_has_no_room_for_leaves_nothing_and_is_made_by_the_next_try(
    tmp_path: Path,
) -> None:
    names = ["table4/LayerNorm/MNIST", "table4/LayerNorm/RT"]
    command = ["export", *names, "output=whole"]
    assert faults.run(command, tmp_path).code == 0
    sizes = [path.stat().st_size for path in (tmp_path / "whole").rglob("*.json")]
    command[-1] = "output=scores"
    full = faults.run(command, tmp_path, largest_file=min(sizes) + 1)
    assert full.is_refusal, full.summary
    assert "File too large" in full.stderr
    assert not [path for path in (tmp_path / "scores").rglob("*") if path.is_file()]
    assert faults.run(command, tmp_path).code == 0
    assert len([*(tmp_path / "scores").rglob("*.json")]) == 2
