"""The tasks: one class a kind."""

from adanorm.config import Experiment
from adanorm.tasks.base import TrainingTask
from adanorm.tasks.classification import Classification

KINDS = {"classification": Classification}


def build(experiment: Experiment) -> TrainingTask:
    """Return the task of an experiment with its data loaded.

    Raises ValueError where the data cannot be had or read.
    """
    return KINDS[experiment.task.kind](experiment)
