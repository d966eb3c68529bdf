"""What a norm shows before any score: what it computes, what leaves its output, and its cost."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from adanorm.analyses.observers.invariance import differences
from adanorm.analyses.spec import load_analysis
from adanorm.config.compose import UNTUNED, compose_experiment
from adanorm.config.sections import NormConfig
from adanorm.norms import NORMS, LayerNorm, norm_factory
from adanorm.records.environment import describe
from adanorm.runs.plan import now
from adanorm.runs.setup import choose_device

B, T, H = 6, 5, 48
# Standard deviations of the rows: the small one reveals an eps; the large one, squared, reveals a
# bound.
SPREADS = (1.0, 1e-3, 30.0, 1.0)
STEP = 0.1  # of a parameter along its gradient, so that a norm with a gain differs from one without
TOLERANCE = 1e-9  # in units of the largest output
SHAPES = (
    (4096, 128),
    (1024, 512),
    (1024, 1024),
)  # rows and features of RT, translation, a wide encoder
EXAMPLES = 4  # over which the rows are spread, for norms over positions
ROUNDS, WARM_UP = 11, 1
TURN = 4  # calls in a turn; the fastest counts, because slower ones waited for memory


class Cost(NamedTuple):
    """The cost of a norm at one shape: times as ratios to LayerNorm's, and memory."""

    norm: str
    rows: int
    features: int
    forward: list[float]  # the lower quartile, the median and the upper quartile over rounds
    backward: list[float]
    kept: int  # bytes per row that autograd keeps from the forward to the backward pass
    kept_by_layernorm: int


class Observed(NamedTuple):
    """The observations of a norm before any score."""

    alike: Sequence[str]  # the other norms that compute the same
    changes: Mapping[
        str, Mapping[str, float]
    ]  # by change and norm: the output's move, relative to its size
    tolerance: float  # a move up to this counts as none
    costs: Sequence[Cost]
    environment: Mapping[str, Any]  # of this machine


def norm_configs(norms: Sequence[str]) -> dict[str, NormConfig]:
    """Return the default settings of norms, by the names in `norms`."""
    return {norm: compose_experiment([UNTUNED, f"norm={norm}"]).norm for norm in norms}


def observe(norm: str, against: Sequence[str]) -> Observed:
    """Return the observations of a norm, beside those of the norms in `against`."""
    run = compose_experiment([UNTUNED, f"norm={norm}"])
    torch.set_num_threads(run.threads)
    configs, device = norm_configs([norm, *against]), choose_device(run)
    others = {
        name: config for name, config in (norm_configs([*NORMS]) | configs).items() if name != norm
    }
    analysis = load_analysis("invariance")
    moves = {
        name: differences(
            config,
            seed=1,
            options=analysis.options,
        )
        for name, config in configs.items()
    }
    return Observed(
        alike=computed_alike(configs[norm], others),
        changes={
            quantity.label: {name: by_change[quantity.name] for name, by_change in moves.items()}
            for quantity in analysis.shown
        },
        tolerance=float(analysis.options["tolerance"]),
        costs=[
            cost
            for shape in SHAPES
            for cost in costs_at(
                *shape,
                configs,
                device,
            )
        ],
        environment=describe(
            device=device, precision=run.precision, processes=1, threads=run.threads
        ),
    )


def computed_alike(norm: NormConfig, others: Mapping[str, NormConfig]) -> list[str]:
    """Return the names of `others` that compute the same as a norm, to rounding.

    [] for a norm in a layer.
    """
    own = _behavior(norm)
    return [name for name, other in others.items() if own and _is_close(own, _behavior(other))]


def _is_close(own: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(own) == len(other) and all(
        a.shape == b.shape
        and torch.allclose(
            a,
            b,
            rtol=TOLERANCE,
            atol=TOLERANCE * float(a.abs().max()),
        )
        for a, b in zip(own, other, strict=True)
    )


def _behavior(norm: NormConfig) -> list[Tensor]:
    """Return outputs and input gradients (B, T, H) of a few learning steps.

    [] for a norm in a layer.
    """
    make_norm = norm_factory(norm.choice._replace(backend="eager"))
    if make_norm.trial.lives_in_layer:
        return []
    module = make_norm(H, site="likeness").double().train()
    random = torch.Generator().manual_seed(0)
    weights = torch.cos(torch.arange(B * T * H, dtype=torch.float64)).view(
        B,
        T,
        H,
    )
    tensors: list[Tensor] = []
    for step, spread in enumerate(SPREADS):
        x = spread * torch.randn(
            B,
            T,
            H,
            generator=random,
            dtype=torch.float64,
        )
        x = (
            x
            + spread
            * torch.randn(
                B,
                T,
                1,
                generator=random,
                dtype=torch.float64,
            )
        ).requires_grad_()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(step)  # so that norms that draw noise draw the same
            z = module(x)
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        dx, *gradients = torch.autograd.grad((weights * z).sum(), [x, *parameters])
        tensors += [z.detach(), dx]
        with torch.no_grad():
            for parameter, gradient in zip(
                parameters,
                gradients,
                strict=True,
            ):
                parameter.sub_(gradient, alpha=STEP)
    with torch.no_grad():
        tensors.append(module.eval()(x.detach()))
    return tensors


def costs_at(
    rows: int, features: int, norms: Mapping[str, NormConfig], device: torch.device
) -> list[Cost]:
    """Return the cost of each norm, forward and backward, at one shape."""
    torch.manual_seed(0)
    x = torch.randn(
        EXAMPLES,
        rows // EXAMPLES,
        features,
        device=device,
        requires_grad=True,
    )
    dz = torch.randn_like(x)
    own = [norm_factory(norm.choice)(features, site="cost") for norm in norms.values()]
    modules: list[Any] = [module.to(device) for module in (LayerNorm(features), *own)]
    rounds = range(WARM_UP + ROUNDS)
    seconds = np.array(
        [
            [
                [
                    _timed(
                        norm,
                        x,
                        dz,
                    )
                    for _ in range(TURN)
                ]
                for norm in modules
            ]
            for _ in rounds
        ]
    )
    fastest = seconds[WARM_UP:].min(2)  # (rounds, norms, forward and backward)
    forward, backward = np.quantile(
        fastest / fastest[:, :1],
        [0.25, 0.5, 0.75],
        axis=0,
    ).T.tolist()
    row_bytes = [kept_bytes(partial(module, x)) // rows for module in modules]
    return [
        Cost(
            norm,
            rows,
            features,
            forward[index],
            backward[index],
            row_bytes[index],
            row_bytes[0],
        )
        for index, norm in enumerate(norms, 1)
    ]


def _timed(norm: nn.Module, x: Tensor, dz: Tensor) -> tuple[float, float]:
    """Return the seconds of a forward and a backward pass."""
    leaves = [x, *(parameter for parameter in norm.parameters() if parameter.requires_grad)]
    # On a CPU, processor time leaves out what else runs on this machine.
    clock = partial(now, x.device) if x.device.type == "cuda" else time.process_time
    started = clock()
    z = norm(x)
    between = clock()
    torch.autograd.grad(z, leaves, dz)
    return between - started, clock() - between


def kept_bytes(forward: Callable[[], object]) -> int:
    """Return the bytes that autograd keeps from a forward pass, without parameters."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(sizes.values())
