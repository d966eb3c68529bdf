"""Which norms are defined in a task, for tests that hold every such norm to something."""

from __future__ import annotations

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import choices
from adanorm.models.norm_compatibility import why_undefined
from adanorm.norms import norm_factory


def norms_of(task: str) -> list[str]:
    """Return the names of the norms that are defined in a task, as it is configured under them."""
    runs = [compose_experiment([f"task={task}", f"norm={name}"]) for name in choices("norm")]
    trials = {run.norm.name: (norm_factory(run.norm).trial, run.model.sites()) for run in runs}
    return [name for name, (trial, sites) in trials.items() if why_undefined(trial, sites) is None]
