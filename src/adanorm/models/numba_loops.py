"""The loops of `Dropout` and `sum_rows`, over arrays of float32."""

from typing import Any

import numpy as np

from adanorm.norms.kernels.compiling import cached_njit

Rows = np.ndarray[tuple[int, int], np.dtype[np.float32]]
Places = np.ndarray[tuple[int, int], np.dtype[np.int64]]


@cached_njit
def splitmix64(key: Any, number: Any) -> Any:
    """Return the 64 bits of a number in splitmix64's sequence from a key (Steele, Lea & Flood 2014)."""
    z = key + number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@cached_njit
def drop(x: Any, y: Any, threshold: int, scale: Any, key: int) -> None:
    """Write mask * x * scale (N,) into y; an element stays with probability 1 - threshold / WHOLE.

    Its number in the sequence that starts at the key decides: those of random keys of 64 bits do not meet.
    """
    for i in range(len(x)):
        drawn = splitmix64(np.uint64(key), np.uint64(i)) >> np.uint64(32)
        y[i] = x[i] * scale if drawn >= np.uint64(threshold) else np.float32(0)


@cached_njit
def add_up(rows: Rows, places: Places, sums: Rows) -> None:
    """Write sum_f rows[places[b, f]] into sums (B, H)."""
    for b in range(len(places)):
        total = sums[b]
        total[:] = rows[places[b, 0]]
        for f in range(1, places.shape[1]):
            row = rows[places[b, f]]
            for h in range(len(row)):
                total[h] += row[h]


@cached_njit
def spread(d_rows: Rows, places: Places, d_sums: Rows) -> None:
    """Add d_sums[b] to d_rows[places[b, f]] for each b and f."""
    for b in range(len(places)):
        grad = d_sums[b]
        for f in range(places.shape[1]):
            row = d_rows[places[b, f]]
            for h in range(len(row)):
                row[h] += grad[h]
