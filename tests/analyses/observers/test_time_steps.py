"""Gradients through time, against the recurrence written out."""

from typing import cast

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.analyses.observers import time_steps
from adanorm.data.byte_streams import SegmentBatch
from adanorm.models.recurrent import Layer, Recurrent
from tests.analyses.conftest import Records, first_step

BACK = 5


@pytest.mark.parametrize("norm", ["none", "layernorm-simple"])
def test_the_gradient_at_every_time_step_is_that_of_the_recurrence(
    norm: str, record: Records
) -> None:
    step = first_step(record("time-steps", "task=enwik8-rnn", f"norm={norm}", "model.layers=1"))
    model, batch = cast(Recurrent, step.model), cast(SegmentBatch, step.micro_batches[0])
    layer = cast(Layer, model.layers[0])
    input_weight, hidden_weight = layer.input_weight[0], layer.hidden_weight[0]
    h = torch.zeros(len(batch.segment), layer.dim)
    summed: list[Tensor] = []
    for x in F.embedding(batch.segment, model.embedding.weight).unbind(1):
        a = x @ input_weight.T + h @ hidden_weight.T
        a.retain_grad()
        summed.append(a)
        y = a if norm == "none" else F.layer_norm(a, a.shape[-1:])
        h = torch.tanh(y + layer.bias[0])
    logits = h @ model.embedding.weight.T + model.output_bias
    loss = F.cross_entropy(logits, batch.target[:, -1], reduction="sum")
    torch.autograd.backward(loss)
    model.zero_grad()
    sizes = [a.grad.norm(dim=-1).mean().item() for a in reversed(summed) if a.grad is not None]

    (statistics,) = time_steps.observe(step, back=BACK).values()
    assert statistics["near"] == pytest.approx(sizes[0], rel=1e-4)
    assert statistics["far"] == pytest.approx(sizes[BACK], rel=1e-4)
    assert statistics["near"] * statistics["factor"] ** BACK == pytest.approx(statistics["far"])


def test_a_model_without_time_steps_and_too_long_a_reach_are_refused(record: Records) -> None:
    step = first_step(record("time-steps", "task=rt", "norm=adanorm"))
    with pytest.raises(
        ValueError, match="time-steps: the model of this task carries no state through time"
    ):
        time_steps.observe(step, back=BACK)
    step = first_step(record("time-steps", "task=enwik8-rnn", "norm=adanorm"))
    assert {site.split(".")[1] for site in time_steps.observe(step, back=BACK)} == {"0", "1"}, (
        "both layers"
    )
    with pytest.raises(ValueError, match="back=16: a segment has 16 time steps"):
        time_steps.observe(step, back=16)
