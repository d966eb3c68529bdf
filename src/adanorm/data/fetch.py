"""Getting a source's files: verified before use, landed whole, resumed where a download broke off."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import urllib.parse
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import pooch
import requests
from filelock import FileLock
from tqdm import tqdm

from adanorm.config.data_sections import DataSection
from adanorm.config.paths import cache_of, mirrors_of
from adanorm.data import packed
from adanorm.data.catalogue import SOURCES
from adanorm.data.source import File, Source
from adanorm.files import write_whole

CONNECT_SECONDS, READ_SECONDS = 5, 60


def fetch(source: str, data: DataSection) -> dict[str, Path]:
    """Return the verified files of a source by name, downloading those that are missing.

    Tried in this order: the cache, the mirrors, the canonical addresses; a line says which mirror was
    used. Raises ValueError, with every address tried and what went wrong there, where a file cannot be
    had.
    """
    entry = SOURCES[source]
    found = {file.name: _fetch_file(entry, file, data) for file in entry.files}
    files: dict[str, list[File]] = {}  # by mirror
    for file in entry.files:
        if (mirror := found[file.name][1]) is not None:
            files.setdefault(mirror, []).append(file)
    for mirror, those in files.items():
        checked = sum(file.checksum is not None for file in those)
        _say(f"{source}: {len(those)} file(s) from the mirror {mirror}, {checked} with a published checksum")
    return {name: path for name, (path, _) in found.items()}


def _say(line: str) -> None:
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        print(line, flush=True)


def availability(source: str, data: DataSection) -> str | None:
    """Return None if the files of a source can be had here, else why not; downloads nothing."""
    if source not in SOURCES:
        return None
    entry = SOURCES[source]
    for file in entry.files:
        if (cache_of(data) / entry.folder / file.name).is_file():
            continue
        if not any(_answers(address) for address, _ in _addresses(entry, file, data)):
            instead = entry.instead and availability(entry.instead, data)
            if entry.instead is None or instead is not None:
                return f"{instead or file.name + ' cannot be had (no network or no mirror)'}"
    return None


def _addresses(entry: Source, file: File, data: DataSection) -> list[tuple[str, str | None]]:
    """Return where a file may be, each with the mirror that it is in, if it is one."""
    mirrored = [(f"{m.rstrip('/')}/{entry.folder}/{file.name}", m) for m in mirrors_of(data)]
    return [*mirrored, *((address, None) for address in file.addresses)]


def _fetch_file(entry: Source, file: File, data: DataSection) -> tuple[Path, str | None]:
    """Return a file, wherever it is from verified against its checksum, and the mirror that it is from."""
    folder = cache_of(data) / entry.folder
    cached = folder / file.name
    problems: list[str] = []
    for address, mirror in ((str(cached), None), *_addresses(entry, file, data)):
        try:
            path = _local(address) or _downloaded(address, folder, file)
            problem = _problem(path, file, folder)
            if problem is None:
                _sweep(folder, file)
                return path, mirror
            problems.append(f"{address}: {problem}")
        except FileNotFoundError as error:
            if address != str(cached):  # where it is not yet, mostly
                problems.append(f"{address}: {_reason(error)}")
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {_reason(error)}")
    raise ValueError(
        f"cannot get {file.name}: {'; '.join(problems)}. Without a network, put it into"
        f" {entry.folder}/ of a mirror folder and name that with ADANORM_MIRROR or data.mirror"
    )


def _problem(path: Path, file: File, folder: Path) -> str | None:
    """Return how a file differs from its published checksum, if it does, or from what it was at first.

    One without a published checksum is read to its end the first time, and its own is kept in `folder`.
    """
    kept = folder / f"{file.name}.sha256"
    known = file.checksum or _read_kept(kept)
    algorithm, _, expected = (known or "sha256:").partition(":")
    with path.open("rb") as content:
        found = hashlib.file_digest(content, algorithm).hexdigest()
    if known is None:
        packed.check(path)
        with suppress(OSError):  # where nothing can be kept, it is read to its end every time
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(kept, f"sha256:{found}\n".encode())
    elif found != expected:
        hint = "" if file.checksum else f" as when it was first used ({kept} says so)"
        return f"{algorithm} is {found[:12]}..., not {expected[:12]}...{hint}"
    return None


def _read_kept(path: Path) -> str | None:
    text = path.read_text("ascii", "replace").strip() if path.is_file() else ""
    return text if re.fullmatch("sha256:[0-9a-f]{64}", text) else None


def _reason(error: Exception) -> str:
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, ValueError) and "hash" in str(error):
        return "the bytes there have another checksum"
    return " ".join(str(error).split())


def _local(address: str) -> Path | None:
    """Return the path an address names, or None for one of the network."""
    scheme, _, rest = address.partition(":")
    if scheme in ("http", "https"):
        return None
    if scheme == "package":
        package, _, inside = rest.partition("/")
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise FileNotFoundError(f"the package {package} is not installed")
        return Path(spec.submodule_search_locations[0]) / inside
    return Path(address)


def _answers(address: str) -> bool:
    try:
        local = _local(address)
        if local is not None:
            return local.is_file()
        return requests.head(address, timeout=CONNECT_SECONDS, allow_redirects=True).ok
    except OSError:
        return False


def _downloaded(address: str, folder: Path, file: File) -> Path:
    """Return the path of a file downloaded into a folder; one of wrong bytes does not come there."""
    folder.mkdir(parents=True, exist_ok=True)
    pooch.get_logger().setLevel("WARNING")
    part, unverified = _leftovers(folder, file)
    with FileLock(folder / f"{file.name}.lock"):
        there = folder / file.name
        if there.is_file() and _problem(there, file, folder) is None:
            return there  # another process got it while this one waited
        shutil.rmtree(unverified, ignore_errors=True)  # of a process that was killed
        try:
            got = pooch.retrieve(
                address,
                known_hash=file.checksum,
                fname=file.name,
                path=unverified,
                downloader=_ResumingDownloader(part, file.size),
            )
            if file.checksum is None:
                packed.check(Path(got))
            return Path(got).replace(there)
        finally:
            shutil.rmtree(unverified, ignore_errors=True)


def _leftovers(folder: Path, file: File) -> tuple[Path, Path]:
    """Return where a download that was killed leaves what it got: a part, and a folder."""
    return folder / f"{file.name}.part", folder / f"{file.name}.unverified"


def _sweep(folder: Path, file: File) -> None:
    """Remove what downloads that were killed left of a file that is there now, if nobody holds it."""
    part, unverified = _leftovers(folder, file)
    if not (part.exists() or unverified.exists()):
        return
    with suppress(OSError), FileLock(folder / f"{file.name}.lock", timeout=0):  # a Timeout is such an error
        part.unlink(missing_ok=True)
        shutil.rmtree(unverified, ignore_errors=True)


class _ResumingDownloader:
    """A downloader for pooch that goes on from what an earlier start had got."""

    def __init__(self, part: Path, size: int | None) -> None:
        self.part, self.size = part, size

    def __call__(self, url: str, output_file: str | TextIO, pooch_instance: Any) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        if self.size is not None and have > self.size:
            have = 0
        if have != self.size:
            self._continue(url, have)
        # Out of the way before it is verified: wrong bytes must not be taken up again.
        self.part.replace(str(output_file))

    def _continue(self, url: str, have: int) -> None:
        headers = {"Accept-Encoding": "identity"}  # the file's own bytes: they are what is counted
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(
            url, headers=headers, stream=True, timeout=(CONNECT_SECONDS, READ_SECONDS)
        ) as answer:
            if have and answer.status_code == requests.codes.requested_range_not_satisfiable:
                return  # there is no more of it
            answer.raise_for_status()
            goes_on = answer.status_code == requests.codes.partial_content
            name = Path(urllib.parse.urlsplit(url).path).name
            with (
                self.part.open("ab" if goes_on else "wb") as part,
                tqdm(
                    total=self.size,
                    initial=have if goes_on else 0,
                    desc=name,
                    unit="B",
                    unit_scale=True,
                    disable=not sys.stderr.isatty(),
                ) as bar,
            ):
                for chunk in answer.iter_content(1 << 16):
                    part.write(chunk)
                    bar.update(len(chunk))
