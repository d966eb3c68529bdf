"""Internal covariate shift as Santurkar et al. 2018 measure it (section 2.2, definition 2.1).

It is what a layer's gradient becomes when the layers before it are updated first. G_i is the gradient of
the loss with respect to the parameters of layer i before an update; G'_i is that of the same batch with
the layers before i already updated, layer i and those after it not yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from adanorm.analyses.step import Step, Values, difference, l2_norm


def observe(step: Step) -> Values:
    """Return of each layer but the first |G - G'| as `shift`, by |G| as `relative`, and their `cosine`.

    A layer is a module with parameters of its own, in the order of the forward pass. Norms take their place
    in that order and are updated in their turn, but are not measured: every norm is compared
    over the same layers. The update is the optimizer's own. A layer costs a forward pass and that part of a
    backward pass which is behind it; the first costs none and is left out, as nothing before it can shift.
    """
    with calls(step.model) as called:
        before, gradient = step.update_and_gradient()
    after = {name: parameter.detach().clone() for name, parameter in step.model.named_parameters()}
    found: Values = {}
    with step.preserved_state():
        step.set_parameters(before)
        shifted = False
        for layer, names in layers(step.model, called).items():
            reached = [name for name in names if name in gradient]
            if shifted and reached and layer not in step.sites:
                _, then = step.loss_and_gradient(of=reached)
                found[layer] = compared({name: gradient[name] for name in reached}, then)
            step.set_parameters({name: after[name] for name in names})
            shifted = shifted or any(not torch.equal(before[name], after[name]) for name in names)
    return found


def compared(gradient: Mapping[str, Tensor], then: Mapping[str, Tensor]) -> dict[str, float]:
    """Return |G - G'|, its ratio to |G|, and the cosine of G and G'; no number where G or G' is zero."""
    shift, own, other = l2_norm(difference(gradient, then)), l2_norm(gradient), l2_norm(then)
    product = sum((gradient[name].double() * then[name].double()).sum().item() for name in gradient)
    return {
        "shift": shift,
        "relative": shift / own if own else float("nan"),
        "cosine": product / (own * other) if own and other else float("nan"),
    }


@contextmanager
def calls(model: nn.Module) -> Iterator[Iterable[str]]:
    """Collect the names of the modules that a block calls, in the order of their first calls."""
    called: dict[str, None] = {}
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            hook = module.register_forward_pre_hook(lambda *_, name=name: called.setdefault(name))
            hooks.enter_context(hook)
        yield called


def layers(model: nn.Module, called: Iterable[str]) -> dict[str, list[str]]:
    """Return the names of the parameters of each layer, the layers in the order of their calls.

    Parameters of a module that is not called itself, as inside torch's attention, are of the one around it.
    """
    order = {name: position for position, name in enumerate(called)}
    found: dict[str, list[str]] = {}
    for name, _ in model.named_parameters():
        owner = name.rpartition(".")[0]
        while owner and owner not in order:
            owner = owner.rpartition(".")[0]
        found.setdefault(owner, []).append(name)
    return {layer: found[layer] for layer in sorted(found, key=lambda layer: order.get(layer, -1))}
