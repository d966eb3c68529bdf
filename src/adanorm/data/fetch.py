"""Fetching a source's files: verified before use, stored only when whole, resumed if interrupted."""

import hashlib
import os
import re
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from adanorm.config.compose import preset_scale
from adanorm.config.data_sections import DataConfig
from adanorm.config.paths import PROJECT, without_password
from adanorm.config.titles import counted
from adanorm.data import packed
from adanorm.data.catalogue import SOURCES, File, Source
from adanorm.files import create_folder, naming, write_whole
from adanorm.process import is_first_process

SHIPPED = Path(__file__).with_name("shipped")  # files that come with the package


def mirrors_of(data: DataConfig) -> list[str]:
    """Return `data.mirror` or ADANORM_MIRROR, else the URLs and existing folders of `data.mirrors`."""
    if mirror := data.mirror or os.environ.get("ADANORM_MIRROR"):
        return [mirror]
    mirrors = []
    for entry in data.mirrors:
        if "://" in entry:
            mirrors.append(entry)
        elif (PROJECT / entry).is_dir():
            mirrors.append(os.path.normpath(PROJECT / entry))
    return mirrors


def cache_of(data: DataConfig) -> Path:
    """Return the folder of downloads."""
    return Path(data.cache) if data.cache else PROJECT / "data"


def fetch(source: str, data: DataConfig) -> dict[str, Path]:
    """Return the paths of a source's verified files by name; missing ones are downloaded.

    The cache, the mirrors and the canonical addresses are tried in this order, then those of the
    source with the same content (`instead`), whose files have other names. Raises ValueError where
    a file cannot be had, with every address that was tried and what went wrong there.
    """
    entry = SOURCES[source]
    try:
        paths = _fetch_files(source, data)
    except ValueError as missing:
        if entry.instead is None:
            raise
        try:
            return fetch(entry.instead, data)
        except ValueError as error:
            raise ValueError(f"{missing}; nor the same data in other files: {error}") from None
    for included in entry.includes:
        paths |= fetch(included, data)
    return paths


def _fetch_files(source: str, data: DataConfig) -> dict[str, Path]:
    paths = {}
    files_by_mirror: dict[str, list[File]] = {}
    for file in SOURCES[source].files:
        paths[file.name], mirror = _fetch_file(
            SOURCES[source],
            file,
            data,
        )
        if mirror is not None:
            files_by_mirror.setdefault(mirror, []).append(file)
    for mirror, files in files_by_mirror.items():
        shown = without_password(mirror)
        checked = sum(file.checksum is not None for file in files)
        if is_first_process():
            print(
                f"{source}: {counted(len(files), 'file')} from the mirror {shown},"
                f" {checked} with a published checksum",
                flush=True,
            )
    return paths


def availability(source: str, data: DataConfig) -> str | None:
    """Return why a source's files cannot be had here, or None (also if unlisted or shipped).

    Downloads nothing.
    """
    entry = SOURCES.get(source)
    if entry is None or is_shipped(entry):
        return None
    for included in entry.includes:
        if lacking := availability(included, data):
            return lacking
    for file in missing_files(entry, data):
        if not any(
            map(
                _answers,
                _addresses(
                    entry,
                    file,
                    data,
                ),
            )
        ):
            lacking = f"{file.name} cannot be had (no network or no mirror)"
            return availability(entry.instead, data) if entry.instead else lacking
    return None


def _addresses(entry: Source, file: File, data: DataConfig) -> dict[str, str | None]:
    """Return the addresses of a file, each with its mirror, or with None if it is canonical."""
    addresses = {}
    for mirror in mirrors_of(data):
        addresses[f"{mirror.rstrip('/')}/{entry.folder}/{file.name}"] = mirror
    return {**addresses, **dict.fromkeys(file.addresses)}


def _fetch_file(entry: Source, file: File, data: DataConfig) -> tuple[Path, str | None]:
    """Return the path of a file, verified wherever it is from, and the mirror that had it, or None."""
    folder = cache_of(data) / entry.folder
    cached = folder / file.name
    addresses = _addresses(entry, file, data)
    if cached.exists():
        addresses = {str(cached): None, **addresses}
    problems = []
    for address, mirror in addresses.items():
        path = _local(address)
        try:
            if path is None:
                return _downloaded(address, folder, file), mirror
            _verify(path, file, folder)
            return path, mirror
        except (OSError, ValueError) as error:
            if (
                path is None
                and getattr(
                    error,
                    "errno",
                    None,
                )
                is not None
            ):
                raise  # a full or read-only disk here is not the address's fault
            from adanorm.data.download import reason  # its imports take half a second

            place = address if path is None else path
            problems.append(without_password(f"{place}: {reason(error)}"))
    choices = []
    for preset in filter(None, (edition.preset for edition in editions_of(entry))):
        scale = preset_scale(preset)  # the only one that it is for
        choices.append(f"scale={scale} preset={preset}" if scale else f"preset={preset}")
    editions = f"; other editions: {', '.join(choices)}" if choices else ""
    tried = "; ".join(problems) or "no address has it"
    raise ValueError(f"cannot get {file.name}: {tried}. {_remedy(entry)}{editions}")


