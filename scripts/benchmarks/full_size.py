"""Dry runs of every task of the paper at full size: `python -m scripts.benchmarks.full_size`.

Two updates of the whole model on made-up data of full shape, and a few examples scored: what breaks at that
size, and the memory it takes at its peak. One task after the other, each in a process of its own. `tasks`
are some of them, `norm` is the norm and `device` the device.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from adanorm.config.compose import compose_experiment
from adanorm.records import reader
from scripts.benchmarks.harness import Options, Row, run_benchmark

TASKS = ("mnist", "rt", "sst5", "ptb", "enwik8", "de-en", "en-vi", "en-de")


def measure(options: Options) -> Iterator[Row]:
    """Yield a row of each task's dry run; raises ValueError where one breaks."""
    keys = options.keys
    for task in keys["tasks"].split(","):
        with tempfile.TemporaryDirectory() as folder:
            settings = [
                f"task={task}", f"norm={keys['norm']}", "scale=paper", "updates=2", f"runs={folder}",
                f"device={keys['device']}", f"threads={keys['threads']}", f"data.cache={folder}",
            ]  # fmt: skip
            started = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "adanorm", "run", *settings],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise ValueError(f"{task}: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
            run = compose_experiment(settings)
            found = reader.result(Path(run.folder()), dry_run=True)
            assert found is not None, "it ended well"
            yield {
                "task": task,
                "norm": keys["norm"],
                "device": keys["device"],
                "parameters": found.parameters,
                "peak_memory_gb": round((found.dry_run or {})["peak_memory"] / 1e9, 2),
                "training_seconds": found.seconds,
                "seconds": round(time.monotonic() - started),
                "rounds": 1,
            }


if __name__ == "__main__":
    run_benchmark(measure, rounds=1, keys={"tasks": ",".join(TASKS), "norm": "adanorm", "device": "cpu"})
