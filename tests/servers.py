"""A server on this machine that answers by a script."""

import http.server
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import NamedTuple

CONTENT = bytes(range(256)) * 40


class Reply(NamedTuple):
    """How a server answers a request; a body may come piece by piece, perhaps in chunks."""

    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes | Callable[[], Iterator[bytes]] = CONTENT
    declared: int | None = None  # Content-Length, where it is another
    hangs: threading.Event | None = None  # it waits for this before it sends anything


CHUNKED = {"Transfer-Encoding": "chunked"}
Script = Callable[[int, str | None], Reply]  # the request's number and its Range


class Server:
    """Answers by its script and keeps the range that each request asks for."""

    def __init__(self) -> None:
        self.script: Script = lambda number, ranged: rest(ranged)
        self.ranges: list[str | None] = []
        self.url = ""


def rest(ranged: str | None, content: bytes = CONTENT) -> Reply:
    """Return what a server that knows ranges answers."""
    if not ranged:
        return Reply(body=content)
    start = int(ranged.removeprefix("bytes=").partition("-")[0])
    header = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
    return Reply(206, header, content[start:])


def trickle(gate: threading.Event, piece: bytes) -> Callable[[], Iterator[bytes]]:
    """Return a body that comes piece by piece, slowly, until the gate opens."""

    def pieces() -> Iterator[bytes]:
        while not gate.wait(0.02):
            yield piece

    return pieces


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server during a block."""
    server = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            ranged = self.headers.get("Range")
            server.ranges.append(ranged)
            answer = server.script(len(server.ranges), ranged)
            if answer.hangs is not None:
                answer.hangs.wait(5)
            with suppress(
                BrokenPipeError, ConnectionResetError
            ):  # a client that refuses stops reading
                self._send(answer)
            self.close_connection = True

        def _send(self, answer: Reply) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            is_whole = isinstance(answer.body, bytes)
            if is_whole or answer.declared is not None:
                length = answer.declared if answer.declared is not None else len(answer.body)  # type: ignore[arg-type]
                self.send_header("Content-Length", str(length))
            self.send_header("Connection", "close")
            self.end_headers()
            for piece in [answer.body] if isinstance(answer.body, bytes) else answer.body():
                self.wfile.write(piece)

        do_HEAD = do_GET  # noqa: N815 (as the base class calls it)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        running.block_on_close = False
        threading.Thread(
            target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        server.url = f"http://127.0.0.1:{running.server_port}/file.bin"
        try:
            yield server
        finally:
            running.shutdown()
