"""Downloads from a server that misbehaves: each fault is named, none leaves a wrong file, and all end."""

import gzip
import re
import threading
from itertools import repeat
from pathlib import Path

import pytest

from adanorm.data import download as downloads
from adanorm.data.catalogue import File, Source
from adanorm.data.download import download, reason
from adanorm.data.fetch import ask_all
from tests.servers import CHUNKED, CONTENT, Reply, Script, Server, rest, trickle

ANOTHER = {"Content-Range": "bytes 5-9/10240"}
PAGE = b"<!DOCTYPE html><title>Google Drive - Virus scan warning</title>"


def reply(*arguments: object, **named: object) -> Script:
    return lambda number, ranged: Reply(*arguments, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("script", "size", "message", "requests"),
    [
        (reply(404, body=b"gone"), None, r"no such file any more \(404\)", 1),
        (reply(403, body=b""), None, "the server answers 403", 1),
        (reply(429, body=b""), None, r"too many requests \(429\)", 3),
        (reply(503, body=b""), None, "the server answers 503", 3),
        (
            reply(503, {"Retry-After": "999999999"}, b""),
            None,
            "503, and asks to wait 999,999,999 seconds",
            1,
        ),
        (reply(200, {"Content-Type": "text/html"}, PAGE), None, "a web page answers", 1),
        (reply(body=PAGE), None, "a web page answers", 1),
        (reply(), 99, "the file there has 10,240 bytes, not 99", 1),
        (
            reply(declared=5 << 30),
            None,
            "the file there has 5,368,709,120 bytes, more than any of ours",
            1,
        ),
        (reply(204, body=b""), 10_240, "broke off after 0 of 10,240 bytes", 3),
        (reply(body=CONTENT[:99], declared=10_240), None, "broke off after 99 of 10,240 bytes", 3),
        (
            reply(200, CHUNKED, lambda: iter([CONTENT])),
            None,
            "broke off: ",
            3,
        ),  # no size of a chunk
        (reply(200, {f"X-{n}": "x" * 500 for n in range(200)}), None, "no connection", 3),
        (reply(302, {"Location": "/again"}, b""), None, "redirects without end", 31),
        (reply(302, {"Location": "file:///etc/passwd"}, b""), None, "No connection adapters", 1),
    ],
)
def test_an_answer_that_is_no_file_is_refused_with_its_reason(
    tmp_path: Path, server: Server, script: Script, size: int | None, message: str, requests: int
) -> None:
    server.script = script
    with pytest.raises((OSError, ValueError)) as refusal:
        download(server.url, tmp_path / "part", size)
    assert re.search(message, reason(refusal.value))
    assert len(server.ranges) == requests
    assert not (tmp_path / "part").exists() or CONTENT.startswith((tmp_path / "part").read_bytes())


def broken_off(then: Script) -> Script:
    """Break off the first answer; a request without a range gets the whole."""
    first = Reply(body=CONTENT[:99], declared=10_240)
    return lambda number, ranged: (
        then(number, ranged) if ranged else first if number == 1 else Reply()
    )


@pytest.mark.parametrize(
    ("script", "ranges"),
    [
        (
            lambda n, r: Reply() if n > 1 else Reply(301, {"Location": "/elsewhere"}, b""),
            [None, None],
        ),
        (lambda n, r: Reply() if n > 2 else Reply(503, {"Retry-After": "0"}, b""), [None] * 3),
        (broken_off(lambda n, r: rest(r)), [None, "bytes=99-"]),
        # A server that does not know ranges begins again.
        (broken_off(reply()), [None, "bytes=99-"]),
        (broken_off(reply(416, body=b"")), [None, "bytes=99-", None]),
        (broken_off(reply(206, ANOTHER, CONTENT[5:10])), [None, "bytes=99-", None]),
    ],
    ids=[
        "redirect",
        "503 then fine",
        "truncated",
        "range ignored",
        "range refused",
        "another range",
    ],
)
def test_a_download_gets_over_passing_faults(
    tmp_path: Path, server: Server, script: Script, ranges: list[str | None]
) -> None:
    server.script = script
    download(server.url, tmp_path / "part", len(CONTENT))
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.ranges == ranges


@pytest.mark.parametrize("size", [len(CONTENT), None])
@pytest.mark.parametrize("headers", [{}, CHUNKED])
def test_an_endless_answer_is_cut_off_at_the_size(
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    size: int | None,
    headers: dict[str, str],
) -> None:
    monkeypatch.setattr(downloads, "LARGEST", 1 << 17)
    piece = b"1000\r\n" + b"x" * 4096 + b"\r\n" if headers == CHUNKED else b"x" * 5000
    server.script = reply(200, headers, lambda: repeat(piece))
    with pytest.raises(ValueError, match=f"sends more than {size or 1 << 17:,} bytes"):
        download(server.url, tmp_path / "part", size)
    assert not (tmp_path / "part").exists()


def test_a_file_is_kept_as_it_is_sent_whatever_its_content_encoding(
    tmp_path: Path, server: Server
) -> None:
    """A bomb under `Content-Encoding: gzip` stays packed; a .gz that a server calls encoded is whole."""
    bomb = gzip.compress(bytes(10_000_000))
    server.script = reply(200, {"Content-Encoding": "gzip"}, bomb)
    download(server.url, tmp_path / "part", len(bomb))
    assert (tmp_path / "part").read_bytes() == bomb


@pytest.mark.parametrize("headers", [{}, CHUNKED, None], ids=["bytes", "a chunk's size", "nothing"])
def test_a_download_that_trickles_or_never_comes_is_tried_again_and_then_given_up(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str] | None
) -> None:
    monkeypatch.setattr(downloads, "PATIENCE", downloads.PATIENCE._replace(read=0.2))
    gate = threading.Event()
    trickles = reply(200, headers, trickle(gate, b"1"))
    server.script = reply(hangs=gate) if headers is None else trickles
    with pytest.raises(
        OSError, match="no answer" if headers is None else "broke off: no answer in time"
    ):
        download(server.url, tmp_path / "part", None)
    assert len(server.ranges) == 3
    gate.set()


def test_every_address_is_asked_for_its_first_bytes_alone(server: Server) -> None:
    def script(n: int, ranged: str | None) -> Reply:
        assert ranged == "bytes=0-63", "nothing is downloaded"
        return (
            Reply(404)
            if n == 1
            else Reply(206, {"Content-Range": "bytes 0-63/9000"}, b"\x1f\x8b" * 32)
        )

    server.script = script
    source = Source(
        "numbers",
        "none",
        (
            File(
                "a.gz",
                9000,
                None,
                (server.url, "package:a/a.gz"),
            ),
        ),
    )
    dead, fine = ask_all([source]), ask_all([source])
    assert dead == {"numbers/a.gz": {server.url: "there is no such file any more (404)"}}
    assert fine == {"numbers/a.gz": {server.url: None}}
