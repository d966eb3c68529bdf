"""An LSTM or GRU layer with norms against the same without: `python -m scripts.benchmarks.recurrent`.

Forward and backward pass of a layer over some steps, all sides taking turns in one process: our loop under
every norm defined there, torch's cell in a plain Python loop, and torch's fused layer. As many threads as
torch takes; on CUDA too where there is such a device. The ratio is of speeds, side : our loop without norms.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from adanorm.config.compose import compose_experiment
from adanorm.models.norm_sites import PlacedNorms, why_unsupported
from adanorm.models.recurrent import LAYERS
from adanorm.norms import NORMS, NormChoice, norm_factory
from adanorm.records.environment import describe
from scripts.benchmarks.harness import Options, Row, run_benchmark, take_turns, timed

SIZES = [(16, 128, 64), (16, 256, 64), (32, 1024, 4)]  # streams, features, steps
FUSED: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
CELLS: dict[str, type[nn.LSTMCell | nn.GRUCell]] = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}


def measure(options: Options) -> Iterator[Row]:
    """Yield a row for each device, cell, size and side."""
    for name in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for cell in LAYERS:
            for sizes in SIZES:
                yield from _compared(cell, *sizes, torch.device(name), options.rounds)


def _compared(
    cell: str, streams: int, features: int, steps: int, device: torch.device, rounds: int
) -> Iterator[Row]:
    torch.manual_seed(0)
    x = torch.randn(steps, streams, features, device=device, requires_grad=True)
    layers = {side: layer.to(device) for side, layer in _sides(cell, features).items()}
    passes = {
        side: timed(lambda layer=layer: _pass(layer, x), cuda=device.type == "cuda")  # type: ignore[misc]
        for side, layer in layers.items()
    }
    found = take_turns(passes, rounds, warm_up=2)
    for side in layers:
        yield {
            "cell": cell,
            "streams": streams,
            "features": features,
            "device": describe(device=device, precision="", processes=1, threads=1)["device"],
            "side": side,
            "step_us": round(1e6 * found.median(side) / steps, 1),
            "throughput_to_none": found.ratio("none", side),
        }


def _pass(layer: nn.Module, x: Tensor) -> None:
    outputs = layer(x)
    total = (outputs[0] if isinstance(outputs, tuple) else outputs).sum()
    torch.autograd.grad(total, [x, *layer.parameters()])


def _sides(cell: str, features: int) -> dict[str, nn.Module]:
    ours: dict[str, nn.Module] = {norm: OurLayer(cell, norm, features) for norm in _norms(cell)}
    return {
        **ours,
        "torch, cell by cell": PlainLoop(CELLS[cell](features, features)),
        "torch, fused": FUSED[cell](features, features),
    }


def _norms(cell: str) -> list[str]:
    """Return the norms that are defined in a layer, none before the others."""
    runs = [compose_experiment([f"task=enwik8-{cell}", f"norm={name}"]) for name in NORMS]
    trials = {run.norm.name: (norm_factory(run.norm).trial, run.model.sites()) for run in runs}
    return [name for name, (trial, sites) in trials.items() if why_unsupported(trial, sites) is None]


class OurLayer(nn.Module):
    """A layer of ours under a norm, from a state of zeros."""

    def __init__(self, cell: str, norm: str, features: int) -> None:
        super().__init__()
        self.layer = LAYERS[cell](
            PlacedNorms(norm_factory(NormChoice(norm)), "all"), "layer", inputs=features, dim=features
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (T, B, H) of inputs (T, B, H)."""
        outputs, _ = self.layer(x, (x.new_zeros(x.shape[1:]),) * self.layer.STATES)
        assert isinstance(outputs, Tensor)
        return outputs


class PlainLoop(nn.Module):
    """torch's cell, called step by step."""

    def __init__(self, cell: nn.LSTMCell | nn.GRUCell) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (T, B, H) of inputs (T, B, H)."""
        outputs, state = [], None
        for given in x.unbind():
            state = self.cell(given, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs)


if __name__ == "__main__":
    run_benchmark(measure, rounds=11, threads=None)
