"""Whether the catalogue's addresses answer, asked of each of them without downloading anything."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlsplit

from adanorm.data.catalogue import File, Source
from adanorm.data.download import PATIENCE, Patience, Reply, ask
from adanorm.data.fetch import editions_of

AT_ONCE = 8
WIDTH = 80
MAGIC = {b"\x1f\x8b": "gzip", b"PK": "zip"}


class Answer(NamedTuple):
    """What one address of a file answers."""

    source: Source
    file: File
    address: str
    reply: Reply


def answers(sources: Iterable[Source], patience: Patience = PATIENCE) -> list[Answer]:
    """Return what every address of the network of these sources answers, in the catalogue's order."""
    places = [
        (source, file, address)
        for source in sources
        for file in source.files
        for address in file.addresses
        if "://" in address
    ]

    def asked(place: tuple[Source, File, str]) -> Answer:
        _, file, address = place
        whole, _, member = address.partition("#")
        return Answer(*place, ask(whole, None if member else file.size, patience))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(asked, places))


def with_editions(source: Source) -> list[Source]:
    """Return a source and the other editions of its corpus."""
    return [source, *editions_of(source)]


def table(found: Iterable[Answer]) -> Iterator[str]:
    """Yield the lines of a table of answers, within 80 columns: a heading a file, a line an address."""
    heading = ""
    for source, file, address, reply in found:
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


def files_without(found: Iterable[Answer]) -> list[str]:
    """Return the files that no address answers for, each as the path in a mirror folder to put it at."""
    good: dict[str, bool] = {}
    for source, file, _, reply in found:
        place = f"{source.folder}/{file.name}"
        good[place] = good.get(place, False) or reply.problem is None
    return [place for place, answered in good.items() if not answered]
