"""What makes a run the run it is: files by content, defaults as nulls; and the folder that it lies in."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.model_sections import ResidualConfig
from adanorm.config.paths import DRY_RUNS, RUNS
from adanorm.files import digest_of, sha256

RT = ("task=rt", "scale=smoke", "norm=adanorm")


def own(folder: Path, train: str) -> list[str]:
    folder.mkdir()
    for split, text in (("train", train), ("valid", "a\tb\n"), ("test", "a\tc\n")):
        (folder / split).write_text(text)
    return [*RT, *(f"data.{split}={folder / split}" for split in ("train", "valid", "test"))]


def test_own_files_count_by_content_wherever_they_lie(tmp_path: Path) -> None:
    first, moved = (compose_experiment(own(tmp_path / name, "a\tone\n")) for name in ("here", "there"))
    data = first.identity()["data"]
    assert data["source"] == "own"
    assert not {"train", "valid", "test", "path", "cache", "mirror", "mirrors"} & {*data}
    assert data["files"]["train"] == hashlib.sha256(b"a\tone\n").hexdigest()
    assert moved.digest() == first.digest()
    assert compose_experiment(own(tmp_path / "other", "a\ttwo\n")).digest() != first.digest()
    assert "files" not in compose_experiment(RT).identity()["data"]
    assert "code" not in compose_experiment(RT).identity()["norm"]


def test_a_copy_has_an_identity_of_its_own() -> None:
    run = compose_experiment(RT)
    assert run.folder() != run.model_copy(update={"seed": 7}).folder()
    assert run.model_copy(update={"seed": 7}).identity() == compose_experiment([*RT, "seed=7"]).identity()
    assert run.identity() == compose_experiment(RT).identity()
    assert run == compose_experiment(RT), "what was computed of a run is no part of it"


@pytest.mark.parametrize("task", ["rt", "mnist", "enwik8", "ptb", "gaussian"])
def test_an_identity_has_no_null(task: str) -> None:
    """A setting that is added later, null by default, leaves digests as they are."""
    assert "null" not in json.dumps(compose_experiment([f"task={task}", "scale=smoke"]).identity())


@pytest.mark.parametrize(
    ("choice", "other"),
    [
        ("task=rt model.layers=8 model.norm_position=mix", "model.post_layers=3"),
        ("task=rt model.norm_position=hybrid", "model.qk_norm=all"),
        ("task=rt", "model.norm_position=sandwich"),
        ("task=mnist", "model.norm_position=post"),
        ("task=mnist", "model.norm_position=sandwich"),
        ("task=rt", "training.optimizer=sgd"),
        ("task=ptb data.source=ptb-sample", "data.fold=2"),
    ],
)
def test_another_choice_is_another_run(choice: str, other: str) -> None:
    plain = compose_experiment([*choice.split(), "scale=smoke"])
    assert compose_experiment([*choice.split(), "scale=smoke", other]).digest() != plain.digest()


def test_runs_lie_by_task_and_norm_and_dry_ones_where_no_table_looks(tmp_path: Path) -> None:
    run = compose_experiment([*RT, "seed=3"])
    assert run.folder() == RUNS / "rt" / "adanorm" / f"smoke-seed3-{run.digest()}"
    there = compose_experiment([*RT, f"runs={tmp_path}"])
    assert there.folder() == tmp_path / "rt" / "adanorm" / f"smoke-seed1-{there.digest()}"
    dry = compose_experiment(["task=rt", "scale=paper", "norm=adanorm", "updates=2"])
    name = f"dry-paper-seed1-{dry.digest()}"
    assert dry.folder() == DRY_RUNS / "rt" / "adanorm" / name
    elsewhere = dry.model_copy(update={"runs": str(tmp_path)})
    assert elsewhere.folder() == tmp_path / "rt" / "adanorm" / name


def test_what_is_left_out_follows_from_other_settings() -> None:
    assert compose_experiment([*RT, "threads=3", "seed=${threads}"]).seed == 3
    for pre_norm, position in (("true", "pre"), ("false", "post")):
        model = compose_experiment([*RT, f"model.pre_norm={pre_norm}"]).model
        assert isinstance(model, ResidualConfig)
        assert model.position == position
    chosen = {task: compose_experiment([f"task={task}"]).task.selection_metric for task in ("rt", "de-en")}
    assert chosen == {"rt": "accuracy", "de-en": "loss"}


def test_a_digest_is_of_the_shortest_json_with_sorted_keys_and_whole_numbers_as_such() -> None:
    written = b'{"a":1,"b":[2,0.5,{"c":true,"d":null}],"e":"1.0"}'
    values = {"e": "1.0", "b": [2.0, 0.5, {"d": None, "c": True}], "a": 1.0}
    assert digest_of(values) == hashlib.sha256(written).hexdigest()[:8]


def test_the_sha256_of_files_is_that_of_their_bytes_one_after_the_other(tmp_path: Path) -> None:
    contents = [bytes(range(256)) * 5000, b"", b"end"]  # the first of more than a mebibyte
    paths = [tmp_path / str(number) for number in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert sha256(*paths) == hashlib.sha256(b"".join(contents)).hexdigest()
    assert sha256(*reversed(paths)) != sha256(*paths)
