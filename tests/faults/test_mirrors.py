"""Misbehaving mirrors: the right file or a line, within bounds of time and disk, no wrong file kept."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path
from random import Random

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.data import catalogue, download
from adanorm.data.catalogue import File, Source
from adanorm.data.download import CHUNK, Patience
from adanorm.data.fetch import fetch
from tests.servers import CHUNKED, CONTENT, Script, Told, rest, serving, trickle

IMPATIENT = Patience(attempts=3, backoff=0.001, connect=2.0, read=0.15)
SIZE = len(CONTENT)


def scripts(random: Random, gate: threading.Event) -> dict[str, Script]:
    """Return ways to misbehave, drawn for a number; what each request is told, from the first on."""
    cut, other = random.randrange(1, SIZE), random.randbytes(SIZE)
    status = random.choice([301, 302, 307, 308])
    wait = str(random.choice([61, 10**6, 999_999_999, 10**11]))
    encoding = {"Content-Encoding": random.choice(["gzip", "x-gzip", "deflate", "br", "identity", "nosuch"])}
    chunk = b"2000\r\n" + b"x" * 8192 + b"\r\n"
    return {
        "endless": lambda n, r: Told(body=lambda: repeat(other)),
        "endless chunks": lambda n, r: Told(200, CHUNKED, lambda: repeat(chunk)),
        "a length too large": lambda n, r: Told(declared=random.randrange(SIZE + 1, 10**15)),
        "a length too small": lambda n, r: Told(declared=random.randrange(SIZE)),
        "slow bytes": lambda n, r: Told(body=trickle(gate, b"x"), declared=SIZE),
        "slow chunks": lambda n, r: Told(200, CHUNKED, trickle(gate, b"1\r\nx\r\n")),
        "a slow chunk's size": lambda n, r: Told(200, CHUNKED, trickle(gate, b"0")),
        "garbage for a chunk's size": lambda n, r: Told(200, CHUNKED, lambda: iter([other])),
        "silent": lambda n, r: Told(hangs=gate),
        "redirects in a circle": lambda n, r: Told(status, {"Location": f"/{n % 2}"}, b""),
        "redirects elsewhere": lambda n, r: Told(
            status, {"Location": random.choice(["file:///etc/passwd", "ftp://x/", "http://", "//"])}, b""
        ),
        "asks to wait": lambda n, r: Told(random.choice([429, 503]), {"Retry-After": wait}, b""),
        "cut off, then fine": lambda n, r: rest(r) if n > 1 else Told(body=CONTENT[:cut], declared=SIZE),
        "cut off again and again": lambda n, r: Told(body=CONTENT[:cut], declared=SIZE),
        "wrong content": lambda n, r: rest(r, other),
        "wrong behind a right start": lambda n, r: (
            rest(r, other) if n > 1 else Told(body=CONTENT[:cut], declared=SIZE)
        ),
        "another range": lambda n, r: Told(206, {"Content-Range": f"bytes {cut}-{SIZE}/{SIZE}"}, CONTENT),
        "said to be packed": lambda n, r: Told(200, encoding),
        "an odd status": lambda n, r: Told(random.choice([201, 204, 206, 299, 304, 400, 416, 451, 507, 599])),
        "many headers": lambda n, r: Told(
            200, {f"X-{i}": "x" * 500 for i in range(random.choice([50, 200]))}
        ),
    }


WAYS = list(scripts(Random(0), threading.Event()))


@pytest.mark.nightly
@pytest.mark.parametrize("published", [True, False], ids=["published", "unpublished"])
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("way", WAYS)
def test_a_misbehaving_mirror_gives_the_right_file_or_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, number: int, *, published: bool
) -> None:
    monkeypatch.delenv("ADANORM_MIRROR", raising=False)
    monkeypatch.setattr(download, "LARGEST", 1 << 18)
    monkeypatch.setattr(download, "PATIENCE", IMPATIENT)
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    data = compose_experiment([f"data.cache={tmp_path}", "data.mirrors=[]"]).data
    gate = threading.Event()
    with serving() as server:
        server.script = scripts(Random(f"{way} {number}"), gate)[way]
        file = File("a.bin", SIZE if published else None, checksum, (server.url,))
        monkeypatch.setitem(catalogue.SOURCES, "numbers", Source("numbers", "none", (file,)))
        refusal = ""
        with sizes_watched(tmp_path) as sizes:
            try:
                assert fetch("numbers", data)["a.bin"].read_bytes() == CONTENT
            except ValueError as error:
                refusal = str(error)
            gate.set()
        assert not refusal or not (tmp_path / "numbers" / "a.bin").exists()
        assert not refusal or (refusal.startswith("cannot get a.bin: ") and "\n" not in refusal)
        assert max(sizes) <= (SIZE if published else 1 << 18) + CHUNK
    assert len(server.asked) <= 31 * IMPATIENT.attempts


@contextmanager
def sizes_watched(folder: Path) -> Iterator[list[int]]:
    """Collect how many bytes of downloads lie in a folder during a block."""
    sizes, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            sizes.append(sum(path.stat().st_size for path in folder.rglob("part.*") if path.exists()))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield sizes
    done.set()
    thread.join()
