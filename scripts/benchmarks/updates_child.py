"""One checkout's side of scripts/benchmarks/updates.py: `python -P updates_child.py key=value ...`.

Of the project it imports only what PYTHONPATH names, which may be another commit, and says first where that
lies. It starts the run of these settings by that checkout's own code and, where the training loop would
begin, says that it is ready and serves its standard input: a line `update N` or `evaluate` is answered by a
line. Each line is JSON.
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
    say(answers, code=str(Path(import_module("adanorm").__file__ or "").parent))
    start_run(sys.argv[1:], answers)


def say(answers: TextIO, **fields: Any) -> None:
    """Write a line of JSON."""
    print(json.dumps(fields), file=answers, flush=True)


def start_run(settings: list[str], answers: TextIO) -> None:
    """Call the checkout's `execute` on its experiment of these settings: all that depends on its layout."""
    try:
        experiment = import_module("adanorm.config.compose").compose_experiment(settings)
        execute = import_module("adanorm.runs.execute").execute
    except ModuleNotFoundError:  # up to commit bd8051a
        experiment = import_module("adanorm.compose").experiment(settings)
        execute = import_module("adanorm.execution").make
    trainer_class: Any = import_module("adanorm.training.loop").Trainer
    trainer_class.train = lambda trainer, *_, **__: serve(trainer, answers)
    execute(experiment)


def serve(trainer: Any, answers: TextIO) -> None:
    """Make updates or a validation pass whenever a line asks for it, until the input ends.

    An answer has the seconds of processor time, and the last loss or the scores.
    """
    trainer.model.train()
    batches = trainer.batches()
    say(answers, ready=True)
    for line in sys.stdin:
        what, *count = line.split()
        started = time.process_time()
        if what == "update":
            for _ in range(int(count[0])):
                loss = trainer.update(next(batches))
            seconds = time.process_time() - started
            say(answers, seconds=seconds, found=float(loss.total) / loss.units)
        else:
            scores = trainer.measure("valid").metrics
            say(answers, seconds=time.process_time() - started, found=scores)
    raise SystemExit  # past the rest of the run: nothing is recorded


if __name__ == "__main__":
    main()
