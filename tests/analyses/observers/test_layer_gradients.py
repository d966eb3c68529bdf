"""The gradient at both ends of a network's norms, against hooks of PyTorch's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adanorm.analyses.observers import layer_gradients
from adanorm.analyses.spec import analysis_grid, load_analysis
from adanorm.analyses.step import Step
from adanorm.training.loop import Trainer
from tests.analyses.conftest import Records, begin


def begun(record: Records, *overrides: str) -> tuple[Trainer, Step]:
    given = {"steps": "1", "every": "1"}
    trainer, sites = begin(record("layer-gradients", *overrides, given=given).experiment)
    return trainer, Step(trainer, next(trainer.batches()), {s: trainer.model.get_submodule(s) for s in sites})


def deviation(gradient: Tensor) -> float:
    """Return the root of the mean variance over the rows (..., H) that are not zero."""
    rows = gradient.reshape(-1, gradient.shape[-1]).double()
    return rows[rows.abs().sum(-1) > 0].var(-1, unbiased=False).mean().sqrt().item()


@pytest.mark.parametrize("norm", ["layernorm-simple", "detachnorm"])
def test_sizes_are_those_of_the_mean_loss_at_the_first_and_the_last_norm(norm: str, record: Records) -> None:
    # Behind the sum a norm alone uses its input, so that a module's gradient of it is the norm's.
    overrides = ("task=rt", f"norm={norm}", "model.pre_norm=false", "model.layers=3")
    _, step = begun(record, *overrides)
    (found,) = layer_gradients.observe(step).values()

    trainer, other = begun(record, *overrides)
    seen: dict[str, Tensor] = {}

    def keep(place: str) -> Any:
        def hook(_: nn.Module, into: tuple[Tensor, ...], out_of: tuple[Tensor, ...]) -> None:
            seen[place] = (into if place == "first" else out_of)[0]

        return hook

    trainer.model.get_submodule("layers.0.attention_norm").register_full_backward_hook(keep("first"))
    trainer.model.get_submodule("layers.2.ffn_norm").register_full_backward_hook(keep("last"))
    loss = trainer.task.loss(trainer.model, other.micro_batches[0].to(torch.device("cpu")), ())
    torch.autograd.backward(loss.total / loss.units)
    assert found["leaves"] == pytest.approx(deviation(seen["first"]), rel=1e-4)
    assert found["enters"] == pytest.approx(deviation(seen["last"]), rel=1e-4)
    assert found["passed"] == pytest.approx(found["leaves"] / found["enters"])


def test_the_place_names_both_ends(record: Records) -> None:
    _, step = begun(record, "task=rt", "norm=adanorm", "model.pre_norm=false", "model.layers=2")
    assert list(layer_gradients.observe(step)) == ["layers.0.attention_norm to layers.1.ffn_norm"]


def test_a_network_of_one_norm_is_named(record: Records) -> None:
    _, step = begun(record, "task=rt", "norm=adanorm", "norm.placement=[layers.0.ffn_norm]")
    with pytest.raises(
        ValueError, match="layer-gradients: a gradient reaches 1 norms of this model, two are"
    ):
        layer_gradients.observe(step)


def test_settings_of_one_task_are_of_its_runs_alone_and_a_user_changes_them() -> None:
    def shape(task: str, *overrides: str) -> tuple[Any, Any]:
        chosen = load_analysis("layer-gradients", {"tasks": "[rt, sst5]", "norms": "[adanorm]"})
        model: Any = analysis_grid(chosen, overrides=overrides)["adanorm", task][0].experiment.model
        return model.layers, model.pre_norm

    assert shape("rt") == (16, False)
    assert shape("sst5") == (4, True)
    assert shape("rt", "model.layers=8") == (8, False)
