"""Loggers beside the run folder: TensorBoard and Weights & Biases."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from adanorm.config import Experiment

Row = dict[str, int | float]


@contextmanager
def opened(experiment: Experiment, folder: Path, *, used: bool) -> Iterator[Callable[[Row], None]]:
    """Yield what takes a row of metrics to the configured logger, if it is used in this process.

    For `files` a row goes nowhere else than into the run's folder.
    """
    if experiment.logger.name == "files" or not used:
        yield lambda row: None
    elif experiment.logger.name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(folder / "tensorboard"))

        def to_tensorboard(row: Row) -> None:
            for name, value in row.items():
                writer.add_scalar(name, value, row["update"])

        yield to_tensorboard
        writer.close()
    else:
        import wandb

        with wandb.init(
            project=experiment.logger.project,
            mode=experiment.logger.mode,
            dir=str(folder),
            id=experiment.digest(),
            resume="allow",
            config=experiment.identity(),
            settings=wandb.Settings(silent=True),
        ) as run:
            yield lambda row: run.log(row, step=int(row["update"]))


def check(experiment: Experiment) -> None:
    """Raise ValueError where the configured logger's package is not installed."""
    name = experiment.logger.name
    if name != "files" and importlib.util.find_spec(name) is None:
        raise ValueError(f"logger={name}: the package {name} is not installed (pip install {name})")
