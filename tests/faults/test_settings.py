"""Settings and YAML: a number is the one that YAML 1.2 reads and single precision holds, or refused."""

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from adanorm.config.compose import compose_experiment, compose_values
from adanorm.config.values import dotted, read_yaml
from adanorm.norms import norm_factory
from adanorm.studies.study import Study
from tests.faults.conftest import TASKS

# How YAML 1.2 reads a number (its core schema, section 10.3.2).
READERS: dict[str, Callable[[str], float]] = {
    r"[-+]?[0-9]+": int,
    r"0o[0-7]+": lambda text: int(text[2:], 8),
    r"0x[0-9a-fA-F]+": lambda text: int(text[2:], 16),
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?": float,
}
SPELLINGS = (
    "010",
    "0o10",
    "0x10",
    "0b11",
    "1_0",
    "1_000.5",
    "1:30",
    "1:30:59.5",
    "+10",
    "08",
    "1e1",
    "0_1",
)
NOT_SINGLE = ("1e-60", "-1e-46", "1e39", "1e300", "1e-400", "1e400")


def number_of(text: str) -> float | None:
    """Return the number that YAML 1.2 reads; None for a text."""
    for pattern, reader in READERS.items():
        if re.fullmatch(pattern, text):
            return reader(text)
    return None


def outcome(overrides: list[str]) -> Any:
    """Return the experiment of overrides; None if they are refused in one line."""
    try:
        return compose_experiment(overrides)
    except ValueError as error:
        message = str(error)
    assert "\n" not in message
    return None


def settings_of(task: str) -> dict[str, Any]:
    values = compose_values([f"task={task}", "norm=adanorm", "scale=smoke"])
    free = ("runs", "data.cache", "cost", "hydra")
    return {key: value for key, value in dotted(values) if not key.startswith(free)}


@pytest.mark.nightly
@pytest.mark.parametrize("text", [*SPELLINGS, *NOT_SINGLE])
@pytest.mark.parametrize("task", TASKS)
def test_a_number_in_a_setting_is_that_of_yaml_1_2_or_refused(task: str, text: str) -> None:
    line = [f"task={task}", "norm=adanorm", "scale=smoke"]
    for key, value in settings_of(task).items():
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        run = outcome([*line, f"{key}={text}"])
        if run is not None:
            number = dict(dotted(run.model_dump())).get(key)
            assert text not in NOT_SINGLE, key
            if isinstance(number, str):
                with pytest.raises(ValueError, match=text):
                    norm_factory(run.norm.choice)
            else:
                assert number == number_of(text), key


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS)
def test_a_deleted_setting_makes_no_other_identity_of_the_same_computation(task: str) -> None:
    line = [f"task={task}", "norm=adanorm", "scale=smoke"]
    whole = compose_experiment(line)
    for key in settings_of(task):
        run = outcome([*line, f"~{key}"])
        if run is not None and run.digest != whole.digest:
            before, after = dict(dotted(whole.model_dump())), dict(dotted(run.model_dump()))
            assert {**before, **after} != before, key


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(300))
def test_a_number_in_yaml_is_that_of_yaml_1_2_or_refused(number: int) -> None:
    random = Random(number)
    characters = random.choice(("0123456789", "0123456789_", "01234567:", "01_.e-"))
    start = random.choice(("", "", "0", "0x", "0b", "0o", "+", "-0"))
    text = start + "".join(random.choice(characters) for _ in range(random.randint(1, 5)))
    study = {"title": "t", "rows": ["adanorm"], "columns": ["rt"], "scale": "mini"}
    seeds: Sequence[float | None] = [number_of(text)]
    message = ""
    try:
        value = read_yaml(f"seeds: [{text}]\n")["seeds"][0]
        seeds = Study.checked({**study, "seeds": [value]}).seeds
    except ValueError as error:
        message = str(error)
    assert "\n" not in message
    assert seeds == [number_of(text)]
