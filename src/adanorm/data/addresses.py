"""Whether the catalogue's addresses answer, asked of each of them without downloading anything."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from adanorm.data.catalogue import File, Source
from adanorm.data.download import PATIENCE, Patience, Reply, ask

AT_ONCE = 8
WIDTH = 80
MAGIC = {b"\x1f\x8b": "gzip", b"PK": "zip"}


class Answer(NamedTuple):
    """What one address of a file answers."""

    source: Source
    file: File
    address: str
    reply: Reply


def ask_all(sources: Iterable[Source], patience: Patience = PATIENCE) -> list[Answer]:
    """Return what every address of the network of these sources answers, in the catalogue's order."""
    asked = [(source, file, a) for source in sources for file in source.files for a in file.addresses]

    def answer(source: Source, file: File, address: str) -> Answer:
        whole, _, member = address.partition("#")
        return Answer(source, file, address, ask(whole, None if member else file.size, patience))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(answer, *zip(*(entry for entry in asked if "://" in entry[2]), strict=True)))


def table(answers: Iterable[Answer]) -> Iterator[str]:
    """Yield the lines of a table of answers, within 80 columns: a heading per file, a line per address."""
    heading = ""
    for source, file, address, reply in answers:
        if heading != (heading := f"{source.folder}/{file.name}"):
            yield heading
        state, status = ("ok" if reply.problem is None else "FAIL"), str(reply.status or "-")
        size = f"{reply.size:,}" if reply.size is not None else "?"
        kind = next((kind for magic, kind in MAGIC.items() if reply.first.startswith(magic)), "text")
        kind = kind if reply.first and reply.problem is None else "-"
        host = urlsplit(address).netloc + (" #" if "#" in address else "")
        yield f"  {state:<4} {status:>3} {size:>13} {kind:<4}  {urlsplit(address).scheme}://{host}"[:WIDTH]
        if reply.problem is not None:
            yield from textwrap.wrap(reply.problem, WIDTH, initial_indent=" " * 7, subsequent_indent=" " * 7)


def files_without(answers: Iterable[Answer]) -> list[str]:
    """Return the files that no address answers for, each as the path in a mirror folder to put it at."""
    good: dict[str, bool] = {}
    for source, file, _, reply in answers:
        path = f"{source.folder}/{file.name}"
        good[path] = good.get(path, False) or reply.problem is None
    return [path for path, answered in good.items() if not answered]
