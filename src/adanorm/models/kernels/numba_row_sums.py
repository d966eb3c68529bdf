"""The loops of `sum_rows`, forward and backward."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba.np.numpy_support import carray

from adanorm.norms.kernels.compiling import Kernel, entry

Pointer = Any  # to float32
SIZES = "iiii"  # sums B, rows to a sum F, rows P, features H


@cache
def kernel(function: Kernel) -> Kernel:
    """Return one of the loops below as a C function of sizes and addresses."""
    return entry(function, SIZES + "plp")


def forward_at(
    sums: int, terms: int, count: int, features: int, rows: Pointer, places: Any, out: Pointer
) -> None:
    """Write sum_f rows[places[b, f]] (B, H)."""
    of_rows, of_out = carray(rows, (count, features)), carray(out, (sums, features))
    of_places = carray(places, (sums, terms))
    for b in range(sums):
        of_out[b] = of_rows[of_places[b, 0]]
        for f in range(1, terms):
            row, total = of_rows[of_places[b, f]], of_out[b]
            for h in range(features):
                total[h] += row[h]


def backward_at(
    sums: int, terms: int, count: int, features: int, d_rows: Pointer, places: Any, d_out: Pointer
) -> None:
    """Add d_out[b] to d_rows[places[b, f]] for each b and f."""
    of_rows, of_out = carray(d_rows, (count, features)), carray(d_out, (sums, features))
    of_places = carray(places, (sums, terms))
    for b in range(sums):
        for f in range(terms):
            row, grad = of_rows[of_places[b, f]], of_out[b]
            for h in range(features):
                row[h] += grad[h]
