"""One run from its experiment to its record: prepared, trained or resumed, scored and recorded."""

import math
import os
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from adanorm.config.data_sections import SPLITS
from adanorm.config.errors import is_out_of_memory
from adanorm.config.experiment import Experiment
from adanorm.config.titles import counted
from adanorm.data.inspection import Inspection
from adanorm.models.norm_sites import PlacedNorms, build_with_norms
from adanorm.norms import NormFactory, norm_factory
from adanorm.norms.closed_form import computed_by
from adanorm.norms.over_rows import synchronize
from adanorm.records import loggers
from adanorm.records.environment import (
    check_devices,
    describe,
    numerics_version,
    origin,
    peak_memory,
)
from adanorm.records.folder import OF_A_STUDY, RunFolder, path_text
from adanorm.records.result import Result
from adanorm.tasks import TrainingTask
from adanorm.tasks import build as build_task
from adanorm.training.distributed import (
    ALONE,
    LOST,
    World,
    broadcast,
    init_distributed,
    is_lost_process_error,
)
from adanorm.training.loop import Trainer
from adanorm.training.progress import Progress, planned_updates, updates_per_epoch
from adanorm.training.state import (
    ComputeContext,
    Outcome,
    Row,
    flushed_denormals,
    load_weights,
    save_weights,
    seed_of,
    set_tf32,
)

Kind = TypeVar("Kind", bound=TrainingTask)
BATCHES_AHEAD = 4  # on a GPU
COMPILED = (
    "compiled: torch inductor"  # what computes norms inside compiled layers: their definition
)


class Prepared(NamedTuple):
    """What a run is computed with. The model is on the device and has its initial weights."""

    device: torch.device
    norm_backend: str  # what computes the norms there
    task: TrainingTask
    model: nn.Module
    sites: PlacedNorms


def prepare(experiment: Experiment, task: TrainingTask | None = None) -> Prepared:
    """Return what a run is computed with; writes nothing.

    The same seed draws the same initial weights with every norm, unless a gain is drawn, as the
    Transformer-XL draws LayerNorm's: weights drawn after it are others. A `task` whose data are loaded
    already, such as another norm's, is used as it is. Raises ValueError for the user's mistakes: a
    norm that does not exist or does not suit the model, and data or a device that cannot be had.
    """
    torch.set_num_threads(experiment.threads)
    device = choose_device(experiment)
    set_tf32(experiment.precision)
    # From sm_90 on torch prefers cuDNN's attention in half precision, which makes a plan for every
    # new shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
    if experiment.norm.choice.outside is not None:
        from adanorm.norms.check import check_before_training

        check_before_training(experiment.norm.choice)
    make_norm = compatible_norm(experiment)
    norm_backend = computed_by(
        make_norm.trial,
        experiment.norm.backend,
        device.type,
    )
    task = task or build_task(experiment)
    torch.manual_seed(experiment.seed)
    model, sites = build_with_norms(
        lambda place_norm: task.build_model(place_norm).to(device),
        make_norm,
        experiment.norm.placement,
    )
    return Prepared(device, norm_backend, task, model, sites)


def compatible_norm(experiment: Experiment) -> NormFactory:
    """Return what makes the experiment's norm.

    Raises ValueError for a norm or a parameter that does not exist, and where the norm is not
    defined at the sites of the experiment's model.
    """
    make_norm = norm_factory(experiment.norm.choice)
    batch_size: int | None = getattr(
        experiment.data,
        "batch_size",
        None,
    )
    reason = experiment.model.sites().why_unsupported(make_norm.trial, batch_size)
    if reason is not None:
        raise ValueError(
            f"norm {experiment.norm.name} is not defined in {experiment.task.name}: {reason}"
        )
    return make_norm


