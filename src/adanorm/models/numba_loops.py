"""The loops of `dropout` and `sum_rows`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba.np.numpy_support import carray

from adanorm.norms.kernels.compiling import Kernel, compiled, entry

Pointer = Any  # to float32


@cache
def drop_loop() -> Kernel:
    """Return what fills y with mask * x * scale, of addresses."""
    return entry(_drop_at, "ippini")


def _drop_at(count: int, x: Pointer, y: Pointer, threshold: int, scale: float, key: int) -> None:
    of_x, of_y = carray(x, count), carray(y, count)
    for i in range(count):
        of_y[i] = of_x[i] * scale if _kept(key, i, threshold) else np.float32(0)


@compiled
def splitmix64(key: Any, number: Any) -> Any:
    """Return the 64 bits of a number in the sequence of splitmix64 (Steele, Lea & Flood 2014) from a key.

    What is drawn then depends on no thread and on no order.
    """
    z = key + number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _kept(key: int, element: int, threshold: int) -> bool:
    """Return whether an element stays, with probability 1 - threshold / WHOLE.

    Its number in the sequence that starts at the key decides: those of random keys of 64 bits do not meet.
    """
    drawn = splitmix64(np.uint64(key), np.uint64(element))
    return bool((drawn >> np.uint64(32)) >= np.uint64(threshold))


@cache
def sum_loop(function: Kernel) -> Kernel:
    """Return one of the loops below as a C function of four sizes and three addresses."""
    return entry(function, "iiiiplp")


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
