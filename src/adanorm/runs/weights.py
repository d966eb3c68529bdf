"""The weights of a run that was trained here."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.records.folder import RunFolder, shown
from adanorm.runs.setup import prepare
from adanorm.tasks.base import TrainingTask
from adanorm.training import weights

Kind = TypeVar("Kind", bound=TrainingTask)


def trained(experiment: Experiment, kind: type[Kind]) -> tuple[Kind, nn.Module]:
    """Return the task of a run, of that kind, and its model in evaluation mode with its best weights.

    Raises ValueError where there are no weights here: they stay out of the committed records.
    """
    path = RunFolder(experiment.folder()).weights
    if not path.exists():
        raise ValueError(
            f"{shown(path.parent)} holds no {path.name}: make the run here first, with"
            " runs=FOLDER if its record came with the repository, and give the same runs=FOLDER"
        )
    prepared = prepare(experiment)
    assert isinstance(prepared.task, kind), "the command asks for the kind before"
    prepared.model.load_state_dict(weights.load(path, experiment.digest()))
    return prepared.task, prepared.model.eval()
