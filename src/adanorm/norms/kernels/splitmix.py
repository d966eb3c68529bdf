"""Random bits by a counter, for kernels: what is drawn depends on no thread and on no order."""

from __future__ import annotations

from typing import Any

import numpy as np

from adanorm.norms.kernels.compiling import compiled

Number = Any  # np.uint64


@compiled
def splitmix64(key: Number, number: Number) -> Number:
    """Return the 64 bits of a number in the sequence of splitmix64 (Steele, Lea & Flood 2014) from a key."""
    z = key + number * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
