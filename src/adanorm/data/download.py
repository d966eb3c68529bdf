"""Downloads over HTTP: resumed, repeated with patience, bounded, and refused in words where no file is."""

import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import requests
from requests import codes
from tqdm import tqdm
from urllib3.exceptions import HTTPError, MaxRetryError

FIRST_BYTES = 64
CHUNK = 1 << 16  # bytes that must come within `Patience.read` seconds: about a kilobyte a second
LARGEST = 4 << 30  # bytes of a file whose size nobody has published: four times the largest of ours
LONGEST_WAIT = 60  # seconds: an address that asks for more is given up
PASSING = (codes.too_many_requests, *range(500, 600))  # what may pass: the same address is asked again
Answer = TypeVar("Answer")


class Patience(NamedTuple):
    """How often an address is asked, and how long is waited: seconds, `backoff` doubled each time."""

    attempts: int = 5
    backoff: float = 1.0
    connect: float = 5.0
    read: float = 60.0


PATIENCE = Patience()


def download(address: str, part: Path, size: int | None) -> None:
    """Get what is at an address into `part`, going on from what it holds, in a bounded time.

    Raises OSError or ValueError, saying what answered instead, where that is no whole file of `size` bytes,
    or of at most `LARGEST`; what came of a file that broke off stays for the next time.
    """
    with requests.Session() as session:
        for attempt in range(PATIENCE.attempts):
            have = part.stat().st_size if part.exists() else 0
            if have and have == size:
                return
            have = 0 if size is not None and have > size else have
            asked = 0
            try:
                with _answer(session, address, f"{have}-" if have else "", PATIENCE.read) as answer:
                    problem, wait = _continue(answer, part, have, size), answer.headers.get("Retry-After", "")
                    asked = int(wait) if re.fullmatch("[0-9]{1,12}", wait) else 0
            except (requests.ReadTimeout, TimeoutError, requests.ConnectionError) as error:
                if isinstance((*error.args, None)[0], MaxRetryError):
                    raise  # where nobody answers, the next address is better than patience
                problem = reason(error)
            if problem is None:
                return
            if asked > LONGEST_WAIT:
                raise OSError(f"{problem}, and asks to wait {asked:,} seconds")
            if attempt + 1 < PATIENCE.attempts:
                time.sleep(max(asked, min(PATIENCE.backoff * 2**attempt, LONGEST_WAIT)))
        raise OSError(problem)


def ask(address: str, size: int | None, seconds: float) -> str | None:
    """Return what is wrong with an address's answer to a request for its first bytes, or None."""
    try:
        with requests.Session() as session:
            answer = _answer(session, address, f"0-{FIRST_BYTES - 1}", seconds)
            first = _within(seconds, lambda: answer.raw.read1(FIRST_BYTES))
            return _refusal(answer, size) or (_page(answer.headers, first) if first else "an empty file")
    except (OSError, HTTPError) as error:
        return reason(error)


def reason(error: Exception) -> str:
    """Return in a few words why something could not be got."""
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is refused"
    if isinstance(error, (requests.Timeout, TimeoutError)):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no answer in time" if "timed out" in str(error) else "no connection"
    if isinstance(error, requests.TooManyRedirects):
        return "redirects without end"
    return "no such file" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())


def _within(seconds: float, get: Callable[[], Answer]) -> Answer:
    """Return what a call gets within so many seconds: a socket's own timeout begins anew with each byte."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(get())
        except BaseException as error:  # the caller's
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(seconds)


def _answer(session: requests.Session, address: str, span: str, seconds: float) -> requests.Response:
    """Return the answer to a request for these bytes, all if empty, before its content is read."""
    headers = {"Accept-Encoding": "identity"}  # the file's own bytes: they are what is counted
    if span:
        headers["Range"] = f"bytes={span}"
    waits = PATIENCE.connect, seconds
    return _within(sum(waits), lambda: session.get(address, headers=headers, stream=True, timeout=waits))


def _continue(answer: requests.Response, part: Path, have: int, size: int | None) -> str | None:
    """Get the bytes that `part` lacks behind those it has; return why some are still lacking, or None."""
    refused = answer.status_code == codes.requested_range_not_satisfiable
    if have and refused and _total(answer) == have:
        return None  # there is no more of it
    goes_on = answer.status_code == codes.partial_content
    start = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    if have and (refused or (goes_on and start and int(start[1]) != have)):
        part.unlink()
        return "does not go on where an earlier download broke off"
    if problem := _refusal(answer, size):
        if answer.status_code in PASSING:
            return problem
        raise ValueError(problem)
    return _write(answer, part, have if goes_on else 0, size)


def _write(answer: requests.Response, part: Path, have: int, size: int | None) -> str | None:
    """Write the rest of a file whose first `have` bytes are in `part`; return what it lacks, or None."""
    expected = size if size is not None else _total(answer)
    most = LARGEST if expected is None else expected
    answer.raw.enforce_content_length = False  # what came of it is kept; its length is checked below
    bar = tqdm(
        total=expected, initial=have, desc=part.name, unit="B", unit_scale=True,
        disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with part.open("ab" if have else "wb") as file, bar:
        try:
            # As it is sent: what a server has packed for the way would have another size and checksum.
            while chunk := _within(PATIENCE.read, lambda: answer.raw.read(CHUNK, decode_content=False)):
                have += len(chunk)
                if have > most:
                    part.unlink()
                    raise ValueError(f"sends more than {most:,} bytes")
                if file.tell() == 0 and (problem := _page({}, chunk)):
                    raise ValueError(problem)
                file.write(chunk)
                bar.update(len(chunk))
        except (HTTPError, TimeoutError) as error:
            with suppress(ValueError, RuntimeError, OSError):
                answer.raw.shutdown()  # or the answer is not closed before the rest has trickled in
            return f"broke off: {reason(error)}"
    return f"broke off after {have:,} of {expected:,} bytes" if have < (expected or 0) else None


def _refusal(answer: requests.Response, size: int | None) -> str | None:
    """Return what is wrong with an answer before its content is read, or None."""
    status = answer.status_code
    if not answer.ok:
        return {
            codes.not_found: "there is no such file any more (404)",
            codes.gone: "there is no such file any more (410)",
            codes.too_many_requests: "too many requests (429)",
        }.get(status, f"the server answers {status}")
    problem, total = _page(answer.headers, b""), _total(answer)
    if problem is None and total is not None and total != size:
        if size is not None:
            return f"the file there has {total:,} bytes, not {size:,}"
        if total > LARGEST:
            return f"the file there has {total:,} bytes, more than any of ours ({LARGEST:,})"
    return problem


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
