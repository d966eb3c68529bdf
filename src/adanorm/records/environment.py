"""What a run was computed with."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from adanorm.config.digest import sha256
from adanorm.config.paths import PROJECT
from adanorm.config.portable import HELD, VARIABLE
from adanorm.records import checkout

PACKAGES = ("adanorm", "torch", "numpy", "hydra-core", "ve-fairseq", "sacrebleu")
CONSTRAINTS = PROJECT / "constraints.txt"


def describe(
    *,
    device: torch.device,
    precision: str,
    processes: int,
    threads: int,
    norm_backend: str | None = None,
    numerics_version: int | None = None,
) -> dict[str, Any]:
    """Return commit, versions and hardware as plain values; no path and no host name."""
    return {
        "commit": checkout.commit(),
        "dirty": checkout.is_dirty(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        **({"constraints": sha256(CONSTRAINTS)} if CONSTRAINTS.exists() else {}),
        "system": platform.system(),
        "machine": platform.machine(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu(),
        "arithmetic": _arithmetic(),
        "precision": precision,
        "processes": processes,
        "threads": threads,
        **({"norm_backend": norm_backend} if norm_backend else {}),
        **({"numerics_version": numerics_version} if numerics_version else {}),
    }


HOLDS = (VARIABLE, *HELD, "MKL_ENABLE_INSTRUCTIONS")


def _arithmetic() -> dict[str, str]:
    """Return what decides the last digits on a CPU: the instructions used, the libraries of products.

    And the variables that hold them to fewer, where they are set.
    """
    text = torch.__config__.show()
    mkl, blas = re.search(r"Math Kernel Library Version ([\d.]+)", text), re.search(r"BLAS_INFO=(\w+)", text)
    onednn = re.search(r"MKL-DNN v([\d.]+)", text)
    found = {"instructions": torch.backends.cpu.get_cpu_capability()}
    if mkl or blas:
        found["BLAS"] = f"MKL {mkl[1]}" if mkl else blas[1] if blas else ""
    if onednn:
        found["oneDNN"] = onednn[1]
    held = {name: os.environ[name] for name in HOLDS if name in os.environ}
    return {**found, **held}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
