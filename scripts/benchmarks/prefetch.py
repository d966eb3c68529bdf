"""Updates with and without batches ahead: `python -m scripts.benchmarks.prefetch`.

On a stand-in for a GPU: an update hands over its batch and waits for the device, which sleeps; batches take
time to collate. With batches ahead an update should take the device's time, without them the sum of the two.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from adanorm.training.prefetch import ahead
from scripts.benchmarks.harness import Options, Row, run_benchmark, take_turns

COLLATE, STEP = 0.005, 0.020  # seconds
UPDATES = 50
AHEAD = {"without": 0, "with": 4}


def measure(options: Options) -> Iterator[Row]:
    """Yield a row of the periods with and without batches ahead."""
    sides = {name: lambda count=count: _period(count) for name, count in AHEAD.items()}
    spent = take_turns(sides, options.rounds)
    yield {
        "what": f"collate {1e3 * COLLATE:.0f} ms, step {1e3 * STEP:.0f} ms",
        "unit": "ms an update",
        **{name: round(1e3 * spent.median(name), 2) for name in AHEAD},
        "ratio": spent.ratio("with", "without"),
    }


def _period(count: int) -> float:
    """Return the seconds an update takes."""

    def collated() -> Iterator[int]:
        for number in range(UPDATES):
            time.sleep(COLLATE)
            yield number

    started = time.perf_counter()
    for _ in ahead(collated(), lambda batch: batch, count=count) if count else collated():
        time.sleep(STEP)
    return (time.perf_counter() - started) / UPDATES


if __name__ == "__main__":
    run_benchmark(measure, rounds=5)
