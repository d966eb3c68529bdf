"""A record's folder: what is written when, who may write, and what an interruption leaves."""

import fcntl
import hashlib
import resource
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from adanorm.config.paths import PROJECT, analyses_folder, runs_folder
from adanorm.config.values import digest_of
from adanorm.records import folder as folders
from adanorm.records import reader
from adanorm.records.folder import RunFolder, is_locked
from adanorm.records.lines import RECORD
from adanorm.records.result import Result
from tests.records.test_result import FACTS

IDENTITY: dict[str, Any] = {"task": {"name": "rt"}, "seed": 1}
ENVIRONMENT: dict[str, Any] = {"commit": "0" * 40}
CODE = {"own/norms.py": b"x = 1\n", "own/sites.py": b"y = 2\n"}


def names(folder: RunFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()} - {"run.lock"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "rt" / "adanorm" / f"smoke-seed1-{digest_of(IDENTITY)}")


DIVERGED = Result(status="diverged", **FACTS)
FAILED = Result(status="failed", **FACTS)


def test_a_run_has_its_rows_and_checkpoint_and_ends_as_its_line_once(folder: RunFolder) -> None:
    with folder.recording(IDENTITY, ENVIRONMENT, CODE) as recording:
        assert not recording.is_complete
        assert names(folder) == {"run.host"}
        assert is_locked(folder.path)
        folder.checkpoint.touch()
        (folder.path / "kept-3.pt").touch()
        folder.add_row({"update": 1})
        folder.add_row({"update": 2}, to=folder.test_rows)
        folder.set_outputs(["eins zwei", "", "drei"], {})
        recording.result = DIVERGED
        assert not reader.is_complete(folder.path), "the block has not ended"
    assert names(folder) == {RECORD}
    assert reader.is_complete(folder.path)
    assert not is_locked(folder.path)
    record = reader.record(folder.path)
    assert record.text("config.yaml") == "task:\n  name: rt\nseed: 1\n", "keys in their order"
    assert record.environment == ENVIRONMENT
    assert (record.rows(), record.rows("test_metrics.jsonl")) == ([{"update": 1}], [{"update": 2}])
    assert record.outputs() == ["eins zwei", "", "drei"]
    assert {name: record.content(f"code/{name}") for name in CODE} == CODE
    before = (folder.path / RECORD).stat().st_mtime_ns
    with folder.recording({"task": "another"}, ENVIRONMENT, {}) as recording:
        assert recording.is_complete
        recording.result = FAILED
    assert names(folder) == {RECORD}
    assert (folder.path / RECORD).stat().st_mtime_ns == before


