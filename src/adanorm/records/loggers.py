"""Loggers beside the run folder: TensorBoard and Weights & Biases."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT

Row = dict[str, int | float]


@contextmanager
def opened(experiment: Experiment, folder: Path, *, used: bool) -> Iterator[Callable[[Row], None]]:
    """Yield what takes a row of metrics to the configured logger, if it is used in this process.

    For `files` a row goes nowhere else than into the run's folder. The runs of a study are one group
    of wandb, or one folder of TensorBoard; without a study each run logs into its own folder.
    """
    logger = experiment.logger
    if logger.name == "files" or not used:
        yield lambda row: None
    elif logger.name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(_events(experiment, folder)))

        def to_tensorboard(row: Row) -> None:
            for name, value in row.items():
                writer.add_scalar(name, value, row["update"])

        yield to_tensorboard
        writer.close()
    else:
        import wandb

        with wandb.init(
            project=logger.project,
            mode=logger.mode,
            dir=str(folder),
            group=logger.group,
            name=logger.label,
            id=experiment.digest(),
            resume="allow",
            config=experiment.identity(),
            settings=wandb.Settings(silent=True),
        ) as run:
            yield lambda row: run.log(row, step=int(row["update"]))


def _events(experiment: Experiment, folder: Path) -> Path:
    """Return where TensorBoard's events go: of a study, beside those of its other runs."""
    if experiment.logger.group is None:
        return folder / "tensorboard"
    kept = Path(experiment.runs) if experiment.runs else PROJECT / "outputs"
    label = experiment.logger.label or folder.parent.name
    return kept / "tensorboard" / experiment.logger.group / f"{label} {experiment.digest()}"


def check(experiment: Experiment) -> None:
    """Raise ValueError where the configured logger's package is not installed."""
    name = experiment.logger.name
    if name != "files" and importlib.util.find_spec(name) is None:
        raise ValueError(f"logger={name}: the package {name} is not installed (pip install {name})")
