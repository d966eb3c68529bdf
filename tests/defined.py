"""Which norms are defined in a task, for tests that hold every such norm to something."""

from __future__ import annotations

from adanorm.config.compose import compose_experiment
from adanorm.config.paths import choices
from adanorm.models.norm_compatibility import why_undefined


def norms_of(task: str) -> list[str]:
    """Return the names of the norms that are defined in a task, as it is configured under them."""
    runs = [compose_experiment([f"task={task}", f"norm={name}"]) for name in choices("norm")]
    return [run.norm.name for run in runs if why_undefined(run.norm, run.model.sites()) is None]
