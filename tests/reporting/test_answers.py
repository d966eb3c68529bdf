"""The answers to the question, from records made by hand."""

from __future__ import annotations

from pathlib import Path

from adanorm.config.compose import cached_experiment
from adanorm.reporting.answers import QUESTION, answers, short_answer
from adanorm.verdicts.claims import SCALES, evaluated
from adanorm.verdicts.preregistration import Claim
from tests.reporting.records import record

CLAIM = Claim(
    id=QUESTION, text="AdaNorm is better.", source="here", better="adanorm", worse="layernorm",
    tasks=["rt", "sst5", "enwik8"],
)  # fmt: skip
LONGER = "training.max_updates=4000"


def made(folder: Path, overrides: list[str], *, layernorm: list[float], adanorm: list[float]) -> None:
    for norm, scores in (("layernorm", layernorm), ("adanorm", adanorm)):
        first = cached_experiment([*overrides, f"norm={norm}"], runs=str(folder))
        for seed, score in enumerate(scores, 1):
            record(first.model_copy(update={"seed": seed}), test={first.task.metric: score}, seconds=360.0)


def test_the_short_answer_names_every_task_once() -> None:
    found = {"rt": "worse", "sst5": "open"}
    assert short_answer(CLAIM, found) == (
        "Better on none of three data sets so far: worse on RT, open on SST5, one without runs."
        " The paper has it better on three."
    )
    found = {"rt": "better", "sst5": "equivalent", "enwik8": "better"}
    assert short_answer(CLAIM, found) == (
        "Better on two of three data sets so far (RT and Enwiki8): equivalent on SST5."
        " The paper has it better on three."
    )
    assert short_answer(CLAIM.model_copy(update={"tasks": ["rt"]}), {"rt": "better"}) == (
        "Better on one of one data set so far (RT). The paper has it better on one."
    )


def test_a_task_is_answered_at_the_papers_size_where_it_has_runs_there(tmp_path: Path) -> None:
    made(tmp_path, ["task=rt", "scale=paper"], layernorm=[75.0, 75.2, 75.1], adanorm=[78.0, 78.3, 78.1])
    made(tmp_path, ["task=de-en", "scale=small"], layernorm=[30.0, 30.2, 30.1], adanorm=[25.0, 25.3, 25.1])
    made(tmp_path, ["task=enwik8", "scale=small"], layernorm=[2.0], adanorm=[])
    claim = CLAIM.model_copy(update={"tasks": ["rt", "de-en", "enwik8"]})
    results = [result for scale in SCALES for result in evaluated([claim], scale, runs=str(tmp_path))]
    found = answers(results)
    assert found.short == (
        "Better on one of three data sets so far (RT): worse on De-En, one without runs."
        " The paper has it better on three. At scale small: De-En."
    )
    rt, de_en, enwik8 = found.tasks
    assert rt.startswith(
        "RT, at the paper's size, **better**: AdaNorm's lead over LayerNorm is +3.03 accuracy"
    )
    assert de_en.startswith("De-En, at scale small, **worse**: AdaNorm's lead over LayerNorm is -4.97 BLEU")
    assert enwik8 == "Enwiki8: not run."
    assert found.claim.startswith("At the paper's size: Open: ")


def test_runs_of_other_settings_than_the_scales_are_named(tmp_path: Path) -> None:
    of_longer_runs = {"small": {"overrides": {"enwik8": [LONGER]}}}
    claim = Claim.model_validate(CLAIM.model_dump() | {"at": of_longer_runs})
    made(tmp_path, ["task=enwik8", "scale=small"], layernorm=[2.0, 2.01, 2.0], adanorm=[1.0, 1.01, 1.0])
    short_runs = [result for scale in SCALES for result in evaluated([claim], scale, runs=str(tmp_path))]
    not_yet = f"Enwiki8: not run yet at scale small with {LONGER}."
    assert not_yet in answers(short_runs).tasks
    longer = ["task=enwik8", "scale=small", LONGER]
    made(tmp_path, longer, layernorm=[2.0, 2.01, 2.0], adanorm=[2.5, 2.51, 2.51])
    both = [result for scale in SCALES for result in evaluated([claim], scale, runs=str(tmp_path))]
    (line,) = (task for task in answers(both).tasks if task.startswith("Enwiki8"))
    assert line.startswith(
        f"Enwiki8, at scale small, {LONGER}, **worse**: AdaNorm's lead over LayerNorm is -0.50"
    )
