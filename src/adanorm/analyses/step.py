"""One update of a run for an observer, with its norms' inputs, outputs and gradients."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.norms.base import upcast
from adanorm.tasks import AnyBatch, Loss
from adanorm.training.loop import Trainer
from adanorm.training.state import rng_state, set_rng_state

Values = dict[str, dict[str, float]]  # site of a norm, layer or "" -> quantity -> number
Observe = Callable[..., Values]  # called with a Step, and the analysis' options by name
Tensors = dict[str, Tensor]  # by parameter name


class Step:
    """An update that an observer makes: it calls `update` exactly once.

    It makes other changes to weights, gradients or buffers only inside `preserved_state`. `sites`
    are the norms under study, by their names in the model.
    """

    def __init__(
        self, trainer: Trainer, batches: list[AnyBatch], sites: Mapping[str, nn.Module]
    ) -> None:
        self.trainer = trainer
        self.micro_batches = batches
        self.sites = sites
        self.model = trainer.model
        self.task = trainer.task
        self.loss: Loss | None = None
        self._random = rng_state(trainer.context.device)
        self._carried = trainer.carried
        self._buffers = _copies(self.model.named_buffers())

    def update(self) -> Loss:
        """Make the update; return its summed loss in nats, detached, and its units."""
        assert self.loss is None, "an observer makes one update"
        self.loss = self.trainer.update(self.micro_batches)
        return self.loss

    def update_and_gradient(self) -> tuple[Tensors, Tensors]:
        """Make the update; return the weights before it and the gradient of the mean loss there.

        The gradient is not clipped. It has only the parameters that it reaches. If the update
        clips, it costs one more pass.
        """
        weights = self.weights()
        if self.trainer.settings.clip_norm is None:
            self.update()
            return weights, self._gradients()
        with self.preserved_state():
            _, gradient = self.loss_and_gradient()
        self.update()
        return weights, gradient

    def weights(self) -> Tensors:
        """Return a copy of the parameters."""
        return _copies(self.model.named_parameters())

    def set_parameters(self, values: Mapping[str, Tensor]) -> None:
        """Set parameters to these values; only inside `preserved_state`."""
        _copy_into(dict(self.model.named_parameters()), values)

    def loss_and_gradient(self, *, names: Collection[str] | None = None) -> tuple[float, Tensors]:
        """Return the batches' mean loss at the current weights, and its gradient.

        It is called only in `preserved_state`. Dropout, memory and running statistics are those
        that `update` starts from, so the loss is a function of the weights alone. `names` limits
        the gradient to these parameters: then the layers before them need no backward pass.
        """
        set_rng_state(self._random, self.trainer.context.device)
        self.trainer.carried = self._carried
        _copy_into(dict(self.model.named_buffers()), self._buffers)
        self.model.zero_grad()
        left_out = []
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and names is not None and name not in names:
                left_out.append(parameter)
        try:
            for parameter in left_out:
                parameter.requires_grad_(False)
            loss = self.trainer.backward(self.micro_batches)
        finally:
            for parameter in left_out:
                parameter.requires_grad_(True)
        gradients = self._gradients()
        for name, gradient in gradients.items():
            gradients[name] = gradient / loss.units
        return loss.total.item() / loss.units, gradients

    def _gradients(self) -> Tensors:
        gradients = {}
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                gradients[name] = parameter.grad
        return gradients

    @contextmanager
    def preserved_state(self) -> Iterator[None]:
        """Restore weights, gradients, buffers, memory and random state at the end of a block."""
        parameters = dict(self.model.named_parameters())
        tensors = parameters | dict(self.model.named_buffers())
        copies = _copies(tensors.items())
        gradients = {name: parameter.grad for name, parameter in parameters.items()}
        random = rng_state(self.trainer.context.device)
        carried = self.trainer.carried
        for parameter in parameters.values():
            parameter.grad = None
        try:
            yield
        finally:
            _copy_into(tensors, copies)
            for name, parameter in parameters.items():
                parameter.grad = gradients[name]
            set_rng_state(random, self.trainer.context.device)
            self.trainer.carried = carried


def _copies(tensors: Iterable[tuple[str, Tensor]]) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in tensors}


def _copy_into(tensors: Mapping[str, Any], values: Mapping[str, Tensor]) -> None:
    with torch.no_grad():
        for name, value in values.items():
            tensors[name].copy_(value)


def l2_norm(tensors: Mapping[str, Tensor]) -> float:
    """Return the Euclidean norm of all tensors together."""
    squares = torch.stack([tensor.double().square().sum() for tensor in tensors.values()])
    return squares.sum().sqrt().item()


def difference(minuend: Mapping[str, Tensor], subtrahend: Mapping[str, Tensor]) -> Tensors:
    """Return the difference in float64, since close gradients differ only in their last digits."""
    return {name: x.double() - subtrahend[name].double() for name, x in minuend.items()}


@dataclass
class Call:
    """One call of a norm: x and z (..., H); dx and dz, the loss's gradients, come later."""

    norm: nn.Module
    x: Tensor
    z: Tensor | None = None
    dx: Tensor | None = None
    dz: Tensor | None = None
    counted: Tensor | None = None  # (...): true for the rows that a norm over several rows counts

    def rows(self) -> list[Tensor]:
        """Return x, z, dx, dz as the N rows (N, H) that a gradient reaches, in float32 at least."""
        tensors = []
        for tensor in (self.x, self.z, self.dx, self.dz):
            assert tensor is not None, "called only when the gradients are known"
            rows = upcast(tensor)
            rows = rows.reshape(-1, rows.shape[-1])
            tensors.append(rows)
        # Of dz, the last; ten times as fast as any().
        is_above = rows.amax(-1) != 0
        is_below = rows.amin(-1) != 0
        reached = is_above | is_below
        if reached.all():
            return tensors
        return [rows[reached] for rows in tensors]


