"""The kinds of tasks, one class per kind, each imported when a run of its kind is built."""

from collections import Counter
from importlib import import_module

from adanorm.config.experiment import Experiment
from adanorm.tasks.base import TrainingTask

KINDS = {
    "classification": "adanorm.tasks.classification:Classification",
    "translation": "adanorm.tasks.translation:Translation",
    "char_lm": "adanorm.tasks.char_lm:CharLm",
    "parsing": "adanorm.tasks.parsing:Parsing",
    "regression": "adanorm.tasks.regression:Regression",
}


def build(experiment: Experiment) -> TrainingTask:
    """Return the task of an experiment with its data loaded.

    Raises ValueError where data cannot be fetched or read, and where a file changed after its
    content had identified the experiment.
    """
    module, _, name = KINDS[experiment.task.kind].partition(":")
    task: TrainingTask = getattr(import_module(module), name)(experiment)
    identified = experiment.identity["data"].get("files", {})
    missing = Counter(identified.values()) - Counter(task.checksums.values())
    for role, checksum in identified.items():
        if checksum in missing:
            raise ValueError(
                f"data: the file for {role} was changed after the run was named by its content;"
                " start again"
            )
    return task
