"""What a norm costs beside torch's LayerNorm: `python -m scripts.benchmarks.norms`.

Six sides take turns on the same tensors, forward and backward: ours, LayerNorm with gain and bias,
LayerNorm without them (`plain`: most of LayerNorm's time on a GPU is the gain's gradient), the
eager backend where there is one, the authors' formulation of the paper's norms, and a copy. Norms
over positions see 4 examples; PowerNorm is past its first batches. WeightNorm costs nothing at its
site and is not measured. `teams`: CPU thread counts; a GPU is measured too (`devices=cuda`: alone);
`norms=rmsnorm,adanorm` limits the norms. Ratios: seconds, ours : other's (`processor_to_layernorm`:
of all threads); bandwidth, ours : that of the copy, which a cache may serve, and that of a copy too
large for any cache (`of_machine_bandwidth`).
"""

import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.config.errors import whole_number
from adanorm.norms import NORMS, LayerNorm, NormChoice, NormFactory, norm_factory
from adanorm.norms.closed_form import computed_by
from adanorm.runs.memory import kept_bytes
from scripts.benchmarks.harness import (
    Options,
    Row,
    Spread,
    added_peak_mb,
    described,
    fresh_process,
    run_benchmark,
    take_turns,
    timed,
)
from scripts.norm_guide import draw

CASES = {  # shapes of the tasks: translation, RT, a wide encoder; long batches on a GPU
    "cpu": [(4096, 512, torch.float32), (4096, 128, torch.float32), (3500, 1024, torch.float32)],
    "cuda": [
        (16384, 512, torch.bfloat16),
        (8192, 4096, torch.bfloat16),
        (16384, 512, torch.float32),
    ],
}
LARGE = {"cpu": 2**28, "cuda": 2**32}  # bytes that no cache holds
MEASURED = [name for name in NORMS if name not in ("none", "layernorm", "weightnorm")]
DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
PARAMS = {"powernorm": {"warmup": 0}}
Case = tuple[str, int, int, torch.dtype, torch.device]
Work = Callable[[], Any]


def measure(options: Options) -> Iterator[Row]:
    """Yield one row per device, number of threads, shape and norm."""
    names, devices = options.keys["norms"].split(","), options.keys["devices"].split(",")
    for key, values, choices in (("norms", names, MEASURED), ("devices", devices, DEVICES)):
        if unknown := [name for name in values if name not in choices]:
            raise ValueError(f"{key}={unknown[0]}: choose from {', '.join(choices)}")
    teams = [whole_number("teams", count) for count in options.keys["teams"].split(",")]
    # The number of CPU threads does not matter to a GPU, so one is enough.
    pairs = [
        (device, count) for device in devices for count in (teams if device == "cpu" else teams[:1])
    ]
    for device, threads in pairs:
        torch.set_num_threads(threads)
        cases = [(name, *shape, torch.device(device)) for shape in CASES[device] for name in names]
        # Peaks are measured in one process, which returns freed memory to the system.
        peaks = fresh_process(_peaks, cases, environment={"MALLOC_MMAP_THRESHOLD_": "65536"})
        for case, added in zip(cases, peaks, strict=True):
            yield {**_compared(case, options.rounds), **added, "threads": threads}


def _peaks(cases: list[Case]) -> list[dict[str, float]]:
    """Return, for each case, the peak memory of forward and backward by side, in MB."""
    return [
        {
            f"{side}_peak_mb": round(_added(work, case[-1]), 1)
            for (side, part), work in _works(*case).items()
            if part == "both" and side != "copy"
        }
        for case in cases
    ]


def _added(work: Work, device: torch.device) -> float:
    if device.type == "cpu":
        return added_peak_mb(work)
    work()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _compared(case: Case, rounds: int) -> Row:
    """Return the row of one norm for x (rows, features): times in microseconds, ratios ours : other."""
    (name, rows, features, dtype, device), works = case, _works(*case)
    times = take_turns({key: _side(work, device) for key, work in works.items()}, rounds, warm_up=2)
    processor = take_turns(
        {
            side: timed(works[side, "both"], clock=time.process_time)
            for side in ("ours", "layernorm")
        },
        rounds,
    )
    forward, both = times.median(("ours", "forward")), times.median(("ours", "both"))
    sides = [side for side, part in works if part == "both"]
    ratios = {side: times.ratio(("ours", "both"), (side, "both")) for side in sides}
    # z, dz and dx are written or read once, x twice; the copy reads one tensor and writes one.
    moved = 4 if name == "detachnorm" else 5
    pairs = zip(times.spent["copy", "both"], times.spent["ours", "both"], strict=True)
    bandwidths = [moved / 2 * copy / ours for copy, ours in pairs]
    moved_bytes = moved * rows * features * dtype.itemsize
    saved = {
        side: kept_bytes(work) // rows for (side, part), work in works.items() if part == "forward"
    }
    about = {
        "norm": name,
        "rows": rows,
        "features": features,
        "dtype": str(dtype).removeprefix("torch."),
    }
    return about | {
        "device": described(device)["device"],
        "computed_by": computed_by(_factory(name).trial, "auto", device.type),
        "forward_us": round(1e6 * forward, 1),
        "backward_us": round(1e6 * (both - forward), 1),
        "both_us": round(1e6 * both, 1),
        **{
            f"to_{side}": ratios[side]
            for side in ("layernorm", "plain", "eager", "authors")
            if side in ratios
        },
        "processor_to_layernorm": processor.ratio("ours", "layernorm"),
        "of_copy_bandwidth": Spread.of(bandwidths),
        "of_machine_bandwidth": round(moved_bytes / both / _bandwidth(device), 3),
        **{f"{side}_saved_bytes_a_row": count for side, count in saved.items()},
    }


