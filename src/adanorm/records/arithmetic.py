"""What decided the last digits of a run on record."""

from __future__ import annotations

from pathlib import Path

from adanorm.config.portable import VARIABLE
from adanorm.records.reader import environment


def arithmetic(folder: Path) -> str | None:
    """Return what decided the last digits of a run on record; None where the record does not say.

    By these a score differs as by another seed: the version of our own numerics (of a record that names
    none, 1), whether our kernels computed its norms, PyTorch's version, the processor, and whether it was
    held to portable arithmetic.
    """
    found = environment(folder)
    if not found:
        return None
    numerics = f"numerics {found.get('numerics_version', 1)}"
    kernels = "" if "norm_backend" in found else " before the norms' kernels"
    held = f", {held_to} arithmetic" if (held_to := found.get("arithmetic", {}).get(VARIABLE)) else ""
    return f"{numerics}{kernels}, torch {found['packages'].get('torch')}, {found['device']}{held}"
