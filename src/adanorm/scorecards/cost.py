"""What norms cost beside LayerNorm on this machine: in rounds that take turns, within one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import quantiles
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adanorm.config.sections import NormConfig
from adanorm.norms import LayerNorm, norm_factory

SHAPES = ((4096, 128), (1024, 512), (1024, 1024))  # what RT, translation and a wide encoder have a batch
EXAMPLES = 4  # that the rows are of, for a norm over positions
ROUNDS, WARM_UP = 11, 1
TURN = 4  # calls in a turn, the fastest of which counts: the others waited for memory
BESIDE = "torch's LayerNorm"


class Cost(NamedTuple):
    """What a norm costs on rows of so many features, as ratios to LayerNorm in the same rounds.

    Each ratio is the lower quartile, the median and the upper quartile over rounds; `kept` are the bytes a
    row that autograd keeps from the forward to the backward pass.
    """

    norm: str
    rows: int
    features: int
    forward: tuple[float, float, float]
    backward: tuple[float, float, float]
    kept: int
    kept_by_layernorm: int


class _Side(NamedTuple):
    norm: nn.Module
    x: Tensor
    dz: Tensor


def costs(norms: Mapping[str, NormConfig], device: torch.device, *, rounds: int = ROUNDS) -> list[Cost]:
    """Return what each norm costs, forward and backward, at each shape."""
    measured = []
    for rows, features in SHAPES:
        torch.manual_seed(0)
        x = torch.randn(EXAMPLES, rows // EXAMPLES, features, device=device)
        modules: dict[str, Any] = {BESIDE: LayerNorm(features)}
        modules |= {name: norm_factory(norm)(features, site="cost") for name, norm in norms.items()}
        sides = {
            name: _Side(module.to(device), x.clone().requires_grad_(), torch.randn_like(x))
            for name, module in modules.items()
        }
        spent = _turns(sides, rounds)
        kept = {name: kept_bytes(partial(side.norm, side.x)) // rows for name, side in sides.items()}
        for name in norms:
            turns = list(zip(spent[name], spent[BESIDE], strict=True))
            forward, backward = (
                _quartiles([own[part] / beside[part] for own, beside in turns]) for part in (0, 1)
            )
            measured.append(Cost(name, rows, features, forward, backward, kept[name], kept[BESIDE]))
    return measured


def _turns(sides: Mapping[str, _Side], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds of forward and backward of each side a round; each goes first in turn."""
    names, spent = list(sides), {name: list[tuple[float, float]]() for name in sides}
    for round_ in range(-WARM_UP, rounds):
        first = round_ % len(names)
        for name in (*names[first:], *names[:first]):
            calls = [_timed(sides[name]) for _ in range(TURN)]
            seconds = min(call[0] for call in calls), min(call[1] for call in calls)
            if round_ >= 0:
                spent[name].append(seconds)
    return spent


def _timed(side: _Side) -> tuple[float, float]:
    leaves = [side.x, *(p for p in side.norm.parameters() if p.requires_grad)]
    started = _now(side.x.device)
    z = side.norm(side.x)
    between = _now(side.x.device)
    torch.autograd.grad(z, leaves, side.dz)
    return between - started, _now(side.x.device) - between


def _now(device: torch.device) -> float:
    if device.type != "cuda":
        return time.process_time()  # what else runs on this machine is not counted
    torch.cuda.synchronize(device)
    return time.perf_counter()


def _quartiles(ratios: list[float]) -> tuple[float, float, float]:
    lower, middle, upper = quantiles(ratios, method="inclusive")
    return lower, middle, upper


def kept_bytes(forward: Callable[[], object]) -> int:
    """Return the bytes that autograd keeps of a forward pass, parameters aside."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(kept.values())
