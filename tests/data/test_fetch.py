"""Getting files: from a mirror, and over HTTP from a server in this process."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import DataConfig
from adanorm.config.paths import PROJECT
from adanorm.data import catalogue, fetch
from adanorm.data.catalogue import File, Source
from adanorm.data.fetch import mirrors_of

CONTENT = bytes(range(256)) * 4000


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Serves byte ranges, which Python's own handler does not, and keeps the requests' ranges."""

    asked: list[str | None]

    def do_GET(self) -> None:
        ranged = self.headers.get("Range")
        type(self).asked.append(ranged)
        content = Path(self.translate_path(self.path)).read_bytes()
        start = int(re.fullmatch(r"bytes=(\d+)-", ranged)[1]) if ranged else 0  # type: ignore[index]
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served" / "numbers"
    folder.mkdir(parents=True)
    (folder / "numbers.bin").write_bytes(CONTENT)
    Ranges.asked = []

    def handler(*arguments: object) -> Ranges:
        return Ranges(*arguments, directory=str(tmp_path / "served"))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source whose canonical address nobody answers at."""
    file = File(
        "numbers.bin",
        len(CONTENT),
        f"sha256:{hashlib.sha256(CONTENT).hexdigest()}",
        ("http://127.0.0.1:9/numbers.bin",),
    )
    monkeypatch.setitem(catalogue.SOURCES, "numbers", Source("numbers", "none", (file,)))


def places(tmp_path: Path, mirror: str) -> DataConfig:
    return compose_experiment([f"data.cache={tmp_path / 'cache'}", f"data.mirror='{mirror}'"]).data


@pytest.mark.usefixtures("numbers")
def test_a_download_is_verified_and_kept(tmp_path: Path, served: str) -> None:
    data = places(tmp_path, served)
    for _ in range(2):
        assert fetch.fetch("numbers", data)["numbers.bin"].read_bytes() == CONTENT
    assert Ranges.asked == [None], "the second time nothing is downloaded"


@pytest.mark.usefixtures("numbers")
def test_a_broken_off_download_goes_on(tmp_path: Path, served: str) -> None:
    folder = tmp_path / "cache" / "numbers"
    folder.mkdir(parents=True)
    (folder / "part.numbers.bin").write_bytes(CONTENT[:1000])
    path = fetch.fetch("numbers", places(tmp_path, served))["numbers.bin"]
    assert path.read_bytes() == CONTENT
    assert Ranges.asked == ["bytes=1000-"]
    assert not (folder / "part.numbers.bin").exists()


@pytest.mark.usefixtures("numbers")
def test_wrong_bytes_are_refused_and_not_kept(tmp_path: Path, served: str) -> None:
    (tmp_path / "served" / "numbers" / "numbers.bin").write_bytes(CONTENT[::-1])
    with pytest.raises(ValueError, match=r"cannot get numbers.bin: .*sha256 is .*ADANORM_MIRROR"):
        fetch.fetch("numbers", places(tmp_path, served))
    left = [path.name for path in (tmp_path / "cache" / "numbers").iterdir() if path.suffix != ".lock"]
    assert left == []


@pytest.mark.usefixtures("numbers")
def test_a_corrupted_cached_file_is_got_again(tmp_path: Path, served: str) -> None:
    folder = tmp_path / "cache" / "numbers"
    folder.mkdir(parents=True)
    (folder / "numbers.bin").write_bytes(b"cut off")
    assert fetch.fetch("numbers", places(tmp_path, served))["numbers.bin"].read_bytes() == CONTENT


@pytest.mark.parametrize(
    "place", ["cache", "mirror folder", "default mirror", "mirror URL", "address", "package"]
)
def test_a_file_is_held_to_its_checksum_wherever_it_is_from(
    tmp_path: Path, served: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.delenv("ADANORM_MIRROR", raising=False)
    content = tmp_path / "served" / "numbers" / "numbers.bin"
    cached = tmp_path / "cache" / "numbers" / "numbers.bin"
    canonical = {
        "address": f"{served}/numbers/numbers.bin",
        "package": "package:numbers_of_a_test/numbers.bin",
    }
    file = File(
        "numbers.bin",
        len(CONTENT),
        f"sha256:{hashlib.sha256(CONTENT).hexdigest()}",
        (canonical.get(place, "http://127.0.0.1:9/numbers.bin"),),
    )
    monkeypatch.setitem(catalogue.SOURCES, "numbers", Source("numbers", "none", (file,)))
    mirrors = {"mirror folder": tmp_path / "served", "mirror URL": served}
    settings = [f"data.cache={tmp_path / 'cache'}", "data.mirrors=[]"]
    if place in mirrors:
        settings.append(f"data.mirror='{mirrors[place]}'")
    if place == "default mirror":
        settings.append(f"data.mirrors=[{tmp_path / 'nowhere'},{tmp_path / 'served'}]")
    if place == "package":
        content = tmp_path / "numbers_of_a_test" / "numbers.bin"
        monkeypatch.syspath_prepend(str(tmp_path))
        content.parent.mkdir()
        (content.parent / "__init__.py").touch()
    if place == "cache":
        content = cached
    content.parent.mkdir(parents=True, exist_ok=True)
    data = compose_experiment(settings).data
    content.write_bytes(CONTENT)
    assert fetch.fetch("numbers", data)["numbers.bin"].read_bytes() == CONTENT
    cached.unlink(missing_ok=True)
    content.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(
        ValueError, match=r"cannot get numbers\.bin: .*numbers\.bin: sha256 is \w{12}\.\.\., not"
    ):
        fetch.fetch("numbers", data)


@pytest.mark.usefixtures("numbers")
def test_which_mirror_was_used_is_said_and_the_cache_is_none(
    tmp_path: Path, served: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "served")
    (path,) = fetch.fetch("numbers", places(tmp_path, folder)).values()
    assert path == tmp_path / "served" / "numbers" / "numbers.bin", "it is used in place"
    line = f"numbers: 1 file(s) from the mirror {folder}, 1 with a published checksum\n"
    assert capsys.readouterr().out == line
    fetch.fetch("numbers", places(tmp_path, served))
    assert capsys.readouterr().out == line.replace(folder, served)
    fetch.fetch("numbers", places(tmp_path, served))
    assert capsys.readouterr().out == ""


def test_mirrors_are_the_users_then_the_environments_then_the_configured_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADANORM_MIRROR", raising=False)
    (tmp_path / "there").mkdir()
    listed = f"data.mirrors=[{tmp_path}/nowhere,{tmp_path}/there,'http://a.b/c']"
    of = compose_experiment([listed]).data
    assert mirrors_of(of) == [str(tmp_path / "there"), "http://a.b/c"]
    monkeypatch.setenv("ADANORM_MIRROR", "from-the-environment")
    assert mirrors_of(of) == ["from-the-environment"]
    assert mirrors_of(compose_experiment([listed, "data.mirror=named"]).data) == ["named"]
    monkeypatch.delenv("ADANORM_MIRROR")
    assert mirrors_of(compose_experiment(["data.mirrors=[conf,no-such-folder]"]).data) == [
        str(PROJECT / "conf")
    ]
    assert compose_experiment([listed]).digest() == compose_experiment([]).digest()


@pytest.mark.usefixtures("numbers")
def test_availability_says_what_is_missing(tmp_path: Path, served: str) -> None:
    there = places(tmp_path, str(tmp_path / "served"))
    assert fetch.availability("numbers", there) is None
    nowhere = places(tmp_path, str(tmp_path / "nowhere"))
    assert "numbers.bin cannot be had" in str(fetch.availability("numbers", nowhere))


@pytest.fixture
def unpublished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A source that nobody has published a checksum of, and its file in a mirror folder."""
    file = File("lines.gz", None, None, ("http://127.0.0.1:9/lines.gz",))
    monkeypatch.setitem(catalogue.SOURCES, "lines", Source("lines", "none", (file,)))
    path = tmp_path / "mirror" / "lines" / "lines.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(CONTENT, 0))
    return path


