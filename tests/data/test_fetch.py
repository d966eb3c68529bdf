"""Getting files: from a mirror, from a package, and over HTTP from a server in this process."""

import gzip
import hashlib
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import DataConfig
from adanorm.config.paths import PROJECT
from adanorm.data import catalogue, fetch
from adanorm.data.catalogue import File, Source
from adanorm.data.fetch import mirrors_of
from adanorm.files import write_files
from tests.data.archives import archive
from tests.servers import CONTENT, Reply, Server, rest

SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
Listed = Callable[..., None]
NOBODY = "http://127.0.0.1:9/numbers.bin"


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Listed:
    """Makes `numbers` a source of one file."""

    def make(*addresses: str, checksum: str | None = SHA256, name: str = "numbers.bin") -> None:
        file = File(
            name, len(CONTENT) if checksum == SHA256 else None, checksum, addresses or (NOBODY,)
        )
        monkeypatch.setitem(catalogue.SOURCES, "numbers", Source("numbers", "none", (file,)))

    make()
    return make


def data_in(tmp_path: Path, mirror: object = "") -> DataConfig:
    named = f"'{mirror}'" if mirror else "null"
    settings = [f"data.cache={tmp_path / 'cache'}", f"data.mirror={named}", "data.mirrors=[]"]
    return compose_experiment(settings).data


def fetched(data: DataConfig) -> bytes:
    (path,) = fetch.fetch("numbers", data).values()
    return path.read_bytes()


def files_left(tmp_path: Path) -> list[str]:
    return [
        path.name for path in (tmp_path / "cache" / "numbers").iterdir() if path.suffix != ".lock"
    ]


@pytest.mark.usefixtures("listed")
def test_a_broken_off_download_goes_on(tmp_path: Path, server: Server) -> None:
    files = {"numbers.bin": b"cut off", "part.numbers.bin": CONTENT[:1000]}
    _, part = write_files(tmp_path / "cache" / "numbers", files)
    assert fetched(data_in(tmp_path, server.url)) == CONTENT, "a corrupted file is downloaded again"
    assert server.ranges == ["bytes=1000-"]
    assert not part.exists()


def test_the_next_address_is_asked_and_no_wrong_file_is_kept(
    tmp_path: Path, server: Server, listed: Listed
) -> None:
    server.script = lambda number, ranged: rest(ranged, CONTENT[::-1] if number == 1 else CONTENT)
    git = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    listed(server.url, checksum=f"git:{git}")
    with pytest.raises(
        ValueError, match=r"git is [0-9a-f]+\.\.\., not .*put it into numbers/ of a mirror"
    ):
        fetched(data_in(tmp_path))
    assert files_left(tmp_path) == []
    server.ranges.clear()
    listed(server.url, f"{server.url}?2", checksum=f"git:{git}")
    assert fetched(data_in(tmp_path)) == CONTENT
    assert len(server.ranges) == 2


@pytest.mark.parametrize(
    "origin", ["cache", "mirror folder", "default mirror", "mirror URL", "address", "package"]
)
def test_a_file_must_have_its_checksum_wherever_it_is_from(
    tmp_path: Path, server: Server, listed: Listed, monkeypatch: pytest.MonkeyPatch, origin: str
) -> None:
    folders = {"cache": "cache/numbers", "package": "shipped"}
    folder = tmp_path / folders.get(origin, "served/numbers")
    (content,) = write_files(folder, {"numbers.bin": CONTENT})
    monkeypatch.setattr(fetch, "SHIPPED", tmp_path / "shipped")
    server.script = lambda number, ranged: rest(ranged, content.read_bytes())
    addresses = {"address": server.url, "package": "package:numbers.bin"}
    listed(addresses.get(origin, NOBODY))
    data = data_in(
        tmp_path, {"mirror folder": tmp_path / "served", "mirror URL": server.url}.get(origin, "")
    )
    mirrors = (
        (str(tmp_path / "nowhere"), str(tmp_path / "served")) if origin == "default mirror" else ()
    )
    data = data.model_copy(update={"mirrors": mirrors})
    assert fetched(data) == CONTENT
    (tmp_path / "cache" / "numbers" / "numbers.bin").unlink(missing_ok=True)
    content.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(
        ValueError, match=r"cannot get numbers\.bin: .*: sha256 is \w{12}\.\.\., not"
    ):
        fetched(data)


