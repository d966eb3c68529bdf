"""Downloads over HTTP: resumed, retried, bounded in time and size.

Errors say what answered instead.
"""

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
CHUNK = (
    1 << 16
)  # bytes that must arrive within `Patience.read` seconds: about a kilobyte per second
LARGEST = 4 << 30  # bytes of a file of unpublished size, at most: four times our largest file
LONGEST_WAIT = 60  # seconds: a server that asks for a longer wait is given up
PASSING = (codes.too_many_requests, *range(500, 600))  # temporary: the same address is tried again
Answer = TypeVar("Answer")


class Patience(NamedTuple):
    """How often an address is tried, and the waits in seconds.

    `backoff` doubles after each attempt.
    """

    attempts: int = 5
    backoff: float = 1.0
    connect: float = 5.0
    read: float = 60.0


PATIENCE = Patience()


def download(address: str, part: Path, size: int | None) -> None:
    """Download an address into `part`, after the bytes that it already holds, in a bounded time.

    Raises OSError or ValueError, which say what answered, unless a whole file of `size` bytes
    arrives (of at most `LARGEST` if `size` is None). After an interruption `part` keeps its bytes
    for the next call.
    """
    with requests.Session() as session:
        for attempt in range(PATIENCE.attempts):
            start = part.stat().st_size if part.exists() else 0
            if start and start == size:
                return
            start = 0 if size is not None and start > size else start
            seconds = 0
            try:
                span = f"{start}-" if start else ""
                with _answer(
                    session,
                    address,
                    span,
                    PATIENCE.read,
                ) as answer:
                    problem = _resume(answer, part, start, size)
                    wait = answer.headers.get("Retry-After", "")
                    seconds = int(wait) if re.fullmatch("[0-9]{1,12}", wait) else 0
            except (requests.ReadTimeout, TimeoutError, requests.ConnectionError) as error:
                if isinstance((*error.args, None)[0], MaxRetryError):
                    raise  # no server answers: try the next address rather than wait
                problem = reason(error)
            if problem is None:
                return
            if seconds > LONGEST_WAIT:
                raise OSError(f"{problem}, and asks to wait {seconds:,} seconds")
            if attempt + 1 < PATIENCE.attempts:
                time.sleep(max(seconds, min(PATIENCE.backoff * 2**attempt, LONGEST_WAIT)))
        raise OSError(problem)


def ask(address: str, size: int | None, seconds: float) -> str | None:
    """Return what is wrong with the answer to a request for an address's first bytes, or None."""
    try:
        with requests.Session() as session:
            answer = _answer(session, address, f"0-{FIRST_BYTES - 1}", seconds)
            first = _within(seconds, lambda: answer.raw.read1(FIRST_BYTES))
            return _refusal(answer, size) or (
                _page(answer.headers, first) if first else "an empty file"
            )
    except (OSError, HTTPError) as error:
        return reason(error)


def reason(error: Exception) -> str:
    """Return a few words on why a file could not be had."""
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
    """Return what `get` returns within `seconds`: a socket's timeout starts again at every byte."""
    future: Future[Answer] = Future()

    def run() -> None:
        try:
            future.set_result(get())
        except BaseException as error:  # raised again in the caller
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(seconds)


def _answer(
    session: requests.Session, address: str, span: str, seconds: float
) -> requests.Response:
    """Return the answer, content unread, to a request for the bytes `span` (all if it is empty)."""
    # The encoding is that of the file's own bytes, which size and checksum are about.
    headers = {"Accept-Encoding": "identity", "Range": f"bytes={span}" if span else None}
    limits = PATIENCE.connect, seconds
    return _within(
        sum(limits),
        lambda: session.get(
            address,
            headers=headers,
            stream=True,
            timeout=limits,
        ),
    )


def _resume(answer: requests.Response, part: Path, length: int, size: int | None) -> str | None:
    """Download what `part` lacks after its first `length` bytes.

    Return why some is missing, or None.
    """
    is_refused = answer.status_code == codes.requested_range_not_satisfiable
    if length and is_refused and _total(answer) == length:
        return None  # the file is complete
    is_partial = answer.status_code == codes.partial_content
    content_range = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    if length and (
        is_refused or (is_partial and content_range and int(content_range[1]) != length)
    ):
        part.unlink()
        return "does not go on where an earlier download broke off"
    if problem := _refusal(answer, size):
        if answer.status_code in PASSING:
            return problem
        raise ValueError(problem)
    return _write(answer, part, length if is_partial else 0, size)


def _write(answer: requests.Response, part: Path, length: int, size: int | None) -> str | None:
    """Write the rest of a file whose first `length` bytes are in `part`.

    Return why it broke off, or None.
    """
    expected = size if size is not None else _total(answer)
    limit = LARGEST if expected is None else expected
    answer.raw.enforce_content_length = False  # keep what arrived; the length is checked below
    bar = tqdm(
        total=expected, initial=length, desc=part.name, unit="B", unit_scale=True,
        disable=not sys.stderr.isatty(),
    )  # fmt: skip
    with part.open("ab" if length else "wb") as file, bar:
        try:
            # Not decoded: a Content-Encoding that is decoded would change size and checksum.
            while chunk := _within(
                PATIENCE.read, lambda: answer.raw.read(CHUNK, decode_content=False)
            ):
                length += len(chunk)
                if length > limit:
                    part.unlink()
                    raise ValueError(f"sends more than {limit:,} bytes")
                if file.tell() == 0 and (problem := _page({}, chunk)):
                    raise ValueError(problem)
                file.write(chunk)
                bar.update(len(chunk))
        except (HTTPError, TimeoutError) as error:
            with suppress(ValueError, RuntimeError, OSError):
                answer.raw.shutdown()  # otherwise closing waits until the rest has trickled in
            return f"broke off: {reason(error)}"
    return f"broke off after {length:,} of {expected:,} bytes" if length < (expected or 0) else None


def _refusal(answer: requests.Response, size: int | None) -> str | None:
    """Return what status and headers of an answer show to be wrong, or None."""
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
    """Return a problem if headers or first bytes are a web page's, else None: no file is a page."""
    kind = headers.get("Content-Type", "")
    if kind.startswith("text/html") or re.match(
        rb"\s*<(!doctype html|html)\b", first, re.IGNORECASE
    ):
        return "a web page answers (a confirmation, a log-in, a notice), not the file"
    return None


def _total(answer: requests.Response) -> int | None:
    """Return the size of the whole file in bytes, or None if the headers do not tell."""
    content_range = re.fullmatch(
        r"bytes (?:\d+-\d+|\*)/(\d+)", answer.headers.get("Content-Range", "")
    )
    if content_range:
        return int(content_range[1])
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() and answer.status_code == codes.ok else None
