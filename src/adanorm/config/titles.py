"""What figures and tables call norms and tasks, and how they show a task's metric."""

from collections.abc import Sequence
from functools import cache

from adanorm.config.paths import CONF, choices
from adanorm.metrics.table import METRICS, Metric

QUANTITIES = {  # titles of what claims compare
    "test": "test score",
    "top3": "top-3 mean",
    "last_train_loss": "last training loss",
    "last_valid_loss": "last validation loss",
    "memorized": "share of wrong labels learned at the end",
    "recovered": "share of wrong labels recovered at the end",
}


@cache
def title(name: str) -> str:
    """Return the title of a norm or task from its YAML; any other name is returned unchanged."""
    from adanorm.config.yaml_file import read_yaml_file

    group = next((group for group in ("task", "norm") if name in choices(group)), None)
    section = read_yaml_file(CONF / group / f"{name}.yaml") if group else {}
    return str(section.get("task", section).get("title", name))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which gets an s unless the count is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names joined as in a sentence: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def in_words(hours: float) -> str:
    """Return a time in words: in minutes below 2 hours, in days from 100 hours on."""
    if hours < 2:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.0f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


def task_metric(task: str) -> Metric:
    """Return the test metric of a task; raises ValueError for an unknown task."""
    from adanorm.config.compose import cached_experiment

    return METRICS[cached_experiment([f"task={task}"]).task.metric]
