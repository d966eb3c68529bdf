"""Archives written for tests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path


def archive(path: Path, members: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            made.addfile(info, io.BytesIO(text.encode()))
    return path
