"""Losses of a few updates at scale smoke.

Two machines compare them to see whether they compute the same.
"""

import json
from collections.abc import Iterable
from itertools import islice

from adanorm.config.compose import cached_experiment
from adanorm.runs.execute import prepare, start_trainer
from adanorm.tasks import TrainingTask

LEFT_OUT = (
    "partial-rmsnorm"  # at this size it divides by one feature, and rounding errors grow to a tenth
)
UPDATES = 3


def golden_losses(pairs: Iterable[str]) -> dict[str, list[float]]:
    """Return by TASK/NORM the mean losses of the first updates on a CPU."""
    losses: dict[str, list[float]] = {}
    loaded: dict[str, TrainingTask] = {}  # most norms of a task train on the same data
    for task, norm in (pair.split("/") for pair in pairs if not pair.endswith(LEFT_OUT)):
        experiment = cached_experiment(
            [f"task={task}", f"norm={norm}", "scale=smoke", "device=cpu"]
        )
        but_for_norm = {key: value for key, value in experiment.identity.items() if key != "norm"}
        settings = json.dumps(but_for_norm, sort_keys=True)
        try:
            prepared = prepare(experiment, loaded.get(settings))
        except ValueError:  # the norm does not suit these sites, or a package is missing
            continue
        loaded[settings] = prepared.task
        trainer = start_trainer(experiment, prepared)
        series = [trainer.update(batches) for batches in islice(trainer.batches(), UPDATES)]
        losses[f"{task}/{norm}"] = [loss.total.item() / loss.units for loss in series]
    return losses
