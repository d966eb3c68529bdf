"""The range of every number of a configuration, at its ends."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from adanorm.config.compose import compose_experiment
from adanorm.config.sections import Seeds

LARGEST = 2**31 - 1  # of a whole number
RANGES: dict[tuple[str, str], tuple[list[str], list[str]]] = {  # what is refused, what is taken
    ("rt", "seed"): (["-1", f"{LARGEST + 1}"], ["0", f"{LARGEST}"]),
    ("rt", "threads"): (["0", "1025"], ["1", "1024"]),
    ("rt", "training.lr"): (["0", "1.1e30"], ["1e-9", "1e30"]),
    ("rt", "training.eps"): (["0", "9e-38", "1.1e30"], ["1e-37", "1e-9", "1e30"]),
    ("de-en", "training.warmup_from"): (["-1e-9"], ["0.5"]),
    ("rt", "training.label_smoothing"): (["-0.1", "1"], ["0.1", "0.99"]),
    ("de-en", "data.ratio"): (["0.99"], ["1", "1.5"]),
    ("mnist", "model.kernel_size"): (["0", "10"], ["1", "9"]),
    ("mnist", "model.channels"): (["[8]", "[8,8,8]", "[8,0]"], ["[8,8]"]),
    ("cifar10", "data.std"): (["[0.3,0,0.3]", "[0.3,0.3]"], ["[0.3,0.3,0.3]"]),
    ("cifar10", "model.blocks"): (["[]", "[[]]", "[[8],[]]"], ["[[8]]"]),
    ("ptb data.source=ptb-sample", "data.fold"): (["0", "6"], ["1", "5"]),
}


@pytest.mark.parametrize(("task", "key"), RANGES)
def test_a_number_has_the_range_that_is_written_and_no_other(task: str, key: str) -> None:
    refused, taken = RANGES[task, key]
    for value in refused:
        with pytest.raises(ValueError, match=rf"{key.rpartition('.')[2]}.*(should (be|have)|is missing)"):
            compose_experiment([*f"task={task}".split(), "scale=smoke", f"{key}={value}"])
    for value in taken:
        found: object = compose_experiment([*f"task={task}".split(), "scale=smoke", f"{key}={value}"])
        for name in key.split("."):
            found = getattr(found, name)
        assert json.loads(json.dumps(found)) == json.loads(value)


def test_seeds_are_at_least_one_and_each_once() -> None:
    seeds = TypeAdapter(Seeds)
    assert seeds.validate_python([3]) == [3]
    assert seeds.validate_python([0, 1]) == [0, 1]
    for wrong in ([], [1, 1], [0, 0], [-1]):
        with pytest.raises(ValidationError):
            seeds.validate_python(wrong)


def test_a_section_is_not_changed_and_has_no_infinity() -> None:
    section: BaseModel = compose_experiment(["task=rt", "scale=smoke"]).training
    with pytest.raises(ValidationError, match="frozen"):
        section.lr = 1.0  # type: ignore[attr-defined]
    with pytest.raises(ValidationError, match="finite"):
        type(section).model_validate({**section.model_dump(), "weight_decay": float("-inf")})


def test_a_dry_run_is_of_few_updates_batches_and_images() -> None:
    paper = ["task=mnist", "scale=paper", "training.accumulate=8"]
    run = compose_experiment([*paper, "updates=2"])
    assert (run.training.max_updates, run.training.accumulate) == (2, 2)
    assert run.data.model_dump()["valid_size"] == 256
    with pytest.raises(ValueError, match="updates=3: a dry run has at most 2"):
        compose_experiment([*paper, "updates=3"])
