"""The weights of a run that was trained here."""

from __future__ import annotations

import torch
from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.records.folder import RunFolder, shown
from adanorm.runs.setup import placed_norms
from adanorm.tasks.base import TrainingTask
from adanorm.training import checkpoint


def trained(experiment: Experiment, task: TrainingTask, device: torch.device) -> nn.Module:
    """Return the model of a run that was made here, in evaluation mode, with its best weights.

    Raises ValueError where there are no weights: they stay out of the committed records.
    """
    weights = checkpoint.load(RunFolder(experiment.folder()).weights, device)
    if weights is None:
        raise ValueError(
            f"{shown(experiment.folder())} holds no weights.pt: make the run here first, with"
            " runs=FOLDER if its record came with the repository, and give the same runs=FOLDER"
        )
    placed = placed_norms(experiment)
    model = task.build_model(placed).to(device)
    placed.finish()
    model.load_state_dict(weights)
    return model.eval()