@pytest.mark.parametrize("size", [10, 10**6])
def test_a_large_patch_is_left_out_but_for_its_size_and_digest(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    patch = b"+" * size
    monkeypatch.setattr(folders, "changes", lambda: patch)
    with folder.recording(IDENTITY, {"dirty": True}, {}) as recording:
        recording.result = DIVERGED
    record = reader.record(folder.path)
    assert record.content("changes.patch") == (patch if size == 10 else None)
    kept = {"sha256": hashlib.sha256(patch).hexdigest(), "bytes": size}
    assert record.environment.get("changes") == (None if size == 10 else kept)


@pytest.mark.parametrize(("result", "files"), [(None, set()), (FAILED, {RECORD})])
def test_an_interrupted_or_failed_run_keeps_its_checkpoint_for_the_next_start(
    folder: RunFolder, result: Result | None, files: set[str]
) -> None:
    with suppress(KeyboardInterrupt), folder.recording(IDENTITY, ENVIRONMENT, {}) as recording:
        folder.checkpoint.touch()
        folder.add_row({"update": 1})
        recording.result = result
        raise KeyboardInterrupt
    assert names(folder) == {"metrics.jsonl", "checkpoint.pt", *files}
    assert not is_locked(folder.path)
    assert not reader.is_complete(folder.path)
    ended = reader.record(folder.path).ended
    assert (ended and ended.status) == (result and "failed")
    with folder.recording(IDENTITY, ENVIRONMENT, {}) as again:
        assert not again.is_complete
        now = {"run.host", "metrics.jsonl", "checkpoint.pt"}
        assert names(folder) == now, "a new try has begun"


def test_what_older_versions_left_in_a_folder_is_replaced_by_the_line(
    folder: RunFolder, tmp_path: Path
) -> None:
    """They wrote every file of the record into the folder. Links are removed but not followed."""
    folder.path.mkdir(parents=True)
    mine = tmp_path / "mine"
    (mine / "own").mkdir(parents=True)
    (mine / "file").write_text("mine")
    (folder.path / "code").symlink_to(mine)
    for name in ("config.yaml", "config.yaml.tmp", "metrics.jsonl", "record.jsonl.tmp"):
        (folder.path / name).symlink_to(mine / "file")
    (folder.path / "environment.json").write_text("{}")
    (folder.path / "result.json").write_text('{"schema": 1, "status": "fai')
    with pytest.warns(UserWarning, match=r"is not counted: .* not a JSON object"):
        assert not reader.is_complete(folder.path)
    with folder.recording(IDENTITY, ENVIRONMENT, CODE) as recording:
        folder.write_rows([])
        folder.add_row({"update": 1})
        recording.result = DIVERGED
    assert names(folder) == {RECORD}
    assert reader.record(folder.path).environment == ENVIRONMENT
    assert (mine / "file").read_text() == "mine"
    assert (mine / "own").is_dir()


def test_a_result_of_a_later_version_is_left_as_it_is(folder: RunFolder) -> None:
    folder.path.mkdir(parents=True)
    later = folder.path / "result.json"
    later.write_text('{"schema": 2, "status": "done"}')
    with (
        pytest.warns(UserWarning, match="is not counted: schema 2 is not 1"),
        pytest.raises(ValueError, match=r"of schema 2, from a later version .* left as it is"),
        folder.recording(IDENTITY, ENVIRONMENT, {}),
    ):
        pass
    assert names(folder) == {"result.json"}
    assert later.read_text() == '{"schema": 2, "status": "done"}'


def test_a_locked_folder_is_left_alone_and_a_mere_lock_file_locks_nothing(
    folder: RunFolder,
) -> None:
    assert not is_locked(folder.path), "nothing is there"
    folder.path.mkdir(parents=True)
    (folder.path / "run.lock").touch()
    assert not is_locked(folder.path)
    with (folder.path / "run.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        assert not is_locked(folder.path), "another process looks too, without writing"
    with FileLock(folder.path / "run.lock"):
        assert is_locked(folder.path)
        with (
            pytest.raises(ValueError, match="is being written by another process"),
            folder.recording(IDENTITY, ENVIRONMENT, {}),
        ):
            pass
    assert names(folder) == set()


def test_rows_after_a_checkpoint_are_dropped_and_a_row_without_room_leaves_nothing(
    folder: RunFolder,
) -> None:
    folder.path.mkdir(parents=True)
    folder.write_rows([{"update": 3}], to=folder.test_rows)
    folder.add_row({"update": 4}, to=folder.test_rows)
    assert reader.record(folder.path).rows("test_metrics.jsonl") == [{"update": 3}, {"update": 4}]
    for update in (1, 2, 3):
        folder.add_row({"update": update})
    folder.write_rows([{"update": 1}])
    before = folder.rows.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        folder.add_row({"loss": float("nan")})
    limit, whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 5, whole))  # stands in for the disk
    try:
        with pytest.raises(OSError, match=r"File too large: '.*metrics.jsonl'"):
            folder.add_row({"update": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, whole))
    assert folder.rows.read_bytes() == before
    folder.add_row({"update": 2})
    assert reader.record(folder.path).rows() == [{"update": 1}, {"update": 2}]


def test_analyses_lie_in_a_users_folder_of_runs_and_beside_the_repositorys(tmp_path: Path) -> None:
    assert runs_folder(str(tmp_path)) == tmp_path
    assert analyses_folder(str(tmp_path)) == tmp_path / "analyses"
    for named in (None, str(PROJECT / "results" / "runs")):
        assert runs_folder(named) == PROJECT / "results" / "runs"
        assert analyses_folder(named) == PROJECT / "results" / "analyses"
