"""Files that may be gzipped."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path


def content(path: Path) -> bytes:
    """Return a file's bytes, unpacked if its name ends in .gz.

    Raises ValueError where such a file is cut off or corrupted.
    """
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path.name}: not a whole gzip file ({error})") from None