def _remedy(entry: Source) -> str:
    """Return what to do where a file of a source cannot be had."""
    if is_shipped(entry):
        return "It comes with the package: install that again"
    return (
        f"Without a network, put it into {entry.folder}/ of a mirror folder and name that with"
        " ADANORM_MIRROR or data.mirror"
    )


def ask_all(sources: Iterable[Source]) -> dict[str, dict[str, str | None]]:
    """Return by file and by network address what is wrong there, or None."""
    from adanorm.data.download import PATIENCE, ask

    answers: dict[str, dict[str, Future[str | None]]] = {}
    with ThreadPoolExecutor(8) as pool:
        for source in sources:
            for file in source.files:
                asked = answers.setdefault(f"{source.folder}/{file.name}", {})
                for url in file.addresses:
                    size = None if "#" in url else file.size  # "#": a member of an archive
                    if "://" in url and url not in asked:
                        asked[url] = pool.submit(
                            ask,
                            url,
                            size,
                            PATIENCE.read,
                        )
    results = {}
    for path, asked in answers.items():
        results[path] = {url: answer.result() for url, answer in asked.items()}
    return results


def editions_of(entry: Source) -> list[Source]:
    """Return the other editions of a corpus, given the source of its default edition."""
    return [
        source
        for source in SOURCES.values()
        if source.edition_of and SOURCES[source.edition_of] is entry
    ]


def is_shipped(entry: Source) -> bool:
    """Return whether all files of a source come with the package."""
    addresses = [file.addresses for file in entry.files]
    return bool(addresses) and all(any(map(_local, places)) for places in addresses)


def missing_files(entry: Source, data: DataConfig) -> list[File]:
    """Return the files of a source that are not here: in the cache, a mirror folder, the package."""
    folders = [cache_of(data) / entry.folder]
    for mirror in mirrors_of(data):
        if "://" not in mirror:
            folders.append(Path(mirror) / entry.folder)
    missing = []
    for included in entry.includes:
        missing += missing_files(SOURCES[included], data)
    for file in entry.files:
        places = [folder / file.name for folder in folders]
        places += filter(None, map(_local, file.addresses))
        if not any(map(Path.is_file, places)):
            missing.append(file)
    return missing


def _verify(path: Path, file: File, folder: Path) -> None:
    """Raise ValueError if a checksum is not the published one or, if none is, that of the first use."""
    record = folder / f"{file.name}.sha256"
    first = record.read_text("ascii", "replace").strip() if record.is_file() else ""
    known_checksum = file.checksum or (
        first if re.fullmatch("sha256:[0-9a-f]{64}", first) else None
    )
    algorithm, _, expected = (known_checksum or "sha256:").partition(":")
    with path.open("rb") as content:
        if algorithm == "git":  # SHA-1 after a header that holds the size
            digest = hashlib.file_digest(
                content, lambda: hashlib.sha1(b"blob %d\0" % path.stat().st_size)
            )
        else:
            digest = hashlib.file_digest(content, algorithm)
    checksum = digest.hexdigest()
    if known_checksum is None:
        packed.check(path)
        with suppress(
            OSError
        ):  # without a writable cache, the file is checked to its end every time
            create_folder(folder)
            write_whole(record, f"sha256:{checksum}\n".encode())
    elif checksum != expected:
        hint = "" if file.checksum else f" as when it was first used ({record} says so)"
        raise ValueError(f"{algorithm} is {checksum[:12]}..., not {expected[:12]}...{hint}")


def _local(address: str) -> Path | None:
    """Return the path of a local address (a path or `package:name`), None for one of the network."""
    scheme, _, rest = address.partition(":")
    if scheme in ("http", "https"):
        return None
    if scheme == "package":
        return SHIPPED / rest
    return Path(address)


def _answers(address: str) -> bool:
    """Return whether an address of the network answers; a missing file is at no local address."""
    if _local(address) is not None:
        return False
    from adanorm.data.download import PATIENCE, ask

    return ask(address, None, PATIENCE.connect) is None


def _downloaded(address: str, folder: Path, file: File) -> Path:
    """Return the path of a file downloaded into `folder`, where it appears verified and whole."""
    create_folder(folder)
    path, part = (
        folder / file.name,
        folder / f"part.{file.name}",
    )  # the suffix says how to read the file
    with naming(part), FileLock(folder / f"{file.name}.lock"):
        with suppress(OSError, ValueError):
            _verify(path, file, folder)
            return path  # another process downloaded it while this one waited
        url, _, member = address.partition("#")
        if member:
            archive = _downloaded(
                url,
                folder,
                File(Path(url).name, None, None, ()),
            )
            members, _ = packed.tar_members(archive, [member])
            part.write_bytes(members[member])
        else:
            from adanorm.data.download import download

            download(url, part, file.size)
        try:
            _verify(part, file, folder)
        except ValueError:
            part.unlink()  # a later download must not continue wrong bytes
            raise
        return part.replace(path)
