"""An LSTM or GRU layer with norms against the same without: `python -m scripts.benchmarks.recurrent`.

Forward and backward pass of a layer over some steps, all sides taking turns in one process: our loop under
every norm defined there, torch's cell in a plain Python loop, and torch's fused layer.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.config.compose import compose_experiment
from adanorm.models.norm_compatibility import why_undefined
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.recurrent import LAYERS
from adanorm.norms import NORMS, NormChoice, norm_factory
from adanorm.records.environment import describe
from scripts.benchmarks import results

ROUNDS = 11
SIZES = [(16, 128, 64), (16, 256, 64), (32, 1024, 4)]  # streams, features, steps
FUSED: dict[str, type[nn.LSTM | nn.GRU]] = {"lstm": nn.LSTM, "gru": nn.GRU}
CELLS: dict[str, type[nn.LSTMCell | nn.GRUCell]] = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}


def main() -> None:
    """Print speeds as ratios to our loop without norms, and write results/bench/recurrent.csv."""
    rows = []
    for name in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        for cell in LAYERS:
            for sizes in SIZES:
                rows += _compared(cell, *sizes, torch.device(name))
    results.write("recurrent", rows, threads=torch.get_num_threads())


def _compared(
    cell: str, streams: int, features: int, steps: int, device: torch.device
) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    sides = {side: layer.to(device) for side, layer in _sides(cell, features).items()}
    x = torch.randn(steps, streams, features, device=device, requires_grad=True)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for round_ in range(ROUNDS + 2):
        for side, layer in sides.items():
            spent = _timed(layer, x)
            if round_ > 1:  # the first ones warm up
                seconds[side].append(spent)
    place = {
        "cell": cell,
        "streams": streams,
        "features": features,
        "device": describe(device=device, precision="", processes=1, threads=1)["device"],
    }
    rows = []
    for side, times in seconds.items():
        ratios = [base / own for base, own in zip(seconds["none"], times, strict=True)]
        rows.append(
            {
                **place,
                "side": side,
                "step_us": round(1e6 * median(times) / steps, 1),
                "throughput_to_none": round(median(ratios), 3),
                "lowest": round(min(ratios), 3),
                "highest": round(max(ratios), 3),
                "rounds": ROUNDS,
                "threads": torch.get_num_threads(),
                "load": round(os.getloadavg()[0], 1),
            }
        )
        print(
            "{cell:<5}({streams}, {features}) {side:<18}{step_us:>9.1f} us a step; {throughput_to_none:.2f}"
            " of the speed without norms ({lowest:.2f} to {highest:.2f})".format(**rows[-1]),
            flush=True,
        )
    return rows


def _sides(cell: str, features: int) -> dict[str, nn.Module]:
    ours: dict[str, nn.Module] = {norm: OurLayer(cell, norm, features) for norm in _norms(cell)}
    return {
        **ours,
        "torch, cell by cell": PlainLoop(CELLS[cell](features, features)),
        "torch, fused": FusedLayer(FUSED[cell](features, features)),
    }


def _norms(cell: str) -> list[str]:
    """Return the norms that are defined in a layer, none before the others."""
    runs = [compose_experiment([f"task=enwik8-{cell}", f"norm={name}"]) for name in NORMS]
    return [
        run.norm.name
        for run in runs
        if why_undefined(norm_factory(run.norm).trial, run.model.model_dump()) is None
    ]


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


class FusedLayer(nn.Module):
    """torch's layer: the loop in its compiled code."""

    def __init__(self, layer: nn.LSTM | nn.GRU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (T, B, H) of inputs (T, B, H)."""
        outputs: Tensor = self.layer(x)[0]
        return outputs


def _timed(layer: nn.Module, x: Tensor) -> float:
    """Return the seconds of a forward and backward pass."""
    leaves = [x, *layer.parameters()]
    _wait(x.device)
    started = time.perf_counter()
    torch.autograd.grad(layer(x).sum(), leaves)
    _wait(x.device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
