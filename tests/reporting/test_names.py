"""Titles stand in the configuration, and are no part of a run."""

from __future__ import annotations

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import choices
from adanorm.config.titles import task_metric, title
from adanorm.metrics.table import METRICS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("adanorm", "AdaNorm"),
        ("none", "w/o Norm"),
        ("enwik8-gru", "Enwiki8, GRU"),
        ("MyNorm", "MyNorm"),  # a norm from outside
        ("k=0.2", "k=0.2"),  # a row's label
    ],
)
def test_a_title_is_that_of_the_configuration_and_what_has_none_is_its_own(name: str, expected: str) -> None:
    assert title(name) == expected


def test_no_two_norms_or_tasks_have_one_title() -> None:
    names = [*choices("norm"), *choices("task")]
    assert len({title(name) for name in names}) == len(names)


def test_a_title_is_no_part_of_a_run() -> None:
    run = compose_experiment(["task=rt", "norm=adanorm"])
    renamed = compose_experiment(["task=rt", "norm=adanorm", "norm.title=Ada", "task.title=Reviews"])
    assert renamed == run
    assert renamed.digest() == run.digest()
    assert "title" not in str(run.identity())


def test_the_metric_of_a_task_is_its_configurations() -> None:
    assert task_metric("ptb") == METRICS["uas"]
    assert task_metric("gaussian") == METRICS["loss"]
