"""Whether the GPUs that a run asks for are there, and what to install if none can be used."""

import os
from pathlib import Path

from adanorm.records.environment import driver_version

CONTROL_DEVICE = Path("/dev/nvidiactl")  # NVIDIA's driver makes it if there is a GPU


def usable_devices() -> int:
    """Return how many CUDA devices torch can use here."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_devices(gpus: int, *, is_required: bool = False) -> None:
    """Raise ValueError if a run's GPUs are not there, or if torch cannot use this machine's.

    A run asks for GPUs if it needs more than one, or has device=cuda (`is_required`). A run that
    does not ask is computed on the CPU, without an error, if CUDA_VISIBLE_DEVICES hides the
    devices, or if it runs in a container that has no device but sees the machine's driver.
    """
    count = usable_devices()
    is_required = is_required or gpus > 1
    if count == 0 and (
        is_required or (driver_version() and CONTROL_DEVICE.exists() and not _are_hidden())
    ):
        raise ValueError(
            f"{'GPUs asked for, and' if is_required else 'an NVIDIA GPU, and'} {no_cuda()}"
        )
    if is_required and gpus > count:
        devices = "1 CUDA device" if count == 1 else f"{count} CUDA devices"
        raise ValueError(
            f"gpus={gpus}: this machine has {devices}; name at most as many, or device=cpu"
        )


def _are_hidden() -> bool:
    return os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles")  # the last is SLURM's


def no_cuda() -> str:
    """Return why torch sees no CUDA device here, and what to install."""
    import torch

    cuda, driver = torch.version.cuda, driver_version()
    if driver and cuda and not CONTROL_DEVICE.exists():
        remedy = "give this container its GPUs, as `docker run --gpus all` does"
    elif _are_hidden():
        remedy = "unset CUDA_VISIBLE_DEVICES, which hides them"
    elif driver is None or cuda is None:
        parts = {"NVIDIA's driver": driver, "a CUDA build of torch": cuda}
        missing = " and ".join(name for name, version in parts.items() if version is None)
        remedy = f"install {missing}, see docs/howto/gpus.md"
    else:
        remedy = (
            f"install a driver for CUDA {cuda}, or torch built for this driver: docs/howto/gpus.md"
        )
    return (
        f"torch sees no CUDA device: torch {torch.__version__} is built for"
        f" {f'CUDA {cuda}' if cuda else 'no CUDA'}, NVIDIA's driver is {driver or 'not installed'};"
        f" {remedy}; device=cpu computes on the CPU"
    )