def row_moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the biased variance (N,) of rows (N, H)."""
    # torch.var_mean takes twenty times as long on a CPU.
    mean = rows.mean(-1)
    centered = rows - mean[:, None]
    return mean, torch.linalg.vecdot(centered, centered) / rows.shape[-1]


OnCall = Callable[[str, Call], None]


@contextmanager
def record_norm_calls(
    sites: Mapping[str, nn.Module], on_call: OnCall, *, gradients: bool
) -> Iterator[None]:
    """Pass every call of the norms in a block to `on_call(site, call)`.

    The block computes the same numbers as without. `on_call` runs as soon as z is known, or with
    `gradients` when dx is, in the backward pass. dx is only the gradient through the norm: that of
    a residual connection from the same x does not count.
    """
    with ExitStack() as hooks:
        for site, norm in sites.items():
            for hook in _hooks(site, norm, on_call, gradients=gradients):
                hooks.enter_context(hook)
        yield


def _hooks(site: str, norm: nn.Module, on_call: OnCall, *, gradients: bool) -> tuple[Any, Any]:
    """Register the two hooks that pass on the calls of one norm, and return them."""
    calls = []

    def before(norm: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        x = arguments[0]
        call = Call(
            norm,
            x.detach(),
            counted=arguments[1] if len(arguments) > 1 else None,
        )
        calls.append(call)
        if not gradients or not x.requires_grad:
            return None

        def on_gradient(gradient: Tensor) -> None:
            call.dx = gradient.detach()
            on_call(site, call)

        alias = x.view_as(x)  # its gradient is the one through the norm alone
        alias.register_hook(on_gradient)
        return (alias, *arguments[1:])

    def after(norm: nn.Module, arguments: tuple[Any, ...], z: Tensor) -> Tensor | None:
        call = calls.pop()
        call.z = z.detach()
        if not gradients:
            on_call(site, call)
        if not (gradients and z.requires_grad):
            return None
        if z is arguments[0]:
            z = z.view_as(z)  # norm `none`: z's hook must run before x's

        def on_gradient(gradient: Tensor) -> None:
            call.dz = gradient.detach()

        z.register_hook(on_gradient)  # type: ignore[no-untyped-call]
        return z

    return norm.register_forward_pre_hook(before), norm.register_forward_hook(after)


def row_means(step: Step, measure: Callable[[Call], dict[str, Tensor]]) -> tuple[int, Values]:
    """Make the step's update; return its units, and each site's means over rows.

    `measure` returns numbers (N,) for a call's N rows, with gradients of the summed loss of all
    units; means are over all calls in the update. A site that no gradient reaches is left out.
    """
    sums: dict[str, dict[str, Any]] = {site: {} for site in step.sites}
    counts = dict.fromkeys(step.sites, 0)

    def on_call(site: str, call: Call) -> None:
        if call.dz is None:
            return
        for name, numbers in measure(call).items():
            sums[site][name] = sums[site].get(name, 0) + numbers.double().sum()
        counts[site] += len(numbers)

    with record_norm_calls(step.sites, on_call, gradients=True):
        units = step.update().units
    means = {}
    for site, count in counts.items():
        if count:
            means[site] = {name: total.item() / count for name, total in sums[site].items()}
    return units, means
