"""What data exist: file names, sizes, checksums, addresses and licences, from catalogue.yaml."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from adanorm.config.yaml_file import read_yaml_file


class File(NamedTuple):
    """One file of a source; the first address that gives the right bytes is used."""

    name: str
    size: int | None  # bytes; None: not published
    checksum: str | None  # "sha256:...", "md5:..." or "git:...", the id that git gives the content; or None
    addresses: tuple[str, ...]  # `https://...tgz#name` is the member of that name of an archive


class Source(NamedTuple):
    """A data set; `folder` is its name in a mirror and in the cache."""

    folder: str
    license: str
    files: tuple[File, ...]
    counts: tuple[int, int, int] | None = None  # published: examples of train, valid, test once prepared
    tolerance: float = 0.005  # relative difference from `counts` beyond which it is another corpus
    instead: str | None = None  # another source that has the same content
    edition_of: str | None = None  # the source of the same corpus that is the default
    preset: str | None = None  # of the settings for this edition


DIGESTS = {32: "md5", 40: "git", 64: "sha256"}  # by their number of hexadecimal digits


def _file(line: str, addresses: Iterable[str]) -> File:
    """Return the file of a line `name size checksum`, with its addresses as they are asked."""
    name, size, checksum = line.split()
    asked = (address.replace("(s)", letter).format(name) for address in addresses for letter in ("s", ""))
    return File(
        name,
        None if size == "-" else int(size),
        None if checksum == "-" else f"{DIGESTS[len(checksum)]}:{checksum}",
        tuple(dict.fromkeys(asked)),
    )


def _source(name: str, parts: list[dict[str, Any]], **listed: Any) -> Source:
    lines = [(line, part.get("addresses", ())) for part in parts for line in part["files"].splitlines()]
    counts = tuple(listed.pop("counts")) if "counts" in listed else None
    return Source(**{"folder": name, **listed}, files=tuple(_file(*line) for line in lines), counts=counts)


SOURCES: dict[str, Source] = {
    name: _source(name, **listed)
    for name, listed in read_yaml_file(Path(__file__).with_name("catalogue.yaml")).items()
}
