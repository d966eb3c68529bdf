"""Downloads over HTTP: resumed, repeated with patience, and refused in words where something else answers."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import requests
from requests import codes
from tqdm import tqdm

FIRST_BYTES = 64
CHUNK = 1 << 16
LONGEST_WAIT = 60.0  # seconds, whatever a server asks for


class Patience(NamedTuple):
    """How often an address is asked, and how long is waited: seconds, `backoff` doubled each time."""

    attempts: int = 5
    backoff: float = 1.0
    connect: float = 5.0
    read: float = 60.0

    def wait(self, attempt: int, asked: float | None) -> float:
        """Return the seconds to wait after an attempt, counted from 1: what the server asked for, or ours."""
        return min(LONGEST_WAIT, self.backoff * 2 ** (attempt - 1) if asked is None else asked)


PATIENCE = Patience()


class Reply(NamedTuple):
    """What an address answers: the status, the size of the whole file, its first bytes, what is wrong."""

    status: int | None
    size: int | None
    first: bytes
    problem: str | None


class _LaterError(OSError):
    """Something that may pass: the same address is asked again, after `seconds` if the server said so."""

    def __init__(self, problem: str, seconds: float | None = None) -> None:
        super().__init__(problem)
        self.seconds = seconds


def download(address: str, part: Path, size: int | None, patience: Patience = PATIENCE) -> None:
    """Get what is at an address into `part`, going on from what it holds.

    Raises OSError or ValueError, saying what answered instead, where that is not a whole file of `size`
    bytes; what was got of a file that broke off stays for the next time.
    """
    for attempt in range(1, patience.attempts + 1):
        before = _size(part)
        try:
            return _continue(address, part, size, patience)
        except (_LaterError, requests.RequestException) as error:
            problem, seconds = reason(error), getattr(error, "seconds", None)
            # Where nobody answers, the next address is better than patience.
            broken = (_LaterError, requests.ReadTimeout, requests.exceptions.ChunkedEncodingError)
            passing = isinstance(error, broken) or _size(part) > before
            if not passing:
                raise OSError(problem) from None
        if attempt < patience.attempts:
            time.sleep(patience.wait(attempt, seconds))
    raise OSError(f"{problem}, {patience.attempts} times")


def ask(address: str, size: int | None, patience: Patience = PATIENCE) -> Reply:
    """Return what an address answers to a request for its first bytes; nothing is kept."""
    headers = {"Accept-Encoding": "identity", "Range": f"bytes=0-{FIRST_BYTES - 1}"}
    try:
        with requests.get(
            address, headers=headers, stream=True, timeout=(patience.connect, patience.read)
        ) as answer:
            first = next(answer.iter_content(FIRST_BYTES), b"")
            problem = _refusal(answer, size) or (
                "an empty file" if not first else _page(answer.headers, first)
            )
            return Reply(answer.status_code, _total(answer), first, problem)
    except (requests.RequestException, OSError) as error:
        return Reply(None, None, b"", reason(error))


def reason(error: Exception) -> str:
    """Return in a few words why something could not be got."""
    kinds = requests.exceptions
    words: dict[type[Exception], str] = {  # the first that fits
        requests.Timeout: "no answer in time",
        kinds.ChunkedEncodingError: "broke off",
        kinds.SSLError: "its certificate is refused",
        requests.TooManyRedirects: "redirects without end",
        requests.ConnectionError: "no answer in time" if "timed out" in str(error) else "no connection",
        FileNotFoundError: "no such file",
    }
    said = (text for kind, text in words.items() if isinstance(error, kind))
    return next(said, " ".join(str(error).split()))


def _continue(address: str, part: Path, size: int | None, patience: Patience) -> None:
    have = _size(part)
    if size is not None and have >= size:
        if have == size:
            return
        part.unlink()
        have = 0
    headers = {"Accept-Encoding": "identity"}  # the file's own bytes: they are what is counted
    if have:
        headers["Range"] = f"bytes={have}-"
    with requests.get(
        address, headers=headers, stream=True, timeout=(patience.connect, patience.read)
    ) as answer:
        if have and answer.status_code == codes.requested_range_not_satisfiable:
            if _total(answer) == have:
                return  # there is no more of it
            part.unlink()
            raise _LaterError("refuses to go on where an earlier download broke off", 0)
        if problem := _refusal(answer, size):
            if answer.status_code == codes.too_many_requests or answer.status_code >= 500:
                raise _LaterError(problem, _retry_after(answer.headers))
            raise ValueError(problem)
        goes_on = answer.status_code == codes.partial_content
        if goes_on and _start(answer.headers) not in (have, None):
            part.unlink()
            raise _LaterError("goes on elsewhere than asked", 0)
        _write(answer, part, have if goes_on else 0, size)


def _write(answer: requests.Response, part: Path, have: int, size: int | None) -> None:
    """Write the rest of a file whose first `have` bytes are in `part`."""
    total = _total(answer)
    answer.raw.enforce_content_length = False  # what came of it is kept; its length is checked below
    with (
        part.open("ab" if have else "wb") as file,
        tqdm(
            total=total or size,
            initial=have,
            desc=part.name.removesuffix(".part"),
            unit="B",
            unit_scale=True,
            disable=not sys.stderr.isatty(),
        ) as bar,
    ):
        for chunk in answer.iter_content(CHUNK):
            if not have and file.tell() == 0 and (problem := _page({}, chunk)):
                raise ValueError(problem)
            file.write(chunk)
            bar.update(len(chunk))
    got, expected = _size(part), size if size is not None else total
    if expected is not None and got < expected:
        raise _LaterError(f"broke off after {got:,} of {expected:,} bytes")
    if expected is not None and got > expected:
        part.unlink()
        raise ValueError(f"sends more than {expected:,} bytes")


def _refusal(answer: requests.Response, size: int | None) -> str | None:
    """Return what is wrong with an answer before its content is read, or None."""
    status = answer.status_code
    if status in (codes.not_found, codes.gone):
        return f"there is no such file any more ({status})"
    if status == codes.too_many_requests:
        return "too many requests (429)"
    if not answer.ok:
        return f"the server answers {status}"
    if problem := _page(answer.headers, b""):
        return problem
    total = _total(answer)
    if size is not None and total is not None and total != size:
        return f"the file there has {total:,} bytes, not {size:,}"
    return None


def _page(headers: Mapping[str, str], first: bytes) -> str | None:
    """Return that a web page answers instead of a file, if it does: none of ours is one."""
    kind = headers.get("Content-Type", "")
    if kind.startswith("text/html") or re.match(rb"\s*<(!doctype html|html)\b", first, re.IGNORECASE):
        return "a web page answers (a confirmation, a log-in, a notice), not the file"
    return None


def _total(answer: requests.Response) -> int | None:
    """Return how many bytes the whole file has, as far as the headers say."""
    ranged = re.fullmatch(r"bytes (?:\d+-\d+|\*)/(\d+)", answer.headers.get("Content-Range", ""))
    if ranged:
        return int(ranged[1])
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and answer.status_code == codes.ok else None


def _start(headers: Mapping[str, str]) -> int | None:
    found = re.match(r"bytes (\d+)-", headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    asked = headers.get("Retry-After", "")
    return float(asked) if asked.isdecimal() else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
