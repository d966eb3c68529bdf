"""Losses of a few updates at scale smoke: by them two machines see whether their code computes the same."""

from collections.abc import Iterable
from itertools import islice

from adanorm import tasks
from adanorm.config.compose import cached_experiment
from adanorm.runs.setup import prepare, start_trainer

LEFT_OUT = ("partial-rmsnorm",)  # at this size it divides by one feature: a last digit grows to a tenth
UPDATES = 3


def golden_losses(task: str, norms: Iterable[str]) -> dict[str, list[float]]:
    """Return by norm the mean losses of the first updates on a CPU; what cannot be computed is left out."""
    losses: dict[str, list[float]] = {}
    loaded = model = None
    for norm in (norm for norm in norms if norm not in LEFT_OUT):
        experiment = cached_experiment([f"task={task}", f"norm={norm}", "scale=smoke", "device=cpu"])
        try:
            if loaded is None or experiment.model != model:  # MNIST's axes depend on the norm
                loaded, model = tasks.build(experiment), experiment.model
            prepared = prepare(experiment, loaded)
        except ValueError:  # not a norm for these sites, or a package lacks
            continue
        trainer = start_trainer(experiment, prepared)
        series = [trainer.update(batches) for batches in islice(trainer.batches(), UPDATES)]
        losses[norm] = [loss.total.item() / loss.units for loss in series]
    return losses


def losses_of(pairs: Iterable[str]) -> dict[str, list[float]]:
    """Return the golden losses of pairs TASK/NORM."""
    norms: dict[str, list[str]] = {}
    for task, _, norm in (pair.partition("/") for pair in pairs):
        norms.setdefault(task, []).append(norm)
    by_task = {task: golden_losses(task, of_task) for task, of_task in norms.items()}
    return {f"{task}/{norm}": losses for task, of in by_task.items() for norm, losses in of.items()}
