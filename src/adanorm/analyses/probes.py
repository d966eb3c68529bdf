"""An update with what it started from: for asking what the loss is at other weights, on the same batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from adanorm.analyses.step import Step

Tensors = dict[str, Tensor]  # by a parameter's name


class Updated(NamedTuple):
    """What an update started from: the weights, and at them the gradient of the batch's mean loss.

    The gradient is the loss's own, not clipped, of the parameters that it reaches.
    """

    weights: Tensors
    gradient: Tensors


def updated(step: Step) -> Updated:
    """Make the update of a step. Its gradient costs nothing more, unless it is clipped: then a pass."""
    weights = {name: parameter.detach().clone() for name, parameter in step.model.named_parameters()}
    if step.trainer.settings.clip_norm is None:
        step.update()
        return Updated(weights, _gradients(step))
    with step.aside():
        _, gradient = loss_and_gradient(step)
    step.update()
    return Updated(weights, gradient)


def put(step: Step, values: Mapping[str, Tensor], *, names: Collection[str] | None = None) -> None:
    """Give parameters, all of `values` or those of `names`, these values; to be called within `aside`."""
    with torch.no_grad():
        for name in values if names is None else names:
            step.model.get_parameter(name).copy_(values[name])


def loss_and_gradient(step: Step, *, of: Collection[str] | None = None) -> tuple[float, Tensors]:
    """Return the batch's mean loss at the weights as they are, and its gradient; within `aside`.

    With `of` the gradient is of these parameters alone: layers before them need no backward pass.
    """
    parameters = dict(step.model.named_parameters())
    asked = {name: parameter.requires_grad for name, parameter in parameters.items()}
    try:
        for name, parameter in parameters.items():
            parameter.requires_grad_(asked[name] and (of is None or name in of))
        loss = step.backward()
    finally:
        for name, parameter in parameters.items():
            parameter.requires_grad_(asked[name])
    gradients = {name: gradient / loss.units for name, gradient in _gradients(step).items()}
    return loss.total.item() / loss.units, gradients


def _gradients(step: Step) -> Tensors:
    return {name: p.grad for name, p in step.model.named_parameters() if p.grad is not None}


def length(tensors: Mapping[str, Tensor]) -> float:
    """Return the Euclidean norm of all these numbers together."""
    squares = [tensor.double().square().sum() for tensor in tensors.values()]
    return torch.stack(squares).sum().sqrt().item()


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Tensors:
    """Return one - other, each in float64: close gradients differ in their last digits."""
    return {name: one[name].double() - other[name].double() for name in one}
