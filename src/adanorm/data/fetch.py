"""Getting a source's files: verified before use, landed whole, resumed where a download broke off."""

import hashlib
import importlib.util
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from adanorm.config.data_sections import DataConfig
from adanorm.config.paths import PROJECT
from adanorm.config.titles import counted
from adanorm.data import packed
from adanorm.data.catalogue import SOURCES, File, Source
from adanorm.data.download import PATIENCE, ask, download, reason
from adanorm.files import naming, write_whole
from adanorm.process import is_first_process


def mirrors_of(data: DataConfig) -> list[str]:
    """Return the folders and URLs to try before the canonical addresses: the one named, or what exists."""
    if named := data.mirror or os.environ.get("ADANORM_MIRROR"):
        return [named]
    mirrors = [entry if "://" in entry else os.path.normpath(PROJECT / entry) for entry in data.mirrors]
    return [mirror for mirror in mirrors if "://" in mirror or Path(mirror).is_dir()]


def cache_of(data: DataConfig) -> Path:
    """Return the folder that downloads land in."""
    return Path(data.cache) if data.cache else PROJECT / "data"


def fetch(source: str, data: DataConfig) -> dict[str, Path]:
    """Return the verified files of a source by name, downloading those that are missing.

    Tried are the cache, the mirrors, the canonical addresses. Raises ValueError, with every address tried and
    what went wrong there, where a file cannot be had.
    """
    fetched = {file: _fetch_file(SOURCES[source], file, data) for file in SOURCES[source].files}
    for mirror in dict.fromkeys(mirror for _, mirror in fetched.values() if mirror is not None):
        files = [file for file, (_, origin) in fetched.items() if origin == mirror]
        checked = f"{sum(file.checksum is not None for file in files)} with a published checksum"
        if is_first_process():
            print(f"{source}: {counted(len(files), 'file')} from the mirror {mirror}, {checked}", flush=True)
    return {file.name: path for file, (path, _) in fetched.items()}


def availability(source: str, data: DataConfig) -> str | None:
    """Return None if the files of a source can be had here, else why not; downloads nothing."""
    if (entry := SOURCES.get(source)) is None:
        return None
    for file in entry.files:
        addresses = [str(cache_of(data) / entry.folder / file.name), *_addresses(entry, file, data)]
        if not any(map(_answers, addresses)):
            lacking = f"{file.name} cannot be had (no network or no mirror)"
            return availability(entry.instead, data) if entry.instead else lacking
    return None


def _addresses(entry: Source, file: File, data: DataConfig) -> dict[str, str | None]:
    """Return where a file may be, each with the mirror that it is in, if it is one."""
    mirrored = {f"{m.rstrip('/')}/{entry.folder}/{file.name}": m for m in mirrors_of(data)}
    return {**mirrored, **dict.fromkeys(file.addresses)}


def _fetch_file(entry: Source, file: File, data: DataConfig) -> tuple[Path, str | None]:
    """Return a file, wherever it is from verified against its checksum, and the mirror that it is from."""
    folder = cache_of(data) / entry.folder
    cached = {str(folder / file.name): None} if (folder / file.name).exists() else {}
    problems: list[str] = []
    for address, mirror in (cached | _addresses(entry, file, data)).items():
        try:
            if (path := _local(address)) is None:
                return _downloaded(address, folder, file), mirror
            _verify(path, file, folder)
            return path, mirror
        except (OSError, ValueError) as error:
            if _local(address) is None and getattr(error, "errno", None) is not None:
                raise  # a full or read-only disk here, which is no address's fault
            problems.append(f"{address}: {reason(error)}")
    others = [f"preset={other.preset}" for other in editions_of(entry) if other.preset]
    raise ValueError(
        f"cannot get {file.name}: {'; '.join(problems)}. Without a network, put it into"
        f" {entry.folder}/ of a mirror folder and name that with ADANORM_MIRROR or data.mirror"
        + (f"; other editions: {', '.join(others)}" if others else "")
    )


def ask_all(sources: Iterable[Source]) -> dict[str, dict[str, str | None]]:
    """Return what is wrong at each address of the network, or None, by file and address."""
    files = {f"{source.folder}/{file.name}": file for source in sources for file in source.files}
    with ThreadPoolExecutor(8) as pool:
        answers = {
            path: {
                at: pool.submit(ask, at, None if "#" in at else file.size, PATIENCE.read)  # "#": a member
                for at in file.addresses
                if "://" in at
            }
            for path, file in files.items()
        }
    return {path: {at: answer.result() for at, answer in by.items()} for path, by in answers.items()}


def editions_of(entry: Source) -> list[Source]:
    """Return the other editions of a source that is the default one of its corpus."""
    return [other for other in SOURCES.values() if other.edition_of and SOURCES[other.edition_of] is entry]


def missing_files(entry: Source, data: DataConfig) -> list[File]:
    """Return the files of a source that lie neither in the cache nor in a mirror that is a folder."""
    folders = [cache_of(data), *(Path(mirror) for mirror in mirrors_of(data) if "://" not in mirror)]
    return [f for f in entry.files if not any((top / entry.folder / f.name).is_file() for top in folders)]


def _verify(path: Path, file: File, folder: Path) -> None:
    """Raise ValueError where a file differs from its published checksum, or from what it was at first."""
    kept = folder / f"{file.name}.sha256"
    kept_checksum = kept.read_text("ascii", "replace").strip() if kept.is_file() else ""
    known = file.checksum or (kept_checksum if re.fullmatch("sha256:[0-9a-f]{64}", kept_checksum) else None)
    algorithm, _, expected = (known or "sha256:").partition(":")
    with path.open("rb") as content:
        if algorithm == "git":  # SHA-1 after a header that holds the size
            digest = hashlib.file_digest(content, lambda: hashlib.sha1(b"blob %d\0" % path.stat().st_size))
        else:
            digest = hashlib.file_digest(content, algorithm)
    checksum = digest.hexdigest()
    if known is None:
        packed.check(path)
        with suppress(OSError):  # where nothing can be kept, it is read to its end every time
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(kept, f"sha256:{checksum}\n".encode())
    elif checksum != expected:
        hint = "" if file.checksum else f" as when it was first used ({kept} says so)"
        raise ValueError(f"{algorithm} is {checksum[:12]}..., not {expected[:12]}...{hint}")


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
    with suppress(OSError):
        local = _local(address)
        return ask(address, None, PATIENCE.connect) is None if local is None else local.is_file()
    return False


def _downloaded(address: str, folder: Path, file: File) -> Path:
    """Return the path of a file downloaded into a folder; it lands there verified and whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path, part = folder / file.name, folder / f"part.{file.name}"  # so that its suffix says how to read it
    with naming(part), FileLock(folder / f"{file.name}.lock"):
        with suppress(OSError, ValueError):
            _verify(path, file, folder)
            return path  # another process got it while this one waited
        whole, _, member = address.partition("#")
        if member:
            archive = _downloaded(whole, folder, File(Path(whole).name, None, None, ()))
            part.write_bytes(packed.tar_members(archive, [member])[member])
        else:
            download(whole, part, file.size)
        try:
            _verify(part, file, folder)
        except ValueError:
            part.unlink()  # wrong bytes must not be taken up again
            raise
        return part.replace(path)
