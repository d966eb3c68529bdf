"""What norms cost beside LayerNorm on this machine: in rounds that take turns, within one run."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from adanorm.config.sections import NormConfig
from adanorm.norms import LayerNorm, norm_factory
from adanorm.runs.plan import now

SHAPES = ((4096, 128), (1024, 512), (1024, 1024))  # rows and features of RT, translation, a wide encoder
EXAMPLES = 4  # which the rows are taken from, for a norm over positions
ROUNDS, WARM_UP = 11, 1
TURN = 4  # calls in a turn; the fastest counts, since the others waited for memory


class Cost(NamedTuple):
    """What a norm costs on rows of so many features, as ratios to LayerNorm in the same rounds."""

    norm: str
    rows: int
    features: int
    forward: list[float]  # the lower quartile, the median and the upper quartile over rounds
    backward: list[float]
    kept: int  # bytes per row that autograd keeps from the forward to the backward pass
    kept_by_layernorm: int


def costs_at(rows: int, features: int, norms: Mapping[str, NormConfig], device: torch.device) -> list[Cost]:
    """Return what each norm costs, forward and backward, at one shape."""
    torch.manual_seed(0)
    x = torch.randn(EXAMPLES, rows // EXAMPLES, features, device=device, requires_grad=True)
    dz = torch.randn_like(x)
    own = [norm_factory(norm)(features, site="cost") for norm in norms.values()]
    modules: list[Any] = [module.to(device) for module in (LayerNorm(features), *own)]
    rounds = range(WARM_UP + ROUNDS)
    seconds = np.array([[[_timed(norm, x, dz) for _ in range(TURN)] for norm in modules] for _ in rounds])
    fastest = seconds[WARM_UP:].min(2)  # of each round, norm, and forward or backward
    ratios = np.quantile(fastest / fastest[:, :1], [0.25, 0.5, 0.75], axis=0)
    kept = [kept_bytes(partial(module, x)) // rows for module in modules]
    forward, backward = ratios.T.tolist()
    return [
        Cost(norm, rows, features, forward[index], backward[index], kept[index], kept[0])
        for index, norm in enumerate(norms, 1)
    ]


def _timed(norm: nn.Module, x: Tensor, dz: Tensor) -> tuple[float, float]:
    """Return the seconds of a forward and of a backward pass."""
    leaves = [x, *(parameter for parameter in norm.parameters() if parameter.requires_grad)]
    started = _now(x.device)
    z = norm(x)
    between = _now(x.device)
    torch.autograd.grad(z, leaves, dz)
    return between - started, _now(x.device) - between


def _now(device: torch.device) -> float:
    # Of the processor, what else runs on this machine is not counted.
    return now(device) if device.type == "cuda" else time.process_time()


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
