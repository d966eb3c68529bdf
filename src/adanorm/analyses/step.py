"""One update of a run as an observer sees it, with what its norms are given and give, undisturbed."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.data.examples import Movable
from adanorm.norms.base import upcast
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


@dataclass
class Call:
    """One call of a norm: x and z (..., H), and the loss's gradients dx and dz once they are there."""

    norm: nn.Module
    x: Tensor
    z: Tensor | None = None
    dx: Tensor | None = None
    dz: Tensor | None = None
    counted: Tensor | None = None  # (...): the rows that a norm over several rows was told to count

    def rows(self) -> list[Tensor]:
        """Return x, z, dx and dz in float32 at least, as rows (N, H): those that a gradient reaches."""
        known = [tensor for tensor in (self.x, self.z, self.dx, self.dz) if tensor is not None]
        assert len(known) == 4, "asked once the gradients are known"
        x, z, dx, dz = (upcast(tensor).reshape(-1, tensor.shape[-1]) for tensor in known)
        reached = (dz.amax(-1) != 0) | (dz.amin(-1) != 0)  # ten times as fast as any()
        return [x, z, dx, dz] if reached.all() else [rows[reached] for rows in (x, z, dx, dz)]


def row_moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance (N,) of rows (N, H)."""
    # torch.var_mean takes twenty times as long on a CPU.
    mean = rows.mean(-1)
    centered = rows - mean[:, None]
    return mean, torch.linalg.vecdot(centered, centered) / rows.shape[-1]


OnCall = Callable[[str, Call], None]


@contextmanager
def record_norm_calls(sites: Mapping[str, nn.Module], seen: OnCall, *, gradients: bool) -> Iterator[None]:
    """Hand every call of the norms to `seen(site, call)` during a block, whose numbers stay what they are.

    With `gradients` when its gradients are known, in the backward pass, else when z is. dx is what
    comes through the norm alone: a residual's gradient of the same x is none of it.
    """
    with ExitStack() as hooks:
        for site, norm in sites.items():
            for hook in _hooks(site, norm, seen, gradients=gradients):
                hooks.enter_context(hook)
        yield


def _hooks(site: str, norm: nn.Module, seen: OnCall, *, gradients: bool) -> tuple[Any, Any]:
    """Register what hands on the calls of one norm, and return the hooks."""
    calls: list[Call] = []

    def before(norm: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        x = arguments[0]
        call = Call(norm, x.detach(), counted=arguments[1] if len(arguments) > 1 else None)
        calls.append(call)
        if not gradients or not x.requires_grad:
            return None

        def arrived(gradient: Tensor) -> None:
            call.dx = gradient.detach()
            seen(site, call)

        alias = x.view_as(x)  # a name of its own for x as the norm's input
        alias.register_hook(arrived)
        return (alias, *arguments[1:])

    def after(norm: nn.Module, arguments: tuple[Any, ...], z: Tensor) -> Tensor | None:
        call = calls.pop()
        call.z = z.detach()
        if not gradients:
            seen(site, call)
        if not (gradients and z.requires_grad):
            return None
        if z is arguments[0]:
            z = z.view_as(z)  # w/o Norm: so that its hook is called before x's
        z.register_hook(lambda gradient: setattr(call, "dz", gradient.detach()))  # type: ignore[no-untyped-call]
        return z

    return norm.register_forward_pre_hook(before), norm.register_forward_hook(after)


def row_means(step: Step, measure: Callable[[Call], dict[str, Tensor]]) -> tuple[int, Values]:
    """Make the step's update and return its units and, for each site, means over rows.

    `measure` returns numbers (N,) of a call's N rows; the mean is over all calls of the update. A
    site that no gradient reaches is left out.
    """
    sums: dict[str, dict[str, Any]] = {site: {} for site in step.sites}
    counts = dict.fromkeys(step.sites, 0)

    def seen(site: str, call: Call) -> None:
        if call.dz is None:
            return
        for name, numbers in measure(call).items():
            sums[site][name] = sums[site].get(name, 0) + numbers.double().sum()
        counts[site] += len(numbers)

    with record_norm_calls(step.sites, seen, gradients=True):
        units = step.update().units
    reached = [(site, count) for site, count in counts.items() if count]
    return units, {s: {name: total.item() / n for name, total in sums[s].items()} for s, n in reached}
