"""Files written whole, and the leftovers of processes that were killed while they wrote."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from adanorm.cli.command import folder_of, output_path
from adanorm.config.overrides import prepare_overrides
from adanorm.files import sweep, write_files, write_whole, writing, writing_to

KILLED = """
import sys, time
from pathlib import Path
from typing import IO
from adanorm.files import writing
with writing(Path(sys.argv[1])) as file:
    file.write(b"half of")
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("is_written_again", [False, True])
def test_a_killed_writer_leaves_the_old_content_unharmed(
    tmp_path: Path, is_written_again: bool
) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"old")
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        sweep(tmp_path)
        assert (tmp_path / "result.json.tmp").exists(), "a process is still writing it"
        process.send_signal(signal.SIGKILL)
    assert path.read_bytes() == b"old"
    assert (tmp_path / "result.json.tmp").exists()
    if is_written_again:
        write_whole(path, b"new")
    else:
        sweep(tmp_path)
    assert path.read_bytes() == (b"new" if is_written_again else b"old")
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_an_error_while_writing_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")
    with suppress(KeyError), writing(path) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
    for target, reason in ((tmp_path, IsADirectoryError), (path / "b", NotADirectoryError)):
        with pytest.raises(reason) as raised:
            write_whole(target, b"new")
        assert raised.value.filename == str(target), "not the file beside it that is written first"


def test_a_file_that_is_written_again_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old")
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    for mode in (0o600, 0o664):
        path.chmod(mode)
        with writing(path) as file:
            assert os.fstat(file.fileno()).st_mode & 0o777 == mode, "from the first byte on"
        assert path.stat().st_mode & 0o777 == mode


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_folder_is_created_where_a_link_leads(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "disk" / "scores")
    write_files(link, {"a/b": "text"})
    assert link.is_symlink()
    assert (tmp_path / "disk" / "scores" / "a" / "b").read_text() == "text"


def _write(path: Path, content: bytes) -> None:
    for _ in range(20):
        with writing(path) as file:
            file.write(content[:500])
            time.sleep(0.001)
            file.write(content[500:])


def test_two_writers_of_one_file_wait_for_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a"
    context = multiprocessing.get_context("fork")
    writers = [
        context.Process(target=_write, args=(path, letter * 1000)) for letter in (b"a", b"b")
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert path.read_bytes() in (b"a" * 1000, b"b" * 1000)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_link_that_a_user_named_stays_one_and_a_pipe_gets_the_content(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        with writing_to(path) as file:
            file.write(b"new")

    for name in ("file", "dangling"):
        link = tmp_path / f"link to {name}"
        link.symlink_to(tmp_path / name)
    (tmp_path / "file").write_bytes(b"old")
    for name in ("file", "dangling"):
        write(tmp_path / f"link to {name}")
        assert (tmp_path / f"link to {name}").is_symlink()
        assert (tmp_path / name).read_bytes() == b"new"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write(pipe)
    assert os.read(reader, 10) == b"new"
    assert pipe.is_fifo()
    os.close(reader)
    write(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("mode", ["ab", "wb"])
def test_the_name_of_a_descriptor_goes_on_where_the_descriptor_is(
    tmp_path: Path, mode: str
) -> None:
    log, link = tmp_path / "log.txt", tmp_path / "link"
    with log.open(mode, buffering=0) as file:
        file.write(b"before\n")
        name = f"/dev/fd/{file.fileno()}"
        link.symlink_to(name)
        for path in (name, f"/proc/self/fd/{file.fileno()}", str(link)):
            with writing_to(output_path(path, is_replaced=lambda _: False)) as target:
                target.write(b"new\n")
        file.write(b"after\n")
    assert log.read_bytes() == b"before\n" + 3 * b"new\n" + b"after\n"
    with log.open("rb") as file, pytest.raises(ValueError, match="no file can be written there"):
        output_path(f"/dev/fd/{file.fileno()}", is_replaced=lambda _: True)
    with pytest.raises(ValueError, match="no file can be written there"):
        output_path(name, is_replaced=lambda _: True)


def test_home_folders_are_found_and_what_can_hold_no_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert output_path("~/out", is_replaced=lambda _: False) == tmp_path / "out"
    assert folder_of("~/runs") == str(tmp_path / "runs")
    assert prepare_overrides(["runs=~/x"]) == [f"runs='{tmp_path}/x'"]
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "dangling").symlink_to(tmp_path / "none" / "file")
    for name in ("~", "~/loop", "~/dangling", "~/none/file"):
        with pytest.raises(ValueError, match=f"output={name}: no file can be written there"):
            output_path(name, is_replaced=lambda _: True)
