"""What decided the last digits of a run on record."""

from __future__ import annotations

import json
from pathlib import Path


def arithmetic(folder: Path) -> str | None:
    """Return what decided the last digits of a run on record; None where the record does not say.

    By these a score differs as by another seed: the version of our own numerics (of a record that names
    none, 1), whether our kernels computed its norms, PyTorch's version, and the processor.
    """
    path = folder / "environment.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text("utf-8"))
    numerics = f"numerics {found.get('numerics_version', 1)}"
    kernels = "" if "norm_backend" in found else " before the norms' kernels"
    return f"{numerics}{kernels}, torch {found['packages'].get('torch')}, {found['device']}"