def _side(work: Work, device: torch.device) -> Callable[[], float]:
    """Return a side of `take_turns`; on CUDA it replays a graph of the work with a cold cache.

    In training a busy GPU hides the cost of launching, but short work timed alone would show little
    else.
    """
    if device.type == "cpu":
        return timed(work)
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()

    def replayed() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        _flood(device).zero_()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return replayed


@cache
def _bandwidth(device: torch.device) -> float:
    """Return the bytes per second, read and written, of a copy too large for any cache."""
    source = torch.empty(LARGE[device.type], dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    copy = _side(lambda: target.copy_(source), device)
    seconds = min(copy() for _ in range(9))
    return 2 * source.nbytes / seconds


@cache
def _flood(device: torch.device) -> Tensor:
    """Return a tensor larger than a GPU's caches: writing it leaves them cold."""
    return torch.empty(1 << 28, dtype=torch.int8, device=device)


def _works(
    name: str, rows: int, features: int, dtype: torch.dtype, device: torch.device
) -> dict[tuple[str, str], Work]:
    """Return the functions to time, by side (ours, layernorm, ..., copy) and part (forward, both)."""
    x = torch.randn(rows, features, dtype=dtype, device=device, requires_grad=True)
    ours: Any = _factory(name)(features, site="bench").to(x)
    if ours.depends_on_positions:
        x = x.detach().view(4, -1, features).requires_grad_()
    dz = torch.randn_like(x)
    sides: dict[str, Callable[[Tensor], Tensor]] = {
        "ours": ours,
        "layernorm": LayerNorm(features).to(x),
        "plain": nn.LayerNorm(features, elementwise_affine=False),
    }
    if hasattr(ours, "backend"):
        sides["eager"] = _factory(name, backend="eager")(features, site="bench").to(x)
    if ours.reference(x) is not None:
        authors: Any = _factory(name, numerics="released")(features, site="bench")
        sides["authors"] = authors.reference
    works: dict[tuple[str, str], Work] = {}
    for side, norm in sides.items():
        leaves = [x, *(norm.parameters() if isinstance(norm, nn.Module) else ())]
        works[side, "forward"] = partial(norm, x)
        works[side, "both"] = partial(_forward_and_backward, norm, leaves, dz)
    z = torch.empty_like(x, requires_grad=False)
    works["copy", "both"] = lambda: z.copy_(x.detach())
    return works


def _forward_and_backward(
    norm: Callable[[Tensor], Tensor], leaves: list[Tensor], dz: Tensor
) -> None:
    torch.autograd.grad(norm(leaves[0]), leaves, dz)


def _factory(name: str, **choices: str) -> NormFactory:
    return norm_factory(NormChoice(name, PARAMS.get(name, {}), **choices))


def as_line(row: Row) -> str:
    """Return a row as the line that is printed."""
    sides = [side for side in ("eager", "authors") if f"to_{side}" in row]
    parts = [
        "{norm:<17}({rows}, {features}) {dtype:<9} threads {threads}",
        "{both_us:.0f} us ({forward_us:.0f} + {backward_us:.0f})",
        "to LayerNorm {to_layernorm}, of processor time {processor_to_layernorm.median:.2f}",
        "to LayerNorm without gain and bias {to_plain.median:.2f}",
        *(f"to {side} {{to_{side}.median:.2f}}" for side in sides),
        "of copy bandwidth {of_copy_bandwidth.median:.2f}, of the machine's {of_machine_bandwidth:.2f}",
        "saved {ours_saved_bytes_a_row} B a row against {layernorm_saved_bytes_a_row}",
        "peak {ours_peak_mb} MB against {layernorm_peak_mb}",
    ]
    return "; ".join(parts).format(**row)


if __name__ == "__main__":
    keys = {"teams": "1,2", "devices": ",".join(DEVICES), "norms": ",".join(MEASURED)}
    draw(run_benchmark(measure, rounds=21, threads=None, keys=keys, as_line=as_line))
