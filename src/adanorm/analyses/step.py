"""One update of a run as an observer sees it: before, during and after, without disturbing it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.data.examples import Movable
from adanorm.tasks.base import Loss
from adanorm.training.loop import Trainer
from adanorm.training.state import rng_state, set_rng_state

Values = dict[str, dict[str, float]]  # place (such as a norm's site) -> quantity -> number
Observe = Callable[..., Values]  # of a Step, and of the analysis' options by name
Tensors = dict[str, Tensor]  # by a parameter's name


class Step:
    """An update that is about to be made; an observer calls `update` exactly once.

    What it does besides to weights, gradients and buffers stays inside `preserved_state`. `sites` are the
    norms under study by their names in the model.
    """

    def __init__(self, trainer: Trainer, batches: list[Movable], sites: Mapping[str, nn.Module]) -> None:
        self.trainer, self.micro_batches, self.sites = trainer, batches, sites
        self.model, self.task = trainer.model, trainer.task
        self.done: Loss | None = None
        self._random, self._carried = rng_state(trainer.context.device), trainer.carried
        self._buffers = {name: buffer.clone() for name, buffer in self.model.named_buffers()}

    def update(self) -> Loss:
        """Make the update; return the sum of its losses in nats, detached, and its units."""
        assert self.done is None, "an observer makes one update"
        self.done = self.trainer.update(self.micro_batches)
        return self.done

    def update_and_gradient(self) -> tuple[Tensors, Tensors]:
        """Make the update; return the weights before it, and there the gradient of the mean loss.

        It is not clipped, and of the parameters that it reaches. Where the update clips it, it costs a pass.
        """
        weights = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        if self.trainer.settings.clip_norm is None:
            self.update()
            return weights, self._gradients()
        with self.preserved_state():
            _, gradient = self.loss_and_gradient()
        self.update()
        return weights, gradient

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Give parameters these values; within `preserved_state`."""
        _put_back(dict(self.model.named_parameters()), values)

    def loss_and_gradient(self, *, of: Collection[str] | None = None) -> tuple[float, Tensors]:
        """Return these batches' mean loss at the weights as they are, and its gradient; in `preserved_state`.

        Dropout, memory and running statistics are those that `update` starts from: the loss is a
        function of the weights alone. With `of` the gradient is of these parameters alone: layers before them
        need no backward pass.
        """
        set_rng_state(self._random, self.trainer.context.device)
        self.trainer.carried = self._carried
        _put_back(dict(self.model.named_buffers()), self._buffers)
        self.model.zero_grad()
        parameters = dict(self.model.named_parameters())
        left_out = [p for name, p in parameters.items() if p.requires_grad and name not in (of or parameters)]
        try:
            for parameter in left_out:
                parameter.requires_grad_(False)
            loss = self.trainer.backward(self.micro_batches)
        finally:
            for parameter in left_out:
                parameter.requires_grad_(True)
        gradients = {name: gradient / loss.units for name, gradient in self._gradients().items()}
        return loss.total.item() / loss.units, gradients

    def _gradients(self) -> Tensors:
        return {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}

    @contextmanager
    def preserved_state(self) -> Iterator[None]:
        """Put weights, gradients, buffers, memory and random numbers back at the end of a block."""
        parameters = dict(self.model.named_parameters())
        tensors = parameters | dict(self.model.named_buffers())
        kept = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        gradients = {name: parameter.grad for name, parameter in parameters.items()}
        random, carried = rng_state(self.trainer.context.device), self.trainer.carried
        for parameter in parameters.values():
            parameter.grad = None
        try:
            yield
        finally:
            _put_back(tensors, kept)
            for name, parameter in parameters.items():
                parameter.grad = gradients[name]
            set_rng_state(random, self.trainer.context.device)
            self.trainer.carried = carried


def _put_back(tensors: Mapping[str, Any], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            tensors[name].copy_(value)


def l2_norm(tensors: Mapping[str, Tensor]) -> float:
    """Return the Euclidean norm of all these numbers together."""
    squares = [tensor.double().square().sum() for tensor in tensors.values()]
    return torch.stack(squares).sum().sqrt().item()


def difference(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> Tensors:
    """Return one - other, each in float64: close gradients differ in their last digits."""
    return {name: one[name].double() - other[name].double() for name in one}