@pytest.mark.parametrize(
    "corrupt", [lambda c: c[: len(c) // 2], lambda c: c[:-8] + bytes([c[-8] ^ 1]) + c[-7:]]
)
def test_a_file_without_published_checksum_is_read_to_its_end_first(
    tmp_path: Path, unpublished: Path, corrupt: Callable[[bytes], bytes]
) -> None:
    data = places(tmp_path, str(tmp_path / "mirror"))
    unpublished.write_bytes(corrupt(unpublished.read_bytes()))
    with pytest.raises(ValueError, match=r"cannot get lines\.gz: .*not a whole gzip file.*no connection"):
        fetch.fetch("lines", data)
    assert not (tmp_path / "cache" / "lines" / "lines.gz.sha256").exists()


def test_a_file_without_published_checksum_is_what_it_was_at_its_first_use(
    tmp_path: Path, unpublished: Path
) -> None:
    data = places(tmp_path, str(tmp_path / "mirror"))
    for _ in range(2):
        assert fetch.fetch("lines", data)["lines.gz"] == unpublished
    unpublished.write_bytes(gzip.compress(CONTENT[::-1]))  # whole, and another
    with pytest.raises(ValueError, match=r"not [0-9a-f]{12}\.\.\. as when it was first used \(.*gz.sha256"):
        fetch.fetch("lines", data)


def test_a_broken_download_without_published_checksum_is_not_kept(
    tmp_path: Path, served: str, unpublished: Path
) -> None:
    (tmp_path / "served" / "lines").mkdir()
    (tmp_path / "served" / "lines" / "lines.gz").write_bytes(unpublished.read_bytes()[:-5])
    with pytest.raises(ValueError, match=r"cannot get lines\.gz: .*not a whole gzip file"):
        fetch.fetch("lines", places(tmp_path, served))
    left = [path.name for path in (tmp_path / "cache" / "lines").iterdir() if path.suffix != ".lock"]
    assert left == []