def start_trainer(experiment: Experiment, prepared: Prepared, world: World = ALONE) -> Trainer:
    """Return the trainer of a run before its first update, and seed torch for it."""
    seed = experiment.seed
    if world.rank and prepared.device.type == "cuda":
        # On GPUs each process draws masks of its own, which no other seed draws.
        seed = seed_of(experiment.seed, world.rank)
    torch.manual_seed(seed)
    metric = experiment.task.selection_metric
    computation = prepared.device, experiment.precision, world, 60 * experiment.checkpoint_minutes
    is_cuda = prepared.device.type == "cuda"
    context = ComputeContext(
        *computation,
        batches_ahead=BATCHES_AHEAD if is_cuda else 0,
        compile=experiment.compile,
        graphs=is_cuda and experiment.graphs and world.size == 1,
    )
    return Trainer(
        prepared.task,
        prepared.model,
        metric,
        experiment.training,
        context,
    )


def describe_environment(
    experiment: Experiment, prepared: Prepared, *, processes: int
) -> dict[str, Any]:
    """Return the facts of a run's environment.json as plain values."""
    return describe(
        device=prepared.device,
        precision=experiment.precision,
        processes=processes,
        threads=experiment.threads,
        norm_backend=prepared.norm_backend if experiment.compile is None else COMPILED,
        numerics_version=numerics_version(
            experiment.norm.name, experiment.model.name, prepared.device
        ),
    )


def choose_device(experiment: Experiment) -> torch.device:
    """Return the device of this process.

    Raises ValueError if the run's device or precision cannot be had.
    """
    if experiment.device != "cpu":
        check_devices(
            int(os.environ.get("LOCAL_WORLD_SIZE", "1")), is_required=experiment.device == "cuda"
        )
    if experiment.device == "cpu" or not torch.cuda.is_available():
        if experiment.precision == "tf32":
            raise ValueError(
                "precision=tf32: a CPU has no TF32; choose fp32 or bf16, or a CUDA device"
            )
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def free_bytes(path: Path) -> int:
    """Return the free bytes on the disk of a path, which need not exist yet."""
    return shutil.disk_usage(
        next(folder for folder in (path, *path.parents) if folder.exists())
    ).free


@flushed_denormals()
def execute(experiment: Experiment) -> None:
    """Train or resume a run to its end, score its best weights and write its record.

    Raises ValueError for the user's mistakes, before anything is written. An error in training is
    recorded as `failed` and raised as RuntimeError; one after which the next start can go on is
    only raised.
    """
    loggers.check(experiment.logger)
    prepared = prepare(experiment)
    folder = RunFolder(experiment.folder())
    _check_disk(folder, prepared.model)
    batches = len(prepared.task.train_batches(0))  # of the first epoch
    inspection = _inspected(experiment, prepared.task, batches)
    with init_distributed(prepared.device) as world:
        if world.size > 1:
            _prepare_processes(experiment, prepared)
        environment = describe_environment(experiment, prepared, processes=world.size)
        recording: AbstractContextManager[RunFolder | None] = nullcontext()
        if world.is_main:  # only this process prints and writes
            if environment["commit"] is None and OF_A_STUDY not in os.environ:
                print("git knows no commit of this code: the record names its digest")
            if experiment.own_data:
                print(_own_data(experiment, prepared.task, batches))
            for line in inspection.warnings:
                print(f"warning: {line}", file=sys.stderr)
            recording = folder.recording(
                experiment.identity,
                environment,
                experiment.norm.code,
            )
        with recording as record:
            if broadcast(record is not None and record.is_complete, world):
                return
            facts = _facts(experiment, prepared, inspection)
            try:
                trainer = start_trainer(experiment, prepared, world)
                facts["computed_by"] = _resume(trainer, folder, environment)
                outcome = _train(experiment, trainer, folder, batches)
            except Exception as error:
                if isinstance(error, OSError) or is_out_of_memory(error):
                    raise  # not recorded: the next start goes on from the checkpoint
                if is_lost_process_error(error, world):
                    raise ConnectionError(LOST) from None
                if record is not None:
                    message = f"{type(error).__name__}: {error}"
                    record.result = Result(
                        status="failed",
                        **facts,
                        error=message,
                    )
                raise RuntimeError(f"{facts['task']} {facts['norm']}: broke in training") from error
            if record is not None:
                if experiment.updates is not None:
                    facts["dry_run"] = {"peak_memory": peak_memory(prepared.device)}
                record.result = _finish(
                    folder,
                    prepared.task,
                    experiment.digest,
                    facts,
                    outcome,
                )
        broadcast(None, world)  # all processes wait until the record is written


