"""What is seen of a norm before any score: what it computes, what it is blind to, and what it costs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adanorm.analyses.observers.invariance import differences
from adanorm.analyses.spec import load_analysis
from adanorm.config.compose import UNTUNED, compose_experiment
from adanorm.config.sections import NormConfig
from adanorm.norms import NORMS, norm_factory
from adanorm.records.environment import describe
from adanorm.runs.setup import choose_device
from adanorm.scorecards.cost import SHAPES, Cost, costs_at

B, T, H = 6, 5, 48
# Standard deviations of the rows: the small one shows an eps, the squares of the large one show a bound.
SPREADS = (1.0, 1e-3, 30.0, 1.0)
STEP = 0.1  # of a parameter along its gradient: after it a norm with a gain differs from one without
TOLERANCE = 1e-9  # in units of the largest output


class Observed(NamedTuple):
    """What is seen of a norm before any score."""

    alike: Sequence[str]  # the norms that compute the same
    changes: Mapping[str, Mapping[str, float]]  # by change and norm: the output's move over its own size
    tolerance: float  # up to which the output does not move
    costs: Sequence[Cost]
    environment: Mapping[str, Any]  # of this machine


def norm_configs(norms: Sequence[str]) -> dict[str, NormConfig]:
    """Return the settings of norms as they come, by the names given."""
    return {norm: compose_experiment([UNTUNED, f"norm={norm}"]).norm for norm in norms}


def observe(norm: str, against: Sequence[str]) -> Observed:
    """Return what a norm is seen to be, beside others."""
    run = compose_experiment([UNTUNED, f"norm={norm}"])
    torch.set_num_threads(run.threads)
    chosen, device = norm_configs([norm, *against]), choose_device(run)
    others = {name: config for name, config in (norm_configs([*NORMS]) | chosen).items() if name != norm}
    analysis = load_analysis("invariance")
    moved = {name: differences(config, seed=1, options=analysis.options) for name, config in chosen.items()}
    return Observed(
        alike=computed_alike(chosen[norm], others),
        changes={
            quantity.label: {name: by_change[quantity.name] for name, by_change in moved.items()}
            for quantity in analysis.shown
        },
        tolerance=float(analysis.options["tolerance"]),
        costs=[cost for shape in SHAPES for cost in costs_at(*shape, chosen, device)],
        environment=describe(device=device, precision=run.precision, processes=1, threads=run.threads),
    )


def computed_alike(norm: NormConfig, others: Mapping[str, NormConfig]) -> list[str]:
    """Return which others compute what a norm does, to rounding; none where it is in a layer's weights."""
    own = _behavior(norm)
    return [name for name, other in others.items() if own and _is_close(own, _behavior(other))]


def _is_close(own: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(own) == len(other) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * float(a.abs().max()))
        for a, b in zip(own, other, strict=True)
    )


def _behavior(norm: NormConfig) -> list[Tensor]:
    """Return outputs (B, T, H) and gradients of a few steps of learning; nothing of a norm in a layer."""
    make_norm = norm_factory(norm.model_copy(update={"backend": "eager"}))
    if make_norm.trial.lives_in_layer:
        return []
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
