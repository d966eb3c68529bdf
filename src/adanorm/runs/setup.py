"""What a run is computed with, for runs, analyses and trained weights: device, data, model, norms."""

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from adanorm import tasks
from adanorm.config.experiment import Experiment
from adanorm.models.norm_sites import PlacedNorms, build_with_norms, compatible_norm
from adanorm.norms import backends
from adanorm.records.environment import describe, numerics_version
from adanorm.records.folder import RunFolder, shown
from adanorm.runs.devices import check_devices
from adanorm.tasks.base import TrainingTask
from adanorm.training.checkpoint import load_weights
from adanorm.training.distributed import ALONE, World
from adanorm.training.loop import Trainer
from adanorm.training.state import ComputeContext, seed_of, set_tf32

Kind = TypeVar("Kind", bound=TrainingTask)
BATCHES_AHEAD = 4  # on a GPU


class Prepared(NamedTuple):
    """What a run is computed with; the model is on the device, its weights as they were drawn."""

    device: torch.device
    norm_backend: str  # what computes the norms there
    task: TrainingTask
    model: nn.Module
    sites: PlacedNorms


def prepare(experiment: Experiment, task: TrainingTask | None = None) -> Prepared:
    """Return what a run is computed with; writes nothing.

    The same seed draws the same initial weights under every norm. A `task` with its data loaded
    already, such as another norm's, is taken as it is. Raises ValueError for what the user can mend:
    a norm that does not exist or does not suit the model, data or a device that cannot be had.
    """
    torch.set_num_threads(experiment.threads)
    device = choose_device(experiment)
    set_tf32(experiment.precision)
    # From sm_90 on torch prefers cuDNN's attention in half precision, which plans anew for every shape.
    torch.backends.cuda.enable_cudnn_sdp(False)
    make_norm = compatible_norm(experiment)
    norm_backend = backends.describe(make_norm.trial, experiment.norm.backend, device.type)
    task = task or tasks.build(experiment)
    torch.manual_seed(experiment.seed)
    model, sites = build_with_norms(
        lambda place_norm: task.build_model(place_norm).to(device), make_norm, experiment.norm.placement
    )
    return Prepared(device, norm_backend, task, model, sites)


def start_trainer(experiment: Experiment, prepared: Prepared, world: World = ALONE) -> Trainer:
    """Return the trainer of a run at its very start, and seed torch for it."""
    # Dropout differs between processes, and from that of every other seed.
    torch.manual_seed(seed_of(experiment.seed, world.rank) if world.rank else experiment.seed)
    metric = experiment.task.selection_metric
    where = prepared.device, experiment.precision, world, 60 * experiment.checkpoint_minutes
    ahead = BATCHES_AHEAD if prepared.device.type == "cuda" else 0
    context = ComputeContext(*where, batches_ahead=ahead, compile=experiment.compile)
    return Trainer(prepared.task, prepared.model, metric, experiment.training, context)


def describe_environment(experiment: Experiment, prepared: Prepared, *, processes: int) -> dict[str, Any]:
    """Return what a run is computed with as plain values, for its record."""
    return describe(
        device=prepared.device,
        precision=experiment.precision,
        processes=processes,
        threads=experiment.threads,
        norm_backend=prepared.norm_backend,
        numerics_version=numerics_version(experiment.norm.name, prepared.device),
    )


def choose_device(experiment: Experiment) -> torch.device:
    """Return the device of this process; raises ValueError for GPUs that are asked for and are not there."""
    if experiment.device != "cpu":
        check_devices(int(os.environ.get("LOCAL_WORLD_SIZE", "1")), is_asked=experiment.device == "cuda")
    if experiment.device == "cpu" or not torch.cuda.is_available():
        if experiment.precision == "tf32":
            raise ValueError("precision=tf32: a CPU has no TF32; choose fp32 or bf16, or a CUDA device")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def free_bytes(path: Path) -> int:
    """Return how much room there is on the disk of a path, which need not exist yet."""
    return shutil.disk_usage(next(folder for folder in (path, *path.parents) if folder.exists())).free


def trained(experiment: Experiment, kind: type[Kind]) -> tuple[Kind, nn.Module]:
    """Return a run's task, of that kind, and its trained model; ValueError where its weights are not here."""
    path = RunFolder(experiment.folder()).weights
    if not path.exists():
        raise ValueError(
            f"{shown(path.parent)} holds no {path.name}: make the run here first, with"
            " runs=FOLDER if its record came with the repository, and give the same runs=FOLDER"
        )
    prepared = prepare(experiment)
    assert isinstance(prepared.task, kind), "the command asks for the kind before"
    prepared.model.load_state_dict(load_weights(path, experiment.digest))
    return prepared.task, prepared.model.eval()
