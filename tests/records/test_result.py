"""result.json: the same bytes whether written now or long ago, and what cannot be read is not counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import ANALYSES, RUNS
from adanorm.files import as_json, with_checksum
from adanorm.records import reader
from adanorm.records.result import AnalysisResult, Ended, Result, outcome

FACTS: dict[str, Any] = {
    "task": "rt", "norm": "adanorm", "scale": "smoke", "seed": 1, "precision": "fp32", "own_data": False,
    "norm_sites": ["norms.0"], "layernorm_sites": [], "parameters": 7, "norm_parameters": 0,
    "data": {"file": "0" * 64},
}  # fmt: skip


@pytest.mark.parametrize(("folder", "kind"), [(RUNS, Result), (ANALYSES, AnalysisResult)])
def test_every_recorded_result_is_written_back_byte_for_byte(
    folder: Path, kind: type[Ended]
) -> None:
    records = [*reader.records(folder)]
    if not records:
        pytest.skip(f"no records in {folder}")
    for record in records:
        content = record.content("result.json")
        assert content is not None
        values = json.loads(content)
        checksum, files = values.pop("checksum", None), values.pop("files", {})
        result = kind.model_validate(values)
        assert (result.sealed(files) if checksum else as_json(result.values())) == content, (
            record.folder
        )


def test_the_keys_of_a_result_say_how_it_ended() -> None:
    always = ["schema", "status", *FACTS]
    ended: dict[str, Any] = {"best_step": 2, "steps": 4, "seconds": 1.5}
    scores: dict[str, Any] = {"valid": {"accuracy": 1.0}, "test": {"accuracy": 2.0}}
    done = Result(
        status="done",
        **FACTS,
        **scores,
        **ended,
        prepared={"train": {"words": 3}},
    )
    assert [*done.values()] == [*always, "prepared", *scores, *ended]
    diverged = Result(
        status="diverged",
        **FACTS,
        **ended,
        diverged="loss not finite at update 4",
    )
    assert [*diverged.values()] == [*always, *scores, *ended, "diverged"]
    assert diverged.values()["test"] is None
    failed = Result(status="failed", **FACTS, error="RuntimeError: breaks")
    assert [*failed.values()] == [*always, "error"]
    ways = [(result.is_complete, result.reason) for result in (done, diverged, failed)]
    assert ways == [
        (True, None),
        (True, "loss not finite at update 4"),
        (False, "RuntimeError: breaks"),
    ]


NO_OBJECTS = ('{"schema": 1, "status": "do', "[]", "null", "1", '"x"', "\xff", "[" * 100000)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        *((content, "it is not a JSON object") for content in NO_OBJECTS),
        ('{"schema": 2, "status": "done"}', "schema 2 is not 1"),
        ('{"status": "done"}', "schema None is not 1"),
        (
            json.dumps(with_checksum({"schema": 1, "status": "running"})),
            "status: input should be 'done', ",
        ),
        (json.dumps(with_checksum({"schema": 1, "status": "done"})), "task: field required"),
    ],
)
def test_an_unreadable_result_is_not_counted_but_named(
    tmp_path: Path, content: str, complaint: str
) -> None:
    assert reader.result(tmp_path) is None, "no file yet"
    (tmp_path / "result.json").write_text(content, "latin-1")
    with pytest.warns(UserWarning, match=" is not counted: ") as caught:
        assert reader.result(tmp_path) is None
    assert complaint in str(caught[0].message)
    assert "\n" not in str(caught[0].message)


def test_the_outcome_has_test_and_validation_score_or_the_reason_why_there_are_none() -> None:
    rt, de_en = (
        compose_experiment([f"task={task}", "scale=smoke"]).task for task in ("rt", "de-en")
    )
    done = Result(
        status="done",
        **FACTS,
        valid={"accuracy": 76.5},
        test={"accuracy": 75.25},
    )
    assert outcome(rt, done) == "test accuracy 75.25, validation 76.50"
    by_loss = done.model_copy(
        update={"valid": {"loss": 4.0, "bleu": 1.0}, "test": {"bleu": 30.5, "loss": 3}}
    )
    assert outcome(de_en, by_loss) == "test bleu 30.50, validation loss 4.000"
    ended = Result(status="diverged", **FACTS, diverged="loss not finite at update 4")
    assert outcome(rt, ended) == "diverged: loss not finite at update 4"
