"""Which norms are defined in a task, for tests over all of these norms."""

from functools import cache

from adanorm.config.compose import cached_experiment
from adanorm.config.paths import choices
from adanorm.norms import norm_factory


@cache
def norms_of(task: str) -> list[str]:
    """Return the names of the norms that are defined in a task, under its settings for each."""
    runs = [cached_experiment([f"task={task}", f"norm={name}"]) for name in choices("norm")]
    trials = {
        run.norm.name: (norm_factory(run.norm.choice).trial, run.model.sites()) for run in runs
    }
    return [name for name, (trial, sites) in trials.items() if sites.why_unsupported(trial) is None]


def corners() -> list[tuple[str, str]]:
    """Return pairs of a task and a norm: every task, every norm, and every pair with settings of its own.

    Only these last pairs need a test of their own: otherwise a task and a norm compose
    independently.
    """
    pairs = [tuple(name.split("_", 1)) for name in choices("task_norm")]
    every = [
        *((task, "adanorm") for task in choices("task")),
        *(("rt", norm) for norm in choices("norm")),
    ]
    return sorted({*every, *((task, norm) for task, norm in pairs)})