@pytest.mark.usefixtures("listed")
def test_the_mirror_that_was_used_is_printed_and_the_cache_is_not(
    tmp_path: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "served"
    mirrored = write_files(folder, {"numbers/numbers.bin": CONTENT})
    assert [*fetch.fetch("numbers", data_in(tmp_path, folder)).values()] == mirrored, (
        "it is used in place"
    )
    line = f"numbers: 1 file from the mirror {folder}, 1 with a published checksum\n"
    over_http = line.replace(str(folder), server.url)
    for mirror, output in ((folder, line), (server.url, over_http), (server.url, "")):
        capsys.readouterr()
        fetched(data_in(tmp_path, mirror))
        assert capsys.readouterr().out == output
    assert server.ranges == [None], "the second time nothing is downloaded"


@pytest.mark.usefixtures("listed")
def test_a_mirrors_password_is_not_printed_and_no_setting(
    tmp_path: Path,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirror = server.url.replace("://", "://someone:secret%40word@")
    for setting in (f"data.mirror='{mirror}'", f"data.mirrors=['{mirror}']"):
        with pytest.raises(ValueError, match=f"{server.url} with a name .* ADANORM_MIRROR") as told:
            compose_experiment([setting])
        assert "secret" not in str(told.value)
    monkeypatch.setenv("ADANORM_MIRROR", mirror)
    data = data_in(tmp_path)
    assert fetched(data) == CONTENT
    assert f"from the mirror {server.url}, 1" in capsys.readouterr().out
    (tmp_path / "cache" / "numbers" / "numbers.bin").unlink()
    server.script = lambda number, ranged: Reply(403)
    with pytest.raises(ValueError, match=f"cannot get numbers.bin: {server.url}/") as caught:
        fetched(data)
    assert "secret" not in str(caught.value)


def test_mirrors_are_the_users_then_the_environments_then_the_configured_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADANORM_MIRROR", raising=False)
    (tmp_path / "there").mkdir()
    listed = f"data.mirrors=[{tmp_path}/nowhere,{tmp_path}/there,'http://a.b/c']"
    data = compose_experiment([listed]).data
    assert mirrors_of(data) == [str(tmp_path / "there"), "http://a.b/c"]
    monkeypatch.setenv("ADANORM_MIRROR", "from-the-environment")
    assert mirrors_of(data) == ["from-the-environment"]
    assert mirrors_of(compose_experiment([listed, "data.mirror=named"]).data) == ["named"]
    monkeypatch.delenv("ADANORM_MIRROR")
    conf = compose_experiment(["data.mirrors=[conf,no-such-folder]"]).data
    assert mirrors_of(conf) == [str(PROJECT / "conf")]
    assert compose_experiment([listed]).digest == compose_experiment([]).digest


def test_a_full_disk_is_named_and_blames_no_address(
    tmp_path: Path, server: Server, listed: Listed
) -> None:
    listed(server.url, f"{server.url}?2")
    (part := tmp_path / "cache" / "numbers" / "part.numbers.bin").parent.mkdir(parents=True)
    limit, whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, whole))  # stands in for the disk
    try:
        with pytest.raises(OSError, match="File too large") as raised:
            fetched(data_in(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, whole))
    assert (raised.value.filename, len(server.ranges)) == (str(part), 1)
    assert fetched(data_in(tmp_path)) == CONTENT
    assert server.ranges[1:] == ["bytes=1000-"], "it goes on where there was room until"


def test_availability_says_what_is_missing(tmp_path: Path, server: Server, listed: Listed) -> None:
    nowhere = data_in(tmp_path, tmp_path / "nowhere")
    assert "numbers.bin cannot be had" in str(fetch.availability("numbers", nowhere))
    listed(server.url)
    assert fetch.availability("numbers", nowhere) is None
    server.script = lambda number, ranged: Reply(302, {"Location": "/again"}, b"")
    assert fetch.availability("numbers", nowhere) is not None


@pytest.mark.parametrize("is_local", [True, False])
def test_a_file_without_published_checksum_must_be_whole_and_stay_as_at_its_first_use(
    tmp_path: Path, server: Server, listed: Listed, *, is_local: bool
) -> None:
    path = tmp_path / "mirror" / "numbers" / "lines.gz"
    path.parent.mkdir(parents=True)
    server.script = lambda number, ranged: rest(ranged, path.read_bytes())
    listed(name="lines.gz", checksum=None)
    data = data_in(tmp_path, tmp_path / "mirror" if is_local else server.url)
    whole = gzip.compress(CONTENT, 0)
    for broken in (whole[: len(whole) // 2], whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]):
        path.write_bytes(broken)
        with pytest.raises(
            ValueError, match=r"cannot get lines\.gz: .*not a whole gzip file.*no connection"
        ):
            fetched(data)
        assert is_local or files_left(tmp_path) == []
        assert not (tmp_path / "cache" / "numbers" / "lines.gz.sha256").exists()
    path.write_bytes(whole)
    for _ in range(2):
        assert fetched(data) == whole
    changed = path if is_local else tmp_path / "cache" / "numbers" / "lines.gz"
    path.write_bytes(gzip.compress(CONTENT[::-1]))  # whole, and another
    changed.write_bytes(path.read_bytes())
    with pytest.raises(
        ValueError, match=r"not [0-9a-f]{12}\.\.\. as when it was first used \(.*gz.sha256"
    ):
        fetched(data)


def test_a_file_is_taken_out_of_an_archive(tmp_path: Path, server: Server, listed: Listed) -> None:
    packed = archive(tmp_path / "a.tgz", {"data/train.en": "a line"}).read_bytes()
    server.script = lambda number, ranged: rest(ranged, packed)
    listed(
        f"{server.url.replace('file.bin', 'en-vi.tgz')}#train.en", checksum=None, name="train.en"
    )
    assert fetched(data_in(tmp_path)) == b"a line"
