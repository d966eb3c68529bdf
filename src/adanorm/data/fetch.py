"""Getting a source's files: verified before use, landed whole, resumed where a download broke off."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import requests
from filelock import FileLock

from adanorm.config.data_sections import DataConfig
from adanorm.config.paths import PROJECT
from adanorm.data import packed
from adanorm.data.catalogue import SOURCES, File, Source
from adanorm.data.download import PATIENCE, Patience, download, reason
from adanorm.files import write_whole


def mirrors_of(data: DataConfig) -> list[str]:
    """Return the folders and URLs to try before the canonical addresses, in their order.

    They are `data.mirror`, else ADANORM_MIRROR, else those of `data.mirrors` that exist: folders
    relative to the checkout, or URLs.
    """
    if named := data.mirror or os.environ.get("ADANORM_MIRROR"):
        return [named]
    mirrors = [entry if "://" in entry else os.path.normpath(PROJECT / entry) for entry in data.mirrors]
    return [mirror for mirror in mirrors if "://" in mirror or Path(mirror).is_dir()]


def cache_of(data: DataConfig) -> Path:
    """Return the folder that downloads land in."""
    return Path(data.cache) if data.cache else PROJECT / "data"


def fetch(source: str, data: DataConfig, patience: Patience = PATIENCE) -> dict[str, Path]:
    """Return the verified files of a source by name, downloading those that are missing.

    Tried in this order: the cache, the mirrors, the canonical addresses; a line says which mirror was
    used. Raises ValueError, with every address tried and what went wrong there, where a file cannot be
    had.
    """
    entry = SOURCES[source]
    found = {file.name: _fetch_file(entry, file, data, patience) for file in entry.files}
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


def availability(source: str, data: DataConfig) -> str | None:
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


def _addresses(entry: Source, file: File, data: DataConfig) -> list[tuple[str, str | None]]:
    """Return where a file may be, each with the mirror that it is in, if it is one."""
    mirrored = [(f"{m.rstrip('/')}/{entry.folder}/{file.name}", m) for m in mirrors_of(data)]
    return [*mirrored, *((address, None) for address in file.addresses)]


def _fetch_file(entry: Source, file: File, data: DataConfig, patience: Patience) -> tuple[Path, str | None]:
    """Return a file, wherever it is from verified against its checksum, and the mirror that it is from."""
    folder = cache_of(data) / entry.folder
    cached = folder / file.name
    problems: list[str] = []
    for address, mirror in ((str(cached), None), *_addresses(entry, file, data)):
        try:
            path = _local(address) or _downloaded(address, folder, file, patience)
            problem = _problem(path, file, folder)
            if problem is None:
                _sweep(folder, file)
                return path, mirror
            problems.append(f"{address}: {problem}")
        except FileNotFoundError as error:
            if address != str(cached):  # where it is not yet, mostly
                problems.append(f"{address}: {reason(error)}")
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {reason(error)}")
    others = [f"preset={other.preset}" for other in editions_of(entry) if other.preset]
    raise ValueError(
        f"cannot get {file.name}: {'; '.join(problems)}. Without a network, put it into"
        f" {entry.folder}/ of a mirror folder and name that with ADANORM_MIRROR or data.mirror"
        + (f"; other editions: {', '.join(others)}" if others else "")
    )


def editions_of(entry: Source) -> list[Source]:
    """Return the other editions of a source that is the default one of its corpus."""
    return [other for other in SOURCES.values() if other.edition_of and SOURCES[other.edition_of] is entry]


def is_at_hand(entry: Source, data: DataConfig) -> bool:
    """Return whether every file of a source lies in the cache or in a mirror that is a folder."""
    return not missing_files(entry, data)


def missing_files(entry: Source, data: DataConfig) -> list[File]:
    """Return the files of a source that lie neither in the cache nor in a mirror that is a folder."""
    places = [cache_of(data), *(Path(mirror) for mirror in mirrors_of(data) if "://" not in mirror)]
    return [f for f in entry.files if not any((place / entry.folder / f.name).is_file() for place in places)]


def _problem(path: Path, file: File, folder: Path) -> str | None:
    """Return how a file differs from its published checksum, if it does, or from what it was at first.

    One without a published checksum is read to its end the first time, and its own is kept in `folder`.
    """
    kept = folder / f"{file.name}.sha256"
    known = file.checksum or _read_kept(kept)
    algorithm, _, expected = (known or "sha256:").partition(":")
    with path.open("rb") as content:
        found = hashlib.file_digest(content, _digest_of(algorithm, path)).hexdigest()
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


def _digest_of(algorithm: str, path: Path) -> Callable[[], hashlib._Hash]:
    """Return what starts a digest; git's is SHA-1 after a header that holds the size."""
    if algorithm == "git":
        return lambda: hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    return lambda: hashlib.new(algorithm)


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
        return requests.head(address, timeout=PATIENCE.connect, allow_redirects=True).ok
    except OSError:
        return False


def _downloaded(address: str, folder: Path, file: File, patience: Patience) -> Path:
    """Return the path of a file downloaded into a folder; one of wrong bytes does not come there."""
    folder.mkdir(parents=True, exist_ok=True)
    part, unverified = _leftovers(folder, file)
    with FileLock(folder / f"{file.name}.lock"):
        there = folder / file.name
        if there.is_file() and _problem(there, file, folder) is None:
            return there  # another process got it while this one waited
        whole, _, member = address.partition("#")
        if member:
            archive = File(Path(whole).name, None, None, (whole,))
            packing = _downloaded(whole, folder, archive, patience)
            unverified.write_bytes(_member(packing, member))
        else:
            download(whole, part, file.size, patience)
            part.replace(unverified)  # wrong bytes must not be taken up again
        try:
            if problem := _problem(unverified, file, folder):
                raise ValueError(problem)
            return unverified.replace(there)
        finally:
            unverified.unlink(missing_ok=True)


def _member(archive: Path, name: str) -> bytes:
    found = packed.tar_members(archive, [name])
    if name not in found:
        raise ValueError(f"{archive.name}: holds no {name}")
    return found[name]


def _leftovers(folder: Path, file: File) -> tuple[Path, Path]:
    """Return where a download that was killed leaves what it got: a part, and a whole not yet verified."""
    return folder / f"{file.name}.part", folder / f"unverified.{file.name}"


def _sweep(folder: Path, file: File) -> None:
    """Remove what downloads that were killed left of a file that is there now, if nobody holds it."""
    leftovers = [path for path in _leftovers(folder, file) if path.exists()]
    if leftovers:
        with (
            suppress(OSError),
            FileLock(folder / f"{file.name}.lock", timeout=0),
        ):  # a Timeout is such an error
            for path in leftovers:
                path.unlink(missing_ok=True)
