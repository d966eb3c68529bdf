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
from requests.adapters import HTTPAdapter
from tqdm import tqdm
from urllib3.util import Retry

FIRST_BYTES = 64
CHUNK = 1 << 16
LONGEST_WAIT = 60  # seconds, whatever a server asks for
PASSING = (codes.too_many_requests, *range(500, 600))  # what may pass: the same address is asked again


class Patience(NamedTuple):
    """How often an address is asked, and how long is waited: seconds, `backoff` doubled each time."""

    attempts: int = 5
    backoff: float = 1.0
    connect: float = 5.0
    read: float = 60.0


PATIENCE = Patience()


def download(address: str, part: Path, size: int | None, patience: Patience = PATIENCE) -> None:
    """Get what is at an address into `part`, going on from what it holds.

    Raises OSError or ValueError, saying what answered instead, where that is not a whole file of `size`
    bytes; what came of a file that broke off stays for the next time.
    """
    retry = Retry(
        patience.attempts - 1, status_forcelist=PASSING, raise_on_status=False,
        connect=0,  # where nobody answers, the next address is better than patience
        backoff_factor=patience.backoff, backoff_max=LONGEST_WAIT, retry_after_max=LONGEST_WAIT,
    )  # fmt: skip
    with requests.Session() as session:
        session.mount("https://", HTTPAdapter(max_retries=retry))
        session.mount("http://", HTTPAdapter(max_retries=retry))
        for attempt in range(patience.attempts):
            time.sleep(patience.backoff * attempt)
            problem = _continue(session, address, part, size, patience)
            if problem is None:
                return
        raise OSError(problem)


def ask(address: str, size: int | None, patience: Patience = PATIENCE) -> str | None:
    """Return what is wrong with an address's answer to a request for its first bytes, or None."""
    try:
        with _answer(requests.Session(), address, f"0-{FIRST_BYTES - 1}", patience) as answer:
            first = next(answer.iter_content(FIRST_BYTES), b"")
            return _refusal(answer, size) or (_page(answer.headers, first) if first else "an empty file")
    except OSError as error:
        return reason(error)


def reason(error: Exception) -> str:
    """Return in a few words why something could not be got."""
    kinds = requests.exceptions
    words: dict[type[Exception], str] = {  # the first that fits
        requests.Timeout: "no answer in time",
        kinds.SSLError: "its certificate is refused",
        requests.TooManyRedirects: "redirects without end",
        requests.ConnectionError: "no answer in time" if "timed out" in str(error) else "no connection",
        FileNotFoundError: "no such file",
    }
    fitting = (text for kind, text in words.items() if isinstance(error, kind))
    return next(fitting, " ".join(str(error).split()))


def _answer(session: requests.Session, address: str, span: str, patience: Patience) -> requests.Response:
    """Return the answer to a request for these bytes, all if empty, before its content is read."""
    headers = {"Accept-Encoding": "identity"}  # the file's own bytes: they are what is counted
    if span:
        headers["Range"] = f"bytes={span}"
    return session.get(address, headers=headers, stream=True, timeout=(patience.connect, patience.read))


def _continue(
    session: requests.Session, address: str, part: Path, size: int | None, patience: Patience
) -> str | None:
    """Get the bytes that `part` lacks; return why some are still lacking, or None."""
    have = part.stat().st_size if part.exists() else 0
    if have and have == size:
        return None
    have = 0 if size is not None and have > size else have
    with _answer(session, address, f"{have}-" if have else "", patience) as answer:
        refused = answer.status_code == codes.requested_range_not_satisfiable
        if have and refused and _total(answer) == have:
            return None  # there is no more of it
        goes_on = answer.status_code == codes.partial_content
        start = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
        if have and (refused or (goes_on and start and int(start[1]) != have)):
            part.unlink()
            return "does not go on where an earlier download broke off"
        if problem := _refusal(answer, size):
            raise ValueError(problem)
        return _write(answer, part, have if goes_on else 0, size)


def _write(answer: requests.Response, part: Path, have: int, size: int | None) -> str | None:
    """Write the rest of a file whose first `have` bytes are in `part`; return what it lacks, or None."""
    expected = size if size is not None else _total(answer)
    answer.raw.enforce_content_length = False  # what came of it is kept; its length is checked below
    shown = sys.stderr.isatty()
    bar = tqdm(total=expected, initial=have, desc=part.name, unit="B", unit_scale=True, disable=not shown)
    with part.open("ab" if have else "wb") as file, bar:
        try:
            for chunk in answer.iter_content(CHUNK):
                if file.tell() == 0 and (problem := _page({}, chunk)):
                    raise ValueError(problem)
                file.write(chunk)
                bar.update(len(chunk))
        except requests.RequestException as error:
            return f"broke off: {reason(error)}"
    count = part.stat().st_size
    if expected is not None and count > expected:
        part.unlink()
        raise ValueError(f"sends more than {expected:,} bytes")
    return f"broke off after {count:,} of {expected:,} bytes" if count < (expected or 0) else None


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
    if problem is None and None not in (size, total) and total != size:
        return f"the file there has {total:,} bytes, not {size:,}"
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
