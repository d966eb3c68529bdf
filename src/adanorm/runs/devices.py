"""Whether the GPUs that are asked for are there, and what to install where none can be used."""

import os
from pathlib import Path

from adanorm.records.environment import driver_version

CONTROL_DEVICE = Path("/dev/nvidiactl")  # of NVIDIA's driver, there where a GPU is


def usable_devices() -> int:
    """Return how many CUDA devices torch can use here."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def check_devices(gpus: int, *, is_asked: bool = False) -> None:
    """Raise ValueError where the GPUs that a run asks for are not there, or torch cannot use this machine's.

    A run asks for GPUs where it wants more than one, or where device=cuda says so (`is_asked`). A user who
    hides the devices with CUDA_VISIBLE_DEVICES and asks for none wants the CPU, and so does one in a
    container that sees the machine's driver and was given no device.
    """
    count = usable_devices()
    is_asked = is_asked or gpus > 1
    if count == 0 and (is_asked or (driver_version() and CONTROL_DEVICE.exists() and not _are_hidden())):
        raise ValueError(f"{'GPUs asked for, and' if is_asked else 'an NVIDIA GPU, and'} {no_cuda()}")
    if is_asked and gpus > count:
        devices = "1 CUDA device" if count == 1 else f"{count} CUDA devices"
        raise ValueError(f"gpus={gpus}: this machine has {devices}; name at most as many, or device=cpu")


def _are_hidden() -> bool:
    return os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1", "NoDevFiles")  # the last is SLURM's


def no_cuda() -> str:
    """Return why torch sees no CUDA device here, and what to install."""
    import torch

    built, driver = torch.version.cuda, driver_version()
    if driver and built and not CONTROL_DEVICE.exists():
        remedy = "give this container its GPUs, as `docker run --gpus all` does"
    elif _are_hidden():
        remedy = "unset CUDA_VISIBLE_DEVICES, which hides them"
    elif driver is None or built is None:
        needed = {"NVIDIA's driver": driver, "a CUDA build of torch": built}
        missing = " and ".join(name for name, version in needed.items() if version is None)
        remedy = f"install {missing}, see docs/howto/gpus.md"
    else:
        remedy = f"install a driver for CUDA {built}, or torch built for this driver: docs/howto/gpus.md"
    return (
        f"torch sees no CUDA device: torch {torch.__version__} is built for"
        f" {f'CUDA {built}' if built else 'no CUDA'}, NVIDIA's driver is {driver or 'not installed'};"
        f" {remedy}; device=cpu computes on the CPU"
    )