def _prepare_processes(experiment: Experiment, prepared: Prepared) -> None:
    """Let norms of a batch see all processes' rows.

    Raises ValueError for an outside norm that draws noise.
    """
    synchronize(prepared.model)
    norm = experiment.norm
    if prepared.device.type == "cpu" and norm.choice.outside is not None:
        from adanorm.norms.check import check_before_processes

        check_before_processes(norm_factory(norm.choice), norm.name)


def _check_disk(folder: RunFolder, model: nn.Module) -> None:
    """Raise ValueError if the disk lacks room for two checkpoints."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    needed = 2 * 4 * 4 * parameters + 10_000_000
    free = free_bytes(folder.path)
    if free < needed:
        sizes = f"{free / 1e6:.0f} MB free, the run needs {needed / 1e6:.0f} MB"
        raise ValueError(f"{folder.path}: {sizes}")


def _resume(
    trainer: Trainer, folder: RunFolder, environment: dict[str, Any]
) -> list[dict[str, Any]] | None:
    """Resume a run from its checkpoint.

    Return what computed each of its starts, None if all are alike. If commit, versions or machine
    are not those of the start before, a warning says which of them.
    """
    trainer.checkpoints.writers = [origin(environment)]
    trainer.resume(folder.checkpoint)
    writers = trainer.checkpoints.writers
    if len(writers) == 1:
        return None
    if trainer.context.world.is_main:
        before, now = writers[-2:]
        before = {"code": now["code"], **before}  # checkpoints of older versions name none
        keys = [key for key in before | now if before.get(key) != now.get(key)]
        names = ", ".join(keys).replace("_", " ")
        line = f"since the run's last start, changed: {names}; its record says so"
        print(f"warning: {line}", file=sys.stderr)
    return writers


def _train(experiment: Experiment, trainer: Trainer, folder: RunFolder, batches: int) -> Outcome:
    is_main = trainer.context.world.is_main
    state = trainer.state
    # A run that was started without tracking has no test rows of its first evaluations.
    is_tracked = experiment.track_test and len(state.test_rows) == len(state.rows)
    if is_main:
        folder.write_rows(state.rows)
        folder.test_rows.unlink(missing_ok=True)
        if is_tracked:
            folder.write_rows(state.test_rows, to=folder.test_rows)
    logger: AbstractContextManager[Any] = nullcontext()
    if is_main:
        logger = loggers.open_logger(experiment.logger, experiment.identity, folder.path)
    with (
        Progress(
            experiment.training,
            batches,
            trainer.metric,
            shown=is_main,
        ) as progress,
        logger as send,
    ):

        def log(row: Row) -> None:
            folder.add_row(row)
            send(row, row["update"])
            progress.add_row(row)

        log_test = partial(folder.add_row, to=folder.test_rows) if is_tracked else None
        outcome = trainer.train(
            folder.checkpoint,
            log,
            progress,
            log_test=log_test,
        )
        if outcome.test is not None:
            scores = {f"test_{name}": score for name, score in outcome.test.metrics.items()}
            send(scores, outcome.state.best_update)
        return outcome


def _inspected(experiment: Experiment, task: TrainingTask, batches: int) -> Inspection:
    """Return counts and warnings of data and schedule.

    Raises ValueError if there is nothing to train on.
    """
    settings, inspection = experiment.training, task.inspection
    if not experiment.own_data:  # published data cannot be mended
        inspection = inspection._replace(warnings=())
    if batches == 0:
        raise ValueError("the training data make no batch")
    updates, warmup = planned_updates(settings, batches), settings.warmup_updates
    least = 2 * warmup if experiment.own_data else warmup
    if updates > least or experiment.updates is not None or warmup == 0:
        return inspection
    longer = f"training.max_updates={4 * warmup}"
    if settings.max_updates is None:
        per_epoch = updates_per_epoch(settings, batches)
        epochs = math.ceil(4 * warmup / per_epoch)
        longer = f"training.max_epochs={epochs} ({epochs * per_epoch} updates)"
    line = (
        f"training.warmup_updates={warmup}: {updates} updates, {min(warmup, updates)} of them"
        f" warm-up, are few to learn from; type {longer},"
        f" or training.warmup_updates={updates // 10}"
    )
    return inspection._replace(warnings=(*inspection.warnings, line))


def _own_data(experiment: Experiment, task: TrainingTask, batches: int) -> str:
    """Return a line on the size of the user's own data and on how long the run trains."""
    settings = experiment.training
    sizes = " / ".join(f"{task.sizes[split]:,}" for split in SPLITS)
    per_epoch, updates = updates_per_epoch(settings, batches), planned_updates(settings, batches)
    line = f"own data: {sizes} examples to train, validate and test on;"
    line += f" {counted(per_epoch, 'update')} per epoch, {updates:,} in all"
    if settings.warmup_updates:
        line += f", {min(settings.warmup_updates, updates)} of them warm-up"
    all_data = {"train_fraction": "1", "train_images": "null"}  # a smaller scale may have less
    for key, whole in all_data.items():
        value = getattr(experiment.data, key, None)
        if value not in (None, 1):
            line += f"; data.{key}={value} trains on no more, data.{key}={whole} on all"
    return line


