"""What the sections of models say of their norm sites, against the models themselves."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

import pytest
import torch
from torch import nn

from adanorm import tasks
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import MODELS
from adanorm.config.paths import choices
from adanorm.models.norm_sites import PlacedNorms, build_with_norms
from adanorm.norms import NormChoice, norm_factory
from adanorm.tasks.base import TrainingTask


def built(run: Experiment, norm: str) -> tuple[TrainingTask, nn.Module, PlacedNorms]:
    torch.manual_seed(0)
    task = tasks.build(run)
    return task, *build_with_norms(task.build_model, norm_factory(NormChoice(norm)), "all")


def test_every_model_of_a_section_is_there_and_some_task_has_it(smoke: Callable[..., Experiment]) -> None:
    assert all(callable(resolve_name(place)) for place in MODELS.values())
    assert {type(smoke(f"task={task}").model) for task in choices("task")} == set(MODELS)


@pytest.mark.parametrize("task", choices("task"))
def test_the_sites_show_positions_where_the_section_says_so(
    smoke: Callable[..., Experiment], task: str
) -> None:
    has_axes = hasattr(smoke(f"task={task}").model, "norm_axes")
    for axes in (["model.norm_axes=all"], ["model.norm_axes=channels"]) if has_axes else ([],):
        run = smoke(f"task={task}", *axes)
        loaded, model, placed = built(run, "layernorm")
        shapes: list[torch.Size] = []
        for site in placed.swapped:
            model.get_submodule(site).register_forward_hook(lambda _, x, __, to=shapes: to.append(x[0].shape))
        loaded.loss(model, next(iter(loaded.train_batches(0))))
        if run.model.carries == "state":  # its gates together: (gates, streams, features)
            assert {shape[-2] for shape in shapes} == {run.data.model_dump()["streams"]}
            assert not run.model.sites().positions
        else:
            assert {len(shape) > 2 for shape in shapes} == {run.model.sites().positions}


@pytest.mark.parametrize("task", choices("task"))
def test_a_norm_in_the_layer_before_finds_one_where_the_section_says_so(
    smoke: Callable[..., Experiment], task: str
) -> None:
    run = smoke(f"task={task}")
    if run.model.sites().after_layers:
        assert built(run, "weightnorm")
    else:
        with pytest.raises(ValueError, match="none has a layer of its own before it"):
            built(run, "weightnorm")
