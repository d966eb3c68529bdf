"""Archives written for tests."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path


def archive(path: Path, members: Mapping[str, str | bytes], *, level: int = 6) -> Path:
    with tarfile.open(path, "w:gz", compresslevel=level) as file:
        for name, content in members.items():
            packed = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(packed)
            file.addfile(info, io.BytesIO(packed))
    return path
