"""Making one run: everything built, checked, trained, scored and recorded."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from adanorm import tasks
from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS
from adanorm.models.norm_compatibility import check_compatibility
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import backends
from adanorm.records import environment, loggers, reader
from adanorm.records.folder import RunFolder
from adanorm.runs.setup import choose_device, placed_norms
from adanorm.tasks.base import TrainingTask
from adanorm.training import checkpoint
from adanorm.training.distributed import agreed, joined
from adanorm.training.loop import Trainer
from adanorm.training.progress import Progress
from adanorm.training.seeding import seed_everything
from adanorm.training.state import Outcome, Place, Row


def execute(experiment: Experiment) -> None:
    """Train a run from where it is to its end, score its best weights and write its records.

    Raises ValueError, before anything is written, for what the user can mend. Any other
    exception is recorded as `failed` and raised.
    """
    torch.set_num_threads(experiment.threads)
    device = choose_device(experiment)
    computed_by = backends.describe(experiment.norm.backend, device.type)
    loggers.check(experiment)
    check_compatibility(experiment)
    placed = placed_norms(experiment)
    task = tasks.build(experiment)
    seed_everything(experiment.seed)  # the same initial weights under every norm
    model = task.build_model(placed).to(device)
    placed.finish()
    folder = RunFolder(experiment.folder())
    _check_disk(folder, model)
    with joined(device) as world, folder.held() if world.is_main else nullcontext():
        seed_everything(experiment.seed + world.rank)  # dropout differs between processes
        place = Place(device, experiment.precision, world, 60 * experiment.checkpoint_minutes)
        # Another process may have made the run between the look at its result and the lock.
        if agreed(world.is_main and reader.is_made(folder.path), world):
            return
        if world.is_main:
            _open(folder, experiment, place, computed_by)
        facts = _facts(experiment, task, model, placed)
        try:
            outcome = _train(experiment, task, model, place, folder)
        except (OSError, KeyboardInterrupt):
            raise  # the run can go on from its checkpoint
        except Exception as error:
            if world.is_main:
                message = f"{type(error).__name__}: {error}"
                folder.write_result({"status": "failed", **facts, "error": message})
            raise RuntimeError(f"{experiment.task.name} {experiment.norm.name}: broke in training") from error
        if world.is_main:
            _close(folder, facts, outcome)
        agreed(None, world)  # nobody leaves before the record is written


def _check_disk(folder: RunFolder, model: nn.Module) -> None:
    """Raise ValueError where weights, optimizer state and the best weights would not fit, twice."""
    values = sum(parameter.numel() for parameter in model.parameters())
    needed = 2 * 4 * 4 * values + 10_000_000
    existing = next(path for path in (folder.path, *folder.path.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise ValueError(f"{folder.path}: {free / 1e6:.0f} MB free, the run needs {needed / 1e6:.0f} MB")


def _open(folder: RunFolder, experiment: Experiment, place: Place, computed_by: str) -> None:
    folder.write_config(experiment.identity())
    described = environment.describe(
        device=place.device,
        precision=place.precision,
        processes=place.world.size,
        threads=experiment.threads,
    )
    folder.write_environment({**described, "norm_backend": computed_by})


def _facts(
    experiment: Experiment, task: TrainingTask, model: nn.Module, placed: PlacedNorms
) -> dict[str, Any]:
    """Return what is known of a run before it is trained."""
    norms = {f"{site}." for site in (*placed.swapped, *placed.kept)}
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    return {
        "task": experiment.task.name,
        "norm": experiment.norm.name,
        "scale": experiment.scale,
        "seed": experiment.seed,
        "precision": experiment.precision,
        "own_data": experiment.own_data,
        "norm_sites": placed.swapped,
        "layernorm_sites": placed.kept,
        "parameters": sum(sizes.values()),
        "norm_parameters": sum(n for name, n in sizes.items() if name.startswith(tuple(norms))),
        "data": task.checksums,
        **({"prepared": task.prepared} if task.prepared else {}),
    }


def _train(
    experiment: Experiment, task: TrainingTask, model: nn.Module, place: Place, folder: RunFolder
) -> Outcome:
    trainer = Trainer(task, model, experiment.task, experiment.training, place)
    trainer.resume(folder.checkpoint)
    if place.world.is_main:
        folder.keep_metrics(trainer.state.rows)
    batches = len(task.train_batches(0))
    with (
        Progress(
            experiment.training, batches, experiment.task.criterion, shown=place.world.is_main
        ) as progress,
        loggers.opened(experiment, folder.path, used=place.world.is_main) as log_beside,
    ):

        def log(row: Row) -> None:
            folder.add_metrics(row)
            log_beside(row)
            progress.print(_line(experiment, row))

        return trainer.train(folder.checkpoint, log, progress)


def _line(experiment: Experiment, row: Row) -> str:
    criterion = experiment.task.criterion
    return (
        f"{experiment.task.name} {experiment.norm.name} seed {experiment.seed}"
        f"  epoch {row['epoch']:>3}  update {row['update']:>6}  loss {row['train_loss']:.4f}"
        f"  valid {METRICS[criterion].text(row[f'valid_{criterion}'])}"
    )


def _close(folder: RunFolder, facts: dict[str, Any], outcome: Outcome) -> None:
    """Write outputs, weights and, last, the result that ends the run."""
    state = outcome.state
    ended: dict[str, Any] = {"status": "diverged" if state.diverged else "done", **facts}
    ended["valid"] = state.valid if outcome.test else None
    ended["test"] = outcome.test.metrics if outcome.test else None
    ended |= {"best_step": state.best_update, "steps": state.update, "seconds": round(state.seconds, 1)}
    if state.kept:
        ended["averaged"] = [update for _, update in state.kept]
    if outcome.test and outcome.test.signatures:
        ended["signatures"] = outcome.test.signatures
    if state.diverged:
        ended["diverged"] = state.diverged
    if outcome.test and outcome.test.outputs:
        folder.write_outputs(outcome.test.outputs)
    if outcome.weights:
        checkpoint.save(folder.weights, outcome.weights)
    folder.write_result(ended)
    for leftover in (folder.checkpoint, *folder.path.glob("kept-*.pt")):
        leftover.unlink(missing_ok=True)
