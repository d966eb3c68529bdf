"""What a data set is: its files with sizes, checksums and addresses, and its license."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class File:
    """One file of a source; the first address that gives the right bytes is used.

    `https://...tgz#name` is the member of that name of an archive. Where nobody has published a checksum,
    what is made of the file is compared with what is published of that (`Source.counts`).
    """

    name: str
    size: int | None  # bytes; None: not published
    checksum: str | None  # "sha256:...", "md5:..." or "git:...", the id that git gives the content
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """A data set; `folder` is its name in a mirror and in the cache."""

    folder: str
    license: str
    files: tuple[File, ...]
    counts: tuple[int, int, int] | None = None  # published: examples of train, valid, test once prepared
    tolerance: float = 0.005  # relative difference from `counts` beyond which it is another corpus
    instead: str | None = None  # another source that has the same content
    edition_of: str | None = None  # the source of the same corpus that is the default
    preset: str | None = None  # of the settings for this edition
