"""Two starts on the whole of CRAFT, each in a new process: `python -m scripts.benchmarks.craft`.

A start goes from the configuration to the examples of training and validation. The first reads the
treebank, makes the vocabulary and follows the oracle; the second reads what the first has kept. The
ratio is seconds of processor time, the first start : this one. Memory is the peak of the process.
"""

import tempfile
import time
from collections.abc import Iterator

from adanorm.config.compose import compose_experiment
from adanorm.tasks.parsing import Parsing
from scripts.benchmarks.harness import Options, Row, Spread, fresh_process, peak_mb, run_benchmark


def measure(options: Options) -> Iterator[Row]:
    """Yield one row for the first start and one for the second."""
    first: float | None = None
    with tempfile.TemporaryDirectory() as cache:
        for name in ("first start", "second start"):
            row = fresh_process(_start, cache)
            first = first or row["cpu_seconds"]
            yield {"what": name, **row, "ratio": Spread.of([first / row["cpu_seconds"]])}


def _start(cache: str) -> Row:
    experiment = compose_experiment(["task=ptb", "scale=open", f"data.cache={cache}"])
    started, of_processor = time.perf_counter(), time.process_time()
    examples = Parsing(experiment).examples
    return {
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - of_processor, 2),
        "transitions": sum(map(len, examples.values())),
        "peak_mb": round(peak_mb()),
    }


if __name__ == "__main__":
    run_benchmark(measure, rounds=1)
