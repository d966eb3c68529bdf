"""Internal covariate shift as Santurkar et al. 2018 measure it (section 2.2, definition 2.1).

It is the change of a layer's gradient when the layers before it are updated first. G_i is the
gradient of the loss with respect to the parameters of layer i before an update. G'_i is the
gradient on the same batch after the layers before i are updated, but not layer i and the layers
after it.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from adanorm.analyses.step import Step, Values, difference, l2_norm


def observe(step: Step) -> Values:
    """Return |G - G'| (shift), |G - G'| / |G| (relative) and cos(G, G') (cosine) of each layer.

    A layer is a module with parameters of its own, in the order of the forward pass. The first is
    left out: nothing before it can shift. Norms are updated in this order too, but are not
    measured, so that all norms are compared over the same layers. The update is the optimizer's
    own.
    """
    with calls(step.model) as called:
        before, gradient = step.update_and_gradient()
    after = step.weights()
    values = {}
    with step.preserved_state():
        step.set_parameters(before)
        has_shifted = False
        for layer, names in layers(step.model, called).items():
            reached = [name for name in names if name in gradient]
            if has_shifted and reached and layer not in step.sites:
                _, shifted = step.loss_and_gradient(names=reached)
                values[layer] = change({name: gradient[name] for name in reached}, shifted)
            step.set_parameters({name: after[name] for name in names})
            for name in names:
                has_shifted |= not torch.equal(before[name], after[name])
    return values


def change(gradient: Mapping[str, Tensor], shifted: Mapping[str, Tensor]) -> dict[str, float]:
    """Return |G - G'|, its ratio to |G|, and the cosine of G and G'; NaN where a divisor is 0."""
    shift = l2_norm(difference(gradient, shifted))
    size = l2_norm(gradient)
    shifted_size = l2_norm(shifted)
    product = 0.0
    for name, tensor in gradient.items():
        product += (tensor.double() * shifted[name].double()).sum().item()
    sizes = size * shifted_size
    return {
        "shift": shift,
        "relative": shift / size if size else math.nan,
        "cosine": product / sizes if sizes else math.nan,
    }


@contextmanager
def calls(model: nn.Module) -> Iterator[Iterable[str]]:
    """Collect the names of the modules called in a block, in the order of their first calls."""
    names = {module: name for name, module in model.named_modules()}
    called: dict[str, None] = {}

    def on_call(module: nn.Module, _: object) -> None:
        if module in names:
            called.setdefault(names[module])

    with register_module_forward_pre_hook(on_call):
        yield called


def layers(model: nn.Module, called: Iterable[str]) -> dict[str, list[str]]:
    """Return the parameter names of each layer, in the order in which the layers are called.

    Parameters of a module that is never called, as in torch's attention, belong to the module
    around it.
    """
    names: dict[str, list[str]] = {name: [] for name in ("", *called)}
    for name, _ in model.named_parameters():
        owner = name.rpartition(".")[0]
        while owner not in names:
            owner = owner.rpartition(".")[0]
        names[owner].append(name)
    return {layer: parameters for layer, parameters in names.items() if parameters}
