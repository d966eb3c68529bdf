"""An LSTM or GRU layer with norms against one without: `python -m scripts.benchmarks.recurrent`.

Forward and backward pass of a layer over some steps; all sides take turns in one process. They are
our loop under every norm defined there, torch's cell in a plain Python loop, and torch's fused
layer. As many threads as torch takes, and also on CUDA where there is a device. The ratio is speed,
side : our loop without norms.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.config.compose import compose_experiment
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.recurrent import LAYERS
from adanorm.norms import NORMS, NormChoice, norm_factory
from scripts.benchmarks.harness import (
    Options,
    Row,
    described,
    run_benchmark,
    take_turns,
    timed,
)

Forward = Callable[[Any, Tensor], Any]
SIZES = [
    (16, 128, 64),
    (16, 256, 64),
    (32, 1024, 4),
]  # streams, features, steps
FUSED: dict[str, type[nn.LSTM | nn.GRU]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
}
CELLS: dict[str, type[nn.LSTMCell | nn.GRUCell]] = {
    "lstm": nn.LSTMCell,
    "gru": nn.GRUCell,
}


def measure(options: Options) -> Iterator[Row]:
    """Yield one row per device, cell, size and side."""
    for name in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for cell in CELLS:
            for sizes in SIZES:
                yield from _compared(cell, *sizes, torch.device(name), options.rounds)


def _compared(
    cell: str,
    streams: int,
    features: int,
    steps: int,
    device: torch.device,
    rounds: int,
) -> Iterator[Row]:
    torch.manual_seed(0)
    x = torch.randn(steps, streams, features, device=device, requires_grad=True)
    passes = {}
    for side, (layer, forward) in _sides(cell, features).items():
        work = partial(_pass, layer.to(device), forward, x)
        passes[side] = timed(work, cuda=device.type == "cuda")
    spent = take_turns(passes, rounds, warm_up=2)
    for side in passes:
        yield {
            "cell": cell,
            "streams": streams,
            "features": features,
            "device": described(device)["device"],
            "side": side,
            "step_us": round(1e6 * spent.median(side) / steps, 1),
            "throughput_to_none": spent.ratio("none", side),
        }


def _pass(layer: nn.Module, forward: Forward, x: Tensor) -> None:
    torch.autograd.grad(forward(layer, x).sum(), [x, *layer.parameters()])


def _sides(cell: str, features: int) -> dict[str, tuple[nn.Module, Forward]]:
    """Return each side's layer and its forward function, from (T, B, H) to (T, B, H)."""
    sides: dict[str, tuple[nn.Module, Forward]] = {}
    for norm in _norms(cell):
        make_norm = PlacedNorms(norm_factory(NormChoice(norm)), "all")
        sides[norm] = (
            LAYERS[cell](make_norm, "layer", inputs=features, dim=features),
            _ours,
        )
    sides["torch, cell by cell"] = (
        CELLS[cell](features, features),
        _step_by_step,
    )
    sides["torch, fused"] = (
        FUSED[cell](features, features),
        lambda layer, x: layer(x)[0],
    )
    return sides


def _norms(cell: str) -> list[str]:
    """Return the norms that are defined in a layer, `none` first."""
    names = []
    for name in NORMS:
        run = compose_experiment([f"task=enwik8-{cell}", f"norm={name}"])
        trial = norm_factory(run.norm.choice).trial
        if run.model.sites().why_unsupported(trial) is None:
            names.append(name)
    return names


def _ours(layer: Any, x: Tensor) -> Any:
    return layer(x, (x.new_zeros(x.shape[1:]),) * layer.STATES)[0]  # from a state of zeros


def _step_by_step(cell: nn.Module, x: Tensor) -> Tensor:
    outputs, state = [], None
    for inputs in x.unbind():
        state = cell(inputs, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    return torch.stack(outputs)


if __name__ == "__main__":
    run_benchmark(measure, rounds=11, threads=None)
