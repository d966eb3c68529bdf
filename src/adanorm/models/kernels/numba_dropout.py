"""The loop of `dropout`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numba.np.numpy_support import carray

from adanorm.norms.kernels.compiling import Kernel, compiled, entry
from adanorm.norms.kernels.splitmix import splitmix64

Pointer = Any  # to float32


@cache
def kernel() -> Kernel:
    """Return what fills y with mask * x * scale, of addresses."""
    return entry(_drop_at, "ippini", torch.float32)


def _drop_at(count: int, x: Pointer, y: Pointer, threshold: int, scale: float, key: int) -> None:
    of_x, of_y = carray(x, count), carray(y, count)
    for i in range(count):
        of_y[i] = of_x[i] * scale if _kept(key, i, threshold) else np.float32(0)


@compiled
def _kept(key: int, element: int, threshold: int) -> bool:
    """Return whether an element stays, with probability 1 - threshold / WHOLE.

    Its number in the sequence that starts at the key decides: those of random keys of 64 bits do not meet.
    """
    drawn = splitmix64(np.uint64(key), np.uint64(element))
    return bool((drawn >> np.uint64(32)) >= np.uint64(threshold))
