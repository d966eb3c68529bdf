"""Prepares device, data, model and norms of a run, also for analyses and for trained weights."""

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.models.norm_sites import PlacedNorms, build_with_norms, why_unsupported
from adanorm.norms import NormFactory, backends, norm_factory
from adanorm.norms.check import check_before_training
from adanorm.records.environment import describe, numerics_version
from adanorm.records.folder import RunFolder, path_text
from adanorm.runs.devices import check_devices
from adanorm.tasks import build as build_task
from adanorm.tasks.base import TrainingTask
from adanorm.training.checkpoint import load_weights
from adanorm.training.distributed import ALONE, World
from adanorm.training.loop import Trainer
from adanorm.training.state import ComputeContext, seed_of, set_tf32

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
        check_before_training(experiment.norm.choice)
    make_norm = compatible_norm(experiment)
    norm_backend = backends.describe(
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
    reason = why_unsupported(
        make_norm.trial,
        experiment.model.sites(),
        batch_size,
    )
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
