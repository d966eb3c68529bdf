"""The tasks: one class a kind."""

from collections import Counter
from collections.abc import Callable

from adanorm.config.experiment import Experiment
from adanorm.tasks.base import TrainingTask
from adanorm.tasks.char_lm import CharLm
from adanorm.tasks.classification import Classification
from adanorm.tasks.parsing import Parsing
from adanorm.tasks.regression import Regression
from adanorm.tasks.translation import Translation

KINDS: dict[str, Callable[[Experiment], TrainingTask]] = {
    "classification": Classification,
    "translation": Translation,
    "char_lm": CharLm,
    "parsing": Parsing,
    "regression": Regression,
}


def build(experiment: Experiment) -> TrainingTask:
    """Return the task of an experiment with its data loaded.

    Raises ValueError where the data cannot be had or read, and where a file is not the one that named the
    experiment: it was changed meanwhile.
    """
    task = KINDS[experiment.task.kind](experiment)
    named = experiment.identity["data"].get("files", {})
    lacking = Counter(named.values()) - Counter(task.checksums.values())
    if changed := [role for role, checksum in named.items() if checksum in lacking]:
        raise ValueError(
            f"data: the file for {changed[0]} was changed after the run was named by its content; start again"
        )
    return task
