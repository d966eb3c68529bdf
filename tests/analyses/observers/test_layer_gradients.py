"""The gradient at both ends of a network's norms, against hooks of PyTorch's own."""

from typing import Any

import pytest
import torch
from torch import Tensor

from adanorm.analyses.observers import layer_gradients
from adanorm.analyses.spec import analysis_grid, load_analysis
from tests.analyses.conftest import Records, first_step


def deviation(gradient: Tensor) -> float:
    """Return the root of the mean variance over the rows (..., H) that are not zero."""
    rows = gradient.reshape(-1, gradient.shape[-1]).double()
    return rows[rows.abs().sum(-1) > 0].var(-1, unbiased=False).mean().sqrt().item()


@pytest.mark.parametrize("norm", ["layernorm-simple", "detachnorm"])
def test_sizes_are_gradients_of_the_mean_loss_at_the_first_and_last_norm(
    norm: str, record: Records
) -> None:
    # With norms behind the sum only the norm reads its input: the gradient of that input is the
    # norm's.
    overrides = ("task=rt", f"norm={norm}", "model.pre_norm=false", "model.layers=3")
    entry = record("layer-gradients", *overrides)
    ((span, sizes),) = layer_gradients.observe(first_step(entry)).items()
    assert span == "layers.0.attention_norm to layers.2.ffn_norm"

    step = first_step(entry)
    gradients: list[Tensor] = []
    for name in reversed(span.split(" to ")):
        step.model.get_submodule(name).register_full_backward_hook(
            lambda _, into, out_of: gradients.extend((into[0], out_of[0]))  # type: ignore[index]
        )
    loss = step.task.loss(step.model, step.micro_batches[0].to(torch.device("cpu")), ())
    torch.autograd.backward(loss.total / loss.units)
    (_, enters), (leaves, _) = gradients[:2], gradients[2:]
    assert sizes["leaves"] == pytest.approx(deviation(leaves), rel=1e-4)
    assert sizes["enters"] == pytest.approx(deviation(enters), rel=1e-4)
    assert sizes["passed"] == pytest.approx(sizes["leaves"] / sizes["enters"])


def test_a_network_with_a_single_norm_is_refused(record: Records) -> None:
    entry = record(
        "layer-gradients", "task=rt", "norm=adanorm", "norm.placement=[layers.0.ffn_norm]"
    )
    with pytest.raises(
        ValueError, match="layer-gradients: a gradient reaches 1 norms of this model"
    ):
        layer_gradients.observe(first_step(entry))


def test_settings_of_one_task_apply_to_its_runs_alone_and_a_user_changes_them() -> None:
    def shape(task: str, *overrides: str) -> tuple[Any, Any]:
        chosen = load_analysis("layer-gradients", {"tasks": "[rt, sst5]", "norms": "[adanorm]"})
        model: Any = analysis_grid(chosen, overrides=overrides)["adanorm", task][0].experiment.model
        return model.layers, model.pre_norm

    assert shape("rt") == (16, False)
    assert shape("sst5") == (4, True)
    assert shape("rt", "model.layers=8") == (8, False)
