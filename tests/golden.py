"""Losses of a few updates of every task under every norm, to be compared within rounding.

`python -m tests.golden` writes what the code gives now to tests/golden_losses.json: only where numbers are
meant to change, which the changelog then says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from adanorm import tasks
from adanorm.config.compose_cache import cached_experiment
from adanorm.config.paths import choices
from adanorm.files import write_whole
from adanorm.runs.setup import prepare, start_trainer

LEFT_OUT = ("partial-rmsnorm",)  # at this size it divides by one feature: a last digit grows to a tenth
PATH = Path(__file__).with_name("golden_losses.json")
UPDATES = 3


def golden() -> dict[str, dict[str, list[float]]]:
    """Return the losses on file: by task and norm, one an update, in nats or the task's own unit."""
    found: dict[str, dict[str, list[float]]] = json.loads(PATH.read_text())
    return found


def losses(task: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the norms that a task's sites allow, with the mean losses of the first updates at smoke scale."""
    loaded = model = None
    for norm in (norm for norm in choices("norm") if norm not in LEFT_OUT):
        experiment = cached_experiment([f"task={task}", f"norm={norm}", "scale=smoke"])
        if loaded is None or experiment.model != model:  # MNIST's axes depend on the norm
            loaded, model = tasks.build(experiment), experiment.model
        try:
            prepared = prepare(experiment, loaded)
        except ValueError:  # not a norm for these sites: the file names those that are
            continue
        trainer = start_trainer(experiment, prepared)
        found = [trainer.update(batches) for batches in islice(trainer.batches(), UPDATES)]
        yield norm, [loss.total.item() / loss.units for loss in found]


if __name__ == "__main__":
    every = {task: dict(losses(task)) for task in choices("task")}
    write_whole(PATH, (json.dumps(every, indent=1) + "\n").encode())
