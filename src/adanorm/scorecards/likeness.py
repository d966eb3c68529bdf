"""Which norms compute the same: outputs, gradients and what learning makes of them, on the same tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from adanorm.config.sections import NormConfig
from adanorm.norms import MakeNorm, norm_factory

B, T, H = 6, 5, 48
# Of the rows' standard deviations: at the small one an eps shows, in the squares of the large one a bound.
SPREADS = (1.0, 1e-3, 30.0, 1.0)
STEP = 0.1  # of a parameter along its gradient, after which a norm with a gain is none without
TOLERANCE = 1e-9  # in units of the largest output


def computed_alike(norm: NormConfig, others: Mapping[str, NormConfig]) -> list[str]:
    """Return the names of the others that compute what a norm does, to rounding; its own may be among them.

    Those that live in a layer's weights do nothing at their site: they are like no other here.
    """
    own = _behavior(norm)
    alike = []
    for name, other in others.items():
        beside = _behavior(other)
        if own and len(own) == len(beside) and all(map(_is_close, own, beside)):
            alike.append(name)
    return alike


def _is_close(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape:
        return False
    largest = float(first.abs().max()) if first.numel() else 0.0
    return torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE * largest)


def _behavior(norm: NormConfig) -> list[Tensor]:
    """Return outputs (B, T, H) and gradients of a few steps of learning; nothing of a norm in a layer."""
    make_norm = norm_factory(norm.model_copy(update={"backend": "eager"}))
    return [] if make_norm.trial.lives_in_layer else _steps(make_norm)


def _steps(make_norm: MakeNorm) -> list[Tensor]:
    module = make_norm(H, site="likeness").double().train()
    random = torch.Generator().manual_seed(0)
    weights = torch.cos(torch.arange(B * T * H, dtype=torch.float64)).view(B, T, H)
    seen: list[Tensor] = []
    for step, spread in enumerate(SPREADS):
        x = spread * torch.randn(B, T, H, generator=random, dtype=torch.float64)
        x = (x + spread * torch.randn(B, T, 1, generator=random, dtype=torch.float64)).requires_grad_()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(step)  # a norm that draws noise draws the same
            z = module(x)
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        dx, *gradients = torch.autograd.grad((weights * z).sum(), [x, *parameters])
        seen += [z.detach(), dx]
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.sub_(gradient, alpha=STEP)
    with torch.no_grad():
        seen.append(module.eval()(x.detach()))
    return seen
