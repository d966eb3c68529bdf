"""Loggers beside the run folder: TensorBoard and Weights & Biases."""

import importlib.util
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT, install_command
from adanorm.records.folder import shown

Row = dict[str, int | float]


class Log(NamedTuple):
    """Where a run's rows of metrics go, and its test scores at the end, with the update they are of."""

    row: Callable[[Row], None]
    test: Callable[[Row, float], None]


@contextmanager
def opened(experiment: Experiment, folder: Path, *, used: bool) -> Iterator[Log]:
    """Yield what takes rows and test scores to the configured logger, if it is used in this process.

    For `files` they go nowhere else than into the run's folder. The runs of a study are one group of wandb,
    or one folder of TensorBoard.
    """
    logger = experiment.logger
    if logger.name == "files" or not used:
        yield Log(lambda row: None, lambda scores, update: None)
    elif logger.name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(_events(experiment, folder))) as writer:
            identity = yaml.safe_dump(experiment.identity(), sort_keys=False)
            writer.add_text("configuration", f"```\n{identity}```")

            def add(values: Row, update: float) -> None:
                for name, value in values.items():
                    writer.add_scalar(name, value, int(update))

            yield Log(lambda row: add(row, row["update"]), add)
    else:
        import wandb

        named: dict[str, Any] = {
            "project": logger.project,
            "group": logger.group,
            "name": logger.label,
            "mode": logger.mode,
        }
        named |= {"dir": str(folder), "id": experiment.digest(), "resume": "allow"}
        settings = wandb.Settings(silent=True)
        with wandb.init(**named, config=experiment.identity(), settings=settings) as run:
            yield Log(
                lambda row: run.log(row, step=int(row["update"])),
                lambda scores, update: run.summary.update(scores),
            )
        if logger.mode == "offline":
            path = shown(Path(run.dir).parent)
            print(f"wandb, offline: {path}\n  upload it with: wandb sync {shlex.quote(path)}", flush=True)


def _events(experiment: Experiment, folder: Path) -> Path:
    """Return where TensorBoard's events go: of a study, beside those of its other runs."""
    if experiment.logger.group is None:
        return folder / "tensorboard"
    kept = Path(experiment.runs) if experiment.runs else PROJECT / "outputs"
    label = (experiment.logger.label or folder.parent.name).replace("/", "-")
    return kept / "tensorboard" / experiment.logger.group / f"{label} {experiment.digest()}"


def check(experiment: Experiment) -> None:
    """Raise ValueError where the configured logger's package is not installed."""
    name = experiment.logger.name
    if name == "files":
        return
    package = importlib.util.find_spec(name)
    if package is None or package.origin is None:  # of no file: a folder of that name, as loggers write one
        raise ValueError(f"logger={name}: the package {name} is not installed: {install_command(name)}")
