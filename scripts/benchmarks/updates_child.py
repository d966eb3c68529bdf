"""One checkout's side of scripts/benchmarks/updates.py: `python -P updates_child.py key=value ...`.

Of the project it imports only what PYTHONPATH names, which may be another commit. It starts the run of these
settings by that checkout's own code and, where the training loop would begin, serves its standard input: a
line `update N` or `evaluate` is answered by a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO


def main() -> None:
    """Start the run; what the checkout itself prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    trainer_class: Any = import_module("adanorm.training.loop").Trainer
    trainer_class.train = lambda trainer, *_, **__: serve(trainer, answers)
    start_run(sys.argv[1:])


def start_run(settings: list[str]) -> None:
    """Call the checkout's `execute` on its experiment of these settings: all that depends on its layout."""
    try:
        compose = import_module("adanorm.config.compose").compose_experiment
        execute = import_module("adanorm.runs.execute").execute
    except ModuleNotFoundError:  # up to commit bd8051a
        compose = import_module("adanorm.compose").experiment
        execute = import_module("adanorm.execution").make
    execute(compose(settings))


def serve(trainer: Any, answers: TextIO) -> None:
    """Make updates or a validation pass whenever a line asks for it, until the input ends.

    An answer has the seconds of processor time, and the last loss or the scores.
    """
    trainer.model.train()
    batches = trainer.batches()

    def answer(**fields: Any) -> None:
        print(json.dumps(fields), file=answers, flush=True)

    answer(code=str(Path(import_module("adanorm").__file__ or "").parent))
    for line in sys.stdin:
        what, *count = line.split()
        started = time.process_time()
        if what == "update":
            for _ in range(int(count[0])):
                loss = trainer.update(next(batches))
            seconds = time.process_time() - started
            answer(seconds=seconds, found=float(loss.total) / loss.units)
        else:
            scores = trainer.measure("valid").metrics
            answer(seconds=time.process_time() - started, found=scores)
    raise SystemExit  # past the rest of the run: nothing is recorded


if __name__ == "__main__":
    main()
