"""What a norm costs beside torch's LayerNorm: `python -m scripts.benchmarks.norms`.

Ours, LayerNorm with gain and bias, the eager backend where there is one and, for the paper's norms, the
authors' formulation take turns on the same tensors, forward and backward. Norms over positions see 4
examples. WeightNorm costs nothing at its site and is not measured. As many threads as torch has; set
OMP_NUM_THREADS for other numbers.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.norms import NORMS, LayerNorm, NormChoice, backends, norm_factory
from adanorm.records.environment import describe
from scripts.benchmarks import results
from scripts.benchmarks.device_time import prepared, saved_bytes, seconds
from scripts.benchmarks.memory import added_peak_mb
from scripts.benchmarks.norms_figure import draw

ROUNDS = 21
CASES = {  # what the tasks have: translation, RT, a wide encoder; on a GPU long batches
    "cpu": [(4096, 512, torch.float32), (4096, 128, torch.float32), (3500, 1024, torch.float32)],
    "cuda": [(16384, 512, torch.bfloat16), (8192, 4096, torch.bfloat16), (16384, 512, torch.float32)],
}
SIDES = ("ours", "layernorm", "eager", "authors", "copy")


Case = tuple[str, int, int, torch.dtype, torch.device]


def main() -> None:
    """Print the table, and write results/bench/norms.csv and norms.svg."""
    names = [name for name in NORMS if name not in ("none", "layernorm", "weightnorm")]
    rows = []
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        cases = [(name, *shape, torch.device(device)) for shape in CASES[device] for name in names]
        for case, peaks in zip(cases, _peaks(cases), strict=True):
            rows.append({**measured(*case), **peaks})
            print(_line(rows[-1]), flush=True)
    results.write("norms", rows, threads=torch.get_num_threads())
    draw(rows)


def _peaks(cases: list[Case]) -> list[dict[str, float]]:
    """Return the peak memory of forward and backward by side, in a process that hands memory back."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(_peak, cases)


def _peak(case: Case) -> dict[str, float]:
    name, rows, features, dtype, device = case
    works = _works(name, torch.randn(rows, features, dtype=dtype, device=device, requires_grad=True))
    return {
        f"{side}_peak_mb": round(_added(works[side, "both"], device), 1)
        for side in SIDES[:4]
        if (side, "both") in works
    }


def _added(work: Callable[[], Any], device: torch.device) -> float:
    if device.type == "cpu":
        return added_peak_mb(work)
    work()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def measured(name: str, rows: int, features: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Return the row of one norm for x (rows, features): times in microseconds, ratios ours : other."""
    x = torch.randn(rows, features, device=device, dtype=dtype, requires_grad=True)
    works = _works(name, x)
    times = {work: [] for work in works}  # type: dict[tuple[str, str], list[float]]
    runs = {work: prepared(function, device) for work, function in works.items()}
    for round_ in range(ROUNDS + 2):
        for work, run in runs.items():
            spent = seconds(run, device)
            if round_ > 1:  # the first ones warm up
                times[work].append(spent)
    both = {side: spent for (side, part), spent in times.items() if part == "both"}
    forward, total = median(times["ours", "forward"]), median(both["ours"])
    ratios = {side: [a / b for a, b in zip(both["ours"], spent, strict=True)] for side, spent in both.items()}
    # x, z and dz, dx are read or written once, x twice; the copy reads and writes one of them.
    moved = 4 if name == "detachnorm" else 5
    saved = {side: saved_bytes(work) // rows for (side, part), work in works.items() if part == "forward"}
    return {
        "norm": name,
        "rows": rows,
        "features": features,
        "dtype": str(dtype).removeprefix("torch."),
        "device": describe(device=device, precision="", processes=1, threads=1)["device"],
        "computed_by": backends.describe("auto", device.type),
        "forward_us": round(1e6 * forward, 1),
        "backward_us": round(1e6 * (total - forward), 1),
        "both_us": round(1e6 * total, 1),
        "to_layernorm": round(median(ratios["layernorm"]), 3),
        "lowest": round(min(ratios["layernorm"]), 3),
        "highest": round(max(ratios["layernorm"]), 3),
        **{f"to_{side}": round(median(ratios[side]), 3) for side in ("eager", "authors") if side in ratios},
        "of_copy_bandwidth": round(moved / 2 / median(ratios["copy"]), 3),
        **{f"{side}_saved_bytes_a_row": count for side, count in saved.items()},
        "threads": torch.get_num_threads(),
        "rounds": ROUNDS,
        "load": round(os.getloadavg()[0], 1),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _works(name: str, x: Tensor) -> dict[tuple[str, str], Callable[[], Any]]:
    """Return what is timed, by side and part."""
    features = x.shape[-1]
    ours: Any = norm_factory(NormChoice(name))(features, site="bench").to(x)
    if ours.depends_on_positions:
        x = x.detach().view(4, -1, features).requires_grad_()
    dz = torch.randn_like(x)
    sides: dict[str, Callable[[Tensor], Tensor]] = {"ours": ours, "layernorm": LayerNorm(features).to(x)}
    if hasattr(ours, "backend"):
        sides["eager"] = norm_factory(NormChoice(name, backend="eager"))(features, site="bench").to(x)
    if ours.reference(x) is not None:
        authors: Any = norm_factory(NormChoice(name, numerics="released"))(features, site="bench")
        sides["authors"] = authors.reference
    works: dict[tuple[str, str], Callable[[], Any]] = {}
    for side, norm in sides.items():
        weights = list(norm.parameters()) if isinstance(norm, nn.Module) else []

        def both(norm: Callable[[Tensor], Tensor] = norm, leaves: list[Tensor] = [x, *weights]) -> None:  # noqa: B006
            torch.autograd.grad(norm(x), leaves, dz)

        works[side, "forward"] = lambda norm=norm: norm(x)  # type: ignore[misc]
        works[side, "both"] = both
    z = torch.empty_like(x, requires_grad=False)
    works["copy", "both"] = lambda: z.copy_(x.detach())
    return works


def _line(row: dict[str, Any]) -> str:
    others = ": eager {to_eager:.2f}; " if "to_eager" in row else ""
    others += ": authors' {to_authors:.2f}; " if "to_authors" in row else ""
    return (
        "{norm:<17}({rows}, {features}) {dtype:<9}{both_us:>8.0f} us ({forward_us:.0f} + {backward_us:.0f});"
        " : LayerNorm {to_layernorm:.2f} ({lowest:.2f} to {highest:.2f}); "
        + others
        + "{of_copy_bandwidth:.2f} of copy bandwidth;"
        " saved {ours_saved_bytes_a_row} B a row against {layernorm_saved_bytes_a_row},"
        " peak {ours_peak_mb} MB against {layernorm_peak_mb}"
    ).format(**row)


if __name__ == "__main__":
    main()
