"""Downloads from a server that misbehaves: each way has its words, and none leaves a wrong file."""

from __future__ import annotations

import hashlib
import http.server
import io
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import DataConfig
from adanorm.data import catalogue
from adanorm.data.catalogue import File, Source
from adanorm.data.download import Patience, ask, download, reason
from adanorm.data.fetch import ask_all, fetch

CONTENT = bytes(range(256)) * 40
QUICK = Patience(attempts=3, backoff=0.001, connect=10.0, read=10.0)


class Told(NamedTuple):
    """How a server answers a request."""

    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = CONTENT
    declared: int | None = None  # Content-Length, where it is another
    hangs: threading.Event | None = None  # what it waits for before it sends anything


Script = Callable[[int, str | None], Told]  # the request's number and its Range


class Server:
    """Answers as it was told and keeps what was asked."""

    def __init__(self) -> None:
        self.script: Script = lambda number, ranged: Told()
        self.asked: list[str | None] = []
        self.url = ""


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            ranged = self.headers.get("Range")
            told.asked.append(ranged)
            answer = told.script(len(told.asked), ranged)
            if answer.hangs is not None:
                answer.hangs.wait(5)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            length = len(answer.body) if answer.declared is None else answer.declared
            self.send_header("Content-Length", str(length))
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # a page or an error is refused by its head
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        told.url = f"http://127.0.0.1:{running.server_port}/file.bin"
        yield told
        running.shutdown()


def rest(ranged: str | None) -> Told:
    """What a server that knows ranges answers."""
    start = int(ranged.removeprefix("bytes=").removesuffix("-")) if ranged else 0
    header = {"Content-Range": f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"}
    return Told(206, header, CONTENT[start:]) if ranged else Told()


PAGE = b"<!DOCTYPE html><title>Google Drive - Virus scan warning</title>"


@pytest.mark.parametrize(
    ("script", "size", "message", "requests"),
    [
        (lambda n, r: Told(404, body=b"gone"), None, r"no such file any more \(404\)", 1),
        (lambda n, r: Told(403, body=b""), None, "the server answers 403", 1),
        (lambda n, r: Told(429, body=b""), None, r"too many requests \(429\)", 3),
        (lambda n, r: Told(503, body=b""), None, "the server answers 503", 3),
        (lambda n, r: Told(200, {"Content-Type": "text/html"}, PAGE), None, "a web page answers", 1),
        (lambda n, r: Told(body=PAGE), None, "a web page answers", 1),
        (lambda n, r: Told(), 99, "the file there has 10,240 bytes, not 99", 1),
        (lambda n, r: Told(302, {"Location": "/again"}, b""), None, "redirects without end", 31),
    ],
    ids=["404", "403", "429", "503", "page by type", "page by bytes", "length", "redirects"],
)
def test_what_is_no_file_is_refused_in_words(
    tmp_path: Path, server: Server, script: Script, size: int | None, message: str, requests: int
) -> None:
    server.script = script
    with pytest.raises((OSError, ValueError)) as refusal:
        download(server.url, tmp_path / "part", size, QUICK)
    assert re.search(message, reason(refusal.value))
    assert len(server.asked) == requests
    assert not (tmp_path / "part").exists() or (tmp_path / "part").read_bytes() == b""


@pytest.mark.parametrize(
    ("script", "asked"),
    [
        (lambda n, r: Told() if n > 1 else Told(301, {"Location": "/elsewhere"}, b""), [None, None]),
        (lambda n, r: Told() if n > 2 else Told(503, {"Retry-After": "0"}, b""), [None] * 3),
        (lambda n, r: rest(r) if n > 1 else Told(body=CONTENT[:99], declared=10_240), [None, "bytes=99-"]),
        # A server that does not know ranges begins again.
        (lambda n, r: Told() if n > 1 else Told(body=CONTENT[:99], declared=10_240), [None, "bytes=99-"]),
        (
            lambda n, r: (
                Told(416, body=b"") if r else Told(body=CONTENT[: 99 if n == 1 else None], declared=10_240)
            ),
            [None, "bytes=99-", None],
        ),
        (
            lambda n, r: (
                Told(206, {"Content-Range": "bytes 5-9/10240"}, CONTENT[5:10])
                if r
                else Told(body=CONTENT[: 99 if n == 1 else None], declared=10_240)
            ),
            [None, "bytes=99-", None],
        ),
    ],
    ids=["redirect", "503 then fine", "truncated", "range ignored", "range refused", "another range"],
)
def test_what_passes_is_waited_for_and_gone_on_with(
    tmp_path: Path, server: Server, script: Script, asked: list[str | None]
) -> None:
    server.script = script
    download(server.url, tmp_path / "part", len(CONTENT), QUICK)
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert server.asked == asked


def test_a_slow_server_is_asked_again_and_then_given_up(tmp_path: Path, server: Server) -> None:
    gate = threading.Event()
    server.script = lambda number, ranged: Told(hangs=gate)
    with pytest.raises(OSError, match="no answer in time"):
        download(server.url, tmp_path / "part", None, QUICK._replace(read=0.05))
    assert len(server.asked) == 3
    gate.set()
    assert ask(server.url, None, QUICK) is None


def places(tmp_path: Path) -> DataConfig:
    return compose_experiment([f"data.cache={tmp_path / 'cache'}", "data.mirrors=[]"]).data


def listed(monkeypatch: pytest.MonkeyPatch, *files: File) -> None:
    monkeypatch.delenv("ADANORM_MIRROR", raising=False)
    monkeypatch.setitem(catalogue.SOURCES, "numbers", Source("numbers", "none", files))


def test_the_next_address_is_asked_and_no_wrong_file_is_used(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = CONTENT[::-1]
    server.script = lambda number, ranged: Told(body=wrong if number == 1 else CONTENT)
    checksum = "git:c66c3ae6ec1c6a3bbd1d8c8ea1a3bfa0a5d5f0ff"
    listed(monkeypatch, File("a.bin", None, checksum, (server.url, f"{server.url}?2")))
    with pytest.raises(
        ValueError, match=r"git is [0-9a-f]+\.\.\., not c66c.*put it into numbers/ of a mirror"
    ):
        fetch("numbers", places(tmp_path), QUICK)
    good = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    listed(monkeypatch, File("a.bin", None, f"git:{good}", (server.url, f"{server.url}?2")))
    server.asked.clear()
    assert fetch("numbers", places(tmp_path), QUICK)["a.bin"].read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_a_file_is_taken_out_of_an_archive(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("data/train.en")
        member.size = 6
        archive.addfile(member, io.BytesIO(b"a line"))
    server.script = lambda number, ranged: Told(body=packed.getvalue())
    address = server.url.replace("file.bin", "en-vi.tgz")
    listed(monkeypatch, File("train.en", 6, None, (f"{address}#train.en",)))
    assert fetch("numbers", places(tmp_path), QUICK)["train.en"].read_bytes() == b"a line"


def test_every_address_is_asked_for_its_first_bytes_alone(server: Server) -> None:
    def script(number: int, ranged: str | None) -> Told:
        assert ranged == "bytes=0-63", "nothing is downloaded"
        return Told(404) if number == 1 else Told(206, {"Content-Range": "bytes 0-63/9000"}, b"\x1f\x8b" * 32)

    server.script = script
    source = Source("numbers", "none", (File("a.gz", 9000, None, (server.url, "package:a/a.gz")),))
    dead, fine = ask_all([source], QUICK), ask_all([source], QUICK)
    assert dead == {"numbers/a.gz": {server.url: "there is no such file any more (404)"}}
    assert fine == {"numbers/a.gz": {server.url: None}}