def _facts(experiment: Experiment, prepared: Prepared, inspection: Inspection) -> dict[str, Any]:
    """Return the fields of a result that do not depend on how the run ends."""
    sites = prepared.sites
    prefixes = tuple(f"{site}." for site in (*sites.swapped, *sites.kept))
    sizes = {name: parameter.numel() for name, parameter in prepared.model.named_parameters()}
    norm_sizes = [size for name, size in sizes.items() if name.startswith(prefixes)]
    return {
        "task": experiment.task.name,
        "norm": experiment.norm.name,
        "scale": experiment.scale,
        "seed": experiment.seed,
        "precision": experiment.precision,
        "own_data": experiment.own_data,
        "norm_sites": sites.swapped,
        "layernorm_sites": sites.kept,
        "parameters": sum(sizes.values()),
        "norm_parameters": sum(norm_sizes),
        "data": prepared.task.checksums,
        "prepared": inspection.counts or None,
        "warnings": list(inspection.warnings) or None,
    }


def _finish(
    folder: RunFolder, task: TrainingTask, run: str, facts: dict[str, Any], end: Outcome
) -> Result:
    """Set the outputs of a run, write its weights with its digest `run`, and return its result."""
    state, test = end.state, end.test
    if test and test.outputs:
        folder.set_outputs(test.outputs, task.counted(test.outputs))
    if end.weights:
        save_weights(folder.weights, end.weights, run)
    if test:
        facts |= {"valid": state.valid, "test": test.metrics, "signatures": test.signatures or None}
    return Result(
        **facts,
        status="diverged" if state.diverged else "done",
        diverged=state.diverged,
        best_step=state.best_update,
        steps=state.update,
        seconds=round(state.seconds, 1),
        cpu_seconds=round(state.cpu_seconds, 1),
        averaged=[update for _, update in state.kept] or None,
    )


def trained_model(experiment: Experiment, kind: type[Kind]) -> tuple[Kind, nn.Module]:
    """Return the task of a run and its trained model.

    Raises ValueError if its weights are not here.
    """
    path = RunFolder(experiment.folder()).weights
    if not path.exists():
        raise ValueError(
            f"{path_text(path.parent)} holds no {path.name}: make the run here first, with"
            " runs=FOLDER if its record came with the repository, and give the same runs=FOLDER"
        )
    prepared = prepare(experiment)
    assert isinstance(prepared.task, kind), "the command has checked the kind"
    prepared.model.load_state_dict(load_weights(path, experiment.digest))
    return prepared.task, prepared.model.eval()
