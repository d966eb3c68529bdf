"""The sources of data in catalogue.yaml: file names, sizes, checksums, addresses and licences."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from adanorm.config.values import read_yaml_file


class File(NamedTuple):
    """A file of a source, taken from the first address that gives the right bytes."""

    name: str
    size: int | None  # bytes; None: not published
    checksum: (
        str | None
    )  # "sha256:...", "md5:..." or "git:..." (the blob's id); None: not published
    addresses: tuple[str, ...]  # `https://...tgz#name` means member `name` of an archive


class Source(NamedTuple):
    """A data set; its files lie in `folder` of a mirror and of the cache."""

    folder: str
    license: str
    files: tuple[File, ...]
    counts: Sequence[int] | None = (
        None  # published numbers of prepared train, valid and test examples
    )
    tolerance: float = 0.005  # a larger relative difference from `counts` means another corpus
    attribution: str | None = None  # whom the licence asks to name
    instead: str | None = None  # another source with the same content
    includes: Sequence[str] = ()  # the sources that are read together under this name
    edition_of: str | None = None  # the default source of the same corpus
    preset: str | None = None  # has the settings for this edition

    @property
    def all_files(self) -> list[File]:
        """Its own files and those of the sources that it includes."""
        files = [*self.files]
        for included in self.includes:
            files += SOURCES[included].files
        return files


DIGESTS = {32: "md5", 40: "git", 64: "sha256"}  # by number of hexadecimal digits


def _file(line: str, addresses: Iterable[str]) -> File:
    """Return the file of a line `name size checksum`, with complete addresses."""
    name, size, checksum = line.split()
    urls = []
    for address in addresses:
        urls.append(address.replace("(s)", "s").format(name))
        if "(s)" in address:
            urls.append(address.replace("(s)", "").format(name))
    return File(
        name,
        None if size == "-" else int(size),
        None if checksum == "-" else f"{DIGESTS[len(checksum)]}:{checksum}",
        tuple(urls),
    )


def _read_sources() -> dict[str, Source]:
    sources = {}
    entries = read_yaml_file(Path(__file__).with_name("catalogue.yaml"))
    for name, entry in entries.items():
        files = []
        for part in entry.pop("parts"):
            for line in part["files"].splitlines():
                files.append(_file(line, part.get("addresses", ())))
        sources[name] = Source(**{"folder": name, **entry}, files=tuple(files))
    return sources


SOURCES = _read_sources()
