"""Titles stand in the configuration, and are no part of a run."""

from __future__ import annotations

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import choices
from adanorm.config.titles import title


def test_a_title_is_that_of_the_configuration_and_what_has_none_is_its_own() -> None:
    titles = {"adanorm": "AdaNorm", "none": "w/o Norm", "enwik8-gru": "Enwiki8, GRU", "k=0.2": "k=0.2"}
    assert {name: title(name) for name in titles} == titles
    names = [*choices("norm"), *choices("task")]
    assert len({title(name) for name in names}) == len(names), "no two have one"


def test_a_title_is_no_part_of_a_run() -> None:
    run = compose_experiment(["task=rt", "norm=adanorm"])
    renamed = compose_experiment(["task=rt", "norm=adanorm", "norm.title=Ada", "task.title=Reviews"])
    assert (renamed, renamed.digest()) == (run, run.digest())
    assert "title" not in str(run.identity())
