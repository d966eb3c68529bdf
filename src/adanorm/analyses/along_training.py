"""Makes the records of analyses: a run is observed at every `every`-th of its first updates."""

import math
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from adanorm.analyses.spec import Analysis, AnalysisRecord, averages, observers_module
from adanorm.analyses.step import Observe, Step
from adanorm.records import reader
from adanorm.records.folder import RunFolder
from adanorm.records.result import AnalysisResult
from adanorm.runs.execute import describe_environment, prepare, start_trainer
from adanorm.training.loop import Trainer
from adanorm.training.state import flushed_denormals


def observer(name: str) -> Any:
    """Return the module of an analysis, which has `observe`, or `make` if nothing is trained."""
    return import_module(observers_module(name))


def make(record: AnalysisRecord) -> None:
    """Make the record of an analysis of conf/analysis."""
    if record.analysis.tasks:
        along_training(observer(record.analysis.name).observe, record)
    else:
        observer(record.analysis.name).make(record)


@flushed_denormals()
def along_training(observe: Observe, record: AnalysisRecord) -> None:
    """Train, or resume, a record's run; `observe(step, **options)` makes the observed updates."""
    prepared = prepare(record.experiment)
    environment = describe_environment(record.experiment, prepared, processes=1)
    folder = RunFolder(record.folder(), rows="rows.jsonl")
    with folder.recording(
        record.identity,
        environment,
        record.experiment.norm.code,
    ) as recording:
        if recording.is_complete:
            return
        observed = record.experiment.model_copy(
            update={"graphs": False}
        )  # no hook runs in a replay
        trainer = start_trainer(observed, prepared)
        trainer.resume(folder.checkpoint)
        folder.write_rows(trainer.state.rows)
        saved = time.monotonic()
        for row in updates(
            record.analysis,
            trainer,
            prepared.sites.swapped,
            observe,
        ):
            if row is not None:
                trainer.state.rows.append(row)
                folder.add_row(row)
            if time.monotonic() - saved > trainer.context.checkpoint_seconds:
                trainer.save(folder.checkpoint)
                saved = time.monotonic()
        rows = reader.record(folder.path).rows("rows.jsonl")
        recording.result = _result(
            record,
            trainer,
            prepared.sites.swapped,
            rows,
        )


def updates(
    analysis: Analysis, trainer: Trainer, sites: Sequence[str], observe: Observe
) -> Iterator[dict[str, Any] | None]:
    """Make a run's remaining updates; after each, yield a row if it was observed, else None."""
    assert analysis.steps is not None, "checked with the analysis"
    assert analysis.every is not None, "checked with the analysis"
    state = trainer.state
    batches = trainer.batches()
    norms = {site: trainer.model.get_submodule(site) for site in sites}
    # A run with fewer updates ends with its own training.
    while state.update < analysis.steps and not trainer.finished():
        if (state.update + 1) % analysis.every:
            trainer.update(next(batches))
            yield None
            continue
        step = Step(trainer, next(batches), norms)
        values: dict[str, Any] = {**observe(step, **analysis.options)}
        assert step.loss is not None, "an observer makes the update"
        loss = step.loss.total.item() / step.loss.units
        if not math.isfinite(loss):
            state.diverged = f"loss not finite at update {state.update}"
            return
        for numbers in values.values():
            for name, number in numbers.items():
                if number is not None and not math.isfinite(number):
                    numbers[name] = None
        yield {"update": state.update, "epoch": state.epoch, "loss": loss, "values": values}


def _result(
    record: AnalysisRecord, trainer: Trainer, sites: list[str], rows: Sequence[dict[str, Any]]
) -> AnalysisResult:
    """Return the result of the observations; raises ValueError if there are none."""
    state = trainer.state
    analysis = record.analysis
    if not rows and state.diverged is None:
        raise ValueError(
            f"every={analysis.every}: the run ends after {state.update} updates, none observed"
        )
    summary, places = averages(rows)
    facts: dict[str, Any] = {"status": "done", "norm_sites": sites, "data": trainer.task.checksums}
    if state.diverged:
        facts |= {"status": "diverged", "diverged": state.diverged}
    elif analysis.evaluate:
        facts["valid"] = trainer.measure("valid").metrics
        summary["score"] = facts["valid"][record.experiment.task.selection_metric]
    return record.result(
        **facts, steps=state.update, observations=len(rows), summary=summary, places=places
    )
