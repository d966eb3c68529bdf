"""Loggers beside the run folder: TensorBoard and Weights & Biases."""

import importlib.util
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from adanorm.config.paths import PROJECT, RUNS, install_command
from adanorm.config.sections import LoggerConfig
from adanorm.config.values import digest_of
from adanorm.files import Values
from adanorm.records.folder import path_text
from adanorm.records.reader import Record
from adanorm.records.result import Result

Row = dict[str, int | float]
REFUSED, LONGEST_PROJECT = "/\\#?%:", 128  # in a project's name, by wandb's own check
SECONDS_TO_ANSWER = 30


@contextmanager
def open_logger(
    logger: LoggerConfig, identity: Values, folder: Path
) -> Iterator[Callable[[Row, float], object]]:
    """Yield a function that logs a row or the test scores at an update.

    Then print where the log lies. The runs of a study are one group in wandb, or one folder for
    TensorBoard. With logger=files nothing is logged: the run's folder has all rows anyway.
    """
    if logger.name == "files":
        yield lambda values, update: None
    elif logger.name == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        events = folder / "tensorboard"
        if logger.group is not None:  # beside the events of the study's other runs
            root = PROJECT / "outputs" if (runs := folder.parents[2]) == RUNS else runs
            label = (logger.label or folder.parent.name).replace("/", "-")
            events = root / "tensorboard" / logger.group / f"{label} {digest_of(identity)}"
        with _errors_of_threads(), SummaryWriter(str(events)) as writer:
            writer.add_text("configuration", f"```\n{yaml.safe_dump(identity, sort_keys=False)}```")

            def add(values: Row, update: float) -> None:
                for name, value in values.items():
                    writer.add_scalar(name, value, int(update))

            yield add
        _say("tensorboard", events, "look at it with: tensorboard --logdir")
    else:
        import wandb

        options = logger.model_dump(include={"project", "group", "mode"}) | {"name": logger.label}
        options |= {"dir": str(folder), "id": digest_of(identity), "resume": "allow"}
        try:
            started = wandb.init(**options, config=identity, settings=wandb.Settings(silent=True))
        except wandb.errors.Error as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(f"logger=wandb: it does not start ({reason})") from None
        with started as run:
            yield lambda values, update: (  # test scores belong to no row
                run.log(values, step=int(update))
                if "update" in values
                else run.summary.update(values)
            )
        if logger.mode == "offline":
            _say("wandb, offline", Path(run.dir).parent, "upload it with: wandb sync")


@contextmanager
def _errors_of_threads() -> Iterator[None]:
    """Raise here what a thread raises, such as TensorBoard's own on a full disk, unprinted."""
    errors = []
    hook = threading.excepthook
    threading.excepthook = lambda raised: errors.append(raised.exc_value)
    try:
        yield
    finally:
        threading.excepthook = hook
    for error in filter(None, errors):
        raise error


def _say(name: str, path: Path, command: str) -> None:
    print(f"{name}: {path_text(path)}\n  {command} {shlex.quote(path_text(path))}", flush=True)


def send(record: Record, result: Result, logger: LoggerConfig, folder: Path) -> None:
    """Send a finished run's rows and test scores to a logger, as the run would.

    Its files go to `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open_logger(logger, record.identity, folder) as log:
        for row in record.rows():
            log(row, row["update"])
        scores = {f"test_{name}": score for name, score in (result.test or {}).items()}
        log(scores, result.best_step or 0)


def check(logger: LoggerConfig) -> None:
    """Raise ValueError if a logger's package is missing, or wandb is online without an account."""
    name = logger.name
    if name == "files":
        return
    package = importlib.util.find_spec(name)
    if (
        package is None or package.origin is None
    ):  # a mere folder of that name, as loggers write one
        raise ValueError(
            f"logger={name}: the package {name} is not installed: {install_command(name)}"
        )
    if name == "wandb":
        _check_wandb(logger)


def _check_wandb(logger: LoggerConfig) -> None:
    """Raise ValueError for a project that wandb refuses, and where wandb online cannot log."""
    wrong = sorted({*logger.project} & {*REFUSED})
    if wrong or len(logger.project) > LONGEST_PROJECT:
        shortened = logger.project[:40]
        raise ValueError(
            f"logger.project={shortened}: wandb takes at most {LONGEST_PROJECT} characters, and"
            f" none of {REFUSED}"
        )
    if logger.mode == "offline":
        return
    wandb = importlib.import_module("wandb")
    try:
        is_known = wandb.login(prompt=False, timeout=SECONDS_TO_ANSWER)
    except (wandb.errors.Error, OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        hint = "log offline, and upload with `wandb sync`"
        raise ValueError(f"logger.mode=online: wandb cannot be used ({reason}): {hint}") from None
    if not is_known:
        raise ValueError(
            "logger.mode=online: no account is known here: run `wandb login`, or log offline"
        )
