"""What a data set is: its files with sizes, checksums and addresses, and its licence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a source; the first address that gives the right bytes is used.

    Where nobody has published a checksum, what is made of the file is checked (`Source.counts`).
    """

    name: str
    size: int | None  # bytes; None: not published
    checksum: str | None  # "sha256:..." or "md5:..."
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A data set; `folder` is its name in a mirror and in the cache."""

    folder: str
    licence: str
    files: tuple[File, ...]
    counts: tuple[int, int, int] | None = None  # examples of train, valid, test once prepared
    instead: str | None = None  # another source that has the same content
