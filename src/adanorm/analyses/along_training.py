"""Observing a run as it trains: its first `steps` updates, of which every `every`-th is observed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from adanorm import tasks
from adanorm.analyses.spec import Analysis, AnalysisRecord
from adanorm.analyses.step import Observe, Step, Values
from adanorm.analyses.summary import averages
from adanorm.config.experiment import Experiment
from adanorm.models.norm_compatibility import check_compatibility
from adanorm.norms import backends
from adanorm.records import environment, reader
from adanorm.records.folder import RunFolder
from adanorm.runs.setup import choose_device, placed_norms
from adanorm.training.distributed import World
from adanorm.training.loop import Trainer
from adanorm.training.seeding import seed_everything
from adanorm.training.state import Place

Make = Callable[[AnalysisRecord], None]


def along_training(observe: Observe) -> Make:
    """Return what trains a record's run from where it is and writes what `observe` sees.

    `observe(step, **options)` makes the update of a Step and returns its values.
    """

    def make(record: AnalysisRecord) -> None:
        trainer, sites = begin(record.experiment)
        folder = RunFolder(record.folder(), rows="rows.jsonl")
        with folder.held():
            if reader.is_made(folder.path):
                return  # another process made it since
            _open(folder, record, trainer)
            trainer.resume(folder.checkpoint)
            folder.keep_metrics(trainer.state.rows)
            saved = time.monotonic()
            for row in updates(record.analysis, trainer, sites, observe):
                if row is not None:
                    trainer.state.rows += 1
                    folder.add_metrics(row)
                if time.monotonic() - saved > trainer.place.checkpoint_seconds:
                    trainer.save(folder.checkpoint)
                    saved = time.monotonic()
            _close(folder, record, trainer, sites)

    return make


def begin(experiment: Experiment) -> tuple[Trainer, list[str]]:
    """Return the trainer of a run at its very start, and the sites of its norm.

    In one process. Raises ValueError for what the user can mend.
    """
    torch.set_num_threads(experiment.threads)
    device = choose_device(experiment)
    check_compatibility(experiment)
    placed = placed_norms(experiment)
    task = tasks.build(experiment)
    seed_everything(experiment.seed)
    model = task.build_model(placed).to(device).train()
    placed.finish()
    seed_everything(experiment.seed)
    place = Place(device, experiment.precision, World(0, 1), 60 * experiment.checkpoint_minutes)
    trainer = Trainer(task, model, experiment.task, experiment.training, place)
    return trainer, placed.swapped


def updates(
    analysis: Analysis, trainer: Trainer, sites: Sequence[str], observe: Observe
) -> Iterator[dict[str, Any] | None]:
    """Make the updates that a run still has, and yield after each a row if it was observed, else None."""
    assert analysis.steps is not None, "checked with the analysis"
    assert analysis.every is not None, "checked with the analysis"
    state, batches = trainer.state, trainer.batches()
    norms = {site: trainer.model.get_submodule(site) for site in sites}
    # A run that is shorter ends where its own training does.
    while state.update < analysis.steps and not trainer.finished():
        if (state.update + 1) % analysis.every:
            trainer.update(next(batches))
            yield None
            continue
        step = Step(trainer, next(batches), norms)
        values = observe(step, **analysis.options)
        assert step.done is not None, "an observer makes the update"
        loss = step.done.total.item() / step.done.units
        if not math.isfinite(loss):
            state.diverged = f"loss not finite at update {state.update}"
            return
        yield {"update": state.update, "epoch": state.epoch, "loss": loss, "values": _finite(values)}


def _finite(values: Values) -> dict[str, dict[str, float | None]]:
    """Return the values with None where there is no number."""
    return {
        place: {name: value if math.isfinite(value) else None for name, value in found.items()}
        for place, found in values.items()
    }


def _open(folder: RunFolder, record: AnalysisRecord, trainer: Trainer) -> None:
    place, threads = trainer.place, record.experiment.threads
    folder.write_config(record.identity())
    described = environment.describe(
        device=place.device, precision=place.precision, processes=1, threads=threads
    )
    backend = backends.describe(record.experiment.norm.backend, place.device.type)
    folder.write_environment({**described, "norm_backend": backend})


def _close(folder: RunFolder, record: AnalysisRecord, trainer: Trainer, sites: list[str]) -> None:
    state, run = trainer.state, record.experiment
    rows = reader.observations(folder.path)
    if not rows and state.diverged is None:
        raise ValueError(
            f"every={record.analysis.every}: the run ends after {state.update} updates, none observed"
        )
    ended: dict[str, Any] = {
        "status": "diverged" if state.diverged else "done",
        "analysis": record.analysis.name,
        "task": run.task.name,
        "norm": run.norm.name,
        "scale": run.scale,
        "seed": run.seed,
        "norm_sites": sites,
        "data": trainer.task.checksums,
        "steps": state.update,
        "observations": len(rows),
        **averages(rows),
    }
    if record.analysis.evaluate and state.diverged is None:
        ended["valid"] = trainer.measure("valid").metrics
        ended["summary"]["score"] = ended["valid"][run.task.criterion]
    if state.diverged:
        ended["diverged"] = state.diverged
    folder.write_result(ended)
    folder.checkpoint.unlink(missing_ok=True)
