"""The kinds of tasks, one class per kind."""

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

    Raises ValueError where data cannot be fetched or read, and where a file changed after its
    content had identified the experiment.
    """
    task = KINDS[experiment.task.kind](experiment)
    identified = experiment.identity["data"].get("files", {})
    missing = Counter(identified.values()) - Counter(task.checksums.values())
    if changed := [role for role, checksum in identified.items() if checksum in missing]:
        raise ValueError(
            f"data: the file for {changed[0]} was changed after the run was named by its content; start again"
        )
    return task
