"""What a fresh process says of itself; apart from the tests, so that it imports little."""

import os

import numpy as np

from scripts.benchmarks.harness import added_peak_mb


def of_itself() -> tuple[int, dict[str, str], float]:
    return os.getpid(), dict(os.environ), added_peak_mb(lambda: np.ones(64 * 2**17))
