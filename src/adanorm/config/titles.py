"""What figures and tables call norms and tasks, and how they show a task's metric."""

from functools import cache

from adanorm.config.compose import cached_experiment
from adanorm.config.paths import CONF, choices
from adanorm.config.yaml_file import read_yaml_file
from adanorm.metrics.table import METRICS, Metric

QUANTITIES = {  # what claims call what they compare
    "test": "test score",
    "top3": "top-3 mean",
    "last_train_loss": "last training loss",
    "last_valid_loss": "last validation loss",
    "memorized": "share of wrong labels learned at the end",
    "recovered": "share of wrong labels recovered at the end",
}


@cache
def title(name: str) -> str:
    """Return the title that a norm or a task has in its configuration; any other name as it is."""
    group = next((group for group in ("task", "norm") if name in choices(group)), None)
    about = read_yaml_file(CONF / group / f"{name}.yaml") if group else {}
    return str(about.get("task", about).get("title", name))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which has an s unless the number is one."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_words(hours: float) -> str:
    """Return hours as minutes below two of them and as days from a hundred on."""
    if hours < 2:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.0f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


def task_metric(task: str) -> Metric:
    """Return the test metric of a task; raises ValueError for an unknown task."""
    return METRICS[cached_experiment([f"task={task}"]).task.metric]
