"""The store keeps every record to the byte, as it was written, and can lay it out as files again."""

import gzip
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from adanorm.analyses.spec import AnalysisRecord, load_analysis
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import ANALYSES, RUNS
from adanorm.files import digest_of, with_checksum, write_whole
from adanorm.records import reader, store
from adanorm.records.check import check
from adanorm.records.keep import keep, kept_record, lay_out
from tests.reporting.records import (
    files_in,
    record,
    record_analysis,
    record_as_run,
    result_of,
    seal,
)

PATCH = b"+ caf\xe9\r\n+ \xe2\x80\xa8\n"  # not UTF-8, and with characters that elsewhere end a line


@pytest.fixture
def run(tmp_path: Path) -> Experiment:
    """A finished run as runs write it, in a folder of its own."""
    experiment = compose_experiment(
        ["task=rt", "norm=adanorm", "scale=mini", f"runs={tmp_path / 'live'}"]
    )
    outputs = ["0", "ü\u2028 \x85", ""]
    record_as_run(experiment, outputs, {"changes.patch": PATCH}, test={"accuracy": 75.0})
    return experiment


@pytest.fixture
def kept(run: Experiment, tmp_path: Path) -> Experiment:
    """The same run where a store keeps it."""
    assert keep(run.folder(), into=tmp_path / "store")
    return run.model_copy(update={"runs": str(tmp_path / "store")})


@pytest.mark.parametrize("root", [RUNS, ANALYSES])
def test_every_kept_record_has_the_bytes_and_the_digest_that_it_was_written_with(
    root: Path,
) -> None:
    records = [one for one in reader.records(root) if one.line]
    if not records:
        pytest.skip(f"no store in {root}")
    for one in records:
        ended = one.ended
        assert ended is not None, one.folder
        check(one.folder, one.content, ended)  # files by their SHA-256, rows, scores and digest
        assert not one.has("predictions.txt.gz") or one.outputs()


def test_a_kept_record_is_laid_out_byte_for_byte(
    run: Experiment, kept: Experiment, tmp_path: Path
) -> None:
    name = str(kept.folder())
    folder = lay_out(kept_record(name), tmp_path / "opened")
    assert folder == tmp_path / "opened" / "rt" / "adanorm" / run.folder().name
    assert files_in(folder) == files_in(run.folder())
    assert (folder / "changes.patch").read_bytes() == PATCH
    assert reader.result(folder) == reader.result(run.folder())
    with pytest.raises(ValueError, match="there is a record already"):
        lay_out(kept_record(name), tmp_path / "opened")
    with pytest.raises(ValueError, match="the store has no such record"):
        kept_record("rt/adanorm/paper-seed1-00000000")


def test_readers_take_a_kept_record_as_they_take_its_folder(
    run: Experiment, kept: Experiment
) -> None:
    assert not kept.folder().exists()
    assert reader.is_complete(kept.folder())
    assert reader.runs_on_record(kept) == [kept]
    stored, live = (
        (one.ended, one.rows(), one.outputs(), one.environment, one.identity)
        for one in map(reader.record, (kept.folder(), run.folder()))
    )
    assert stored == live
    assert [one.folder for one in reader.records(kept.folder().parents[2])] == [kept.folder()]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_pipe_as_store_hides_no_record(
    run: Experiment, make: Callable[[Path], None]
) -> None:
    make(store.file_of(run.folder().parent))
    assert [one.folder for one in reader.records(run.folder().parents[2])] == [run.folder()]


def test_keeping_adds_lines_and_changes_none(run: Experiment, tmp_path: Path) -> None:
    into, other = tmp_path / "store", run.model_copy(update={"seed": 2})
    record(other, test={"accuracy": 70.0})
    assert keep(other.folder(), into=into)
    file = into / "rt" / "adanorm.jsonl"
    before = file.read_bytes()
    assert keep(run.folder(), into=into)
    assert file.read_bytes().startswith(before)
    after = files_in(into)
    assert not keep(run.folder(), into=into), "it is there already"
    assert files_in(into) == after
    record(other, test={"accuracy": 71.0})
    with pytest.raises(ValueError, match="has another record of"):
        keep(other.folder(), into=into)
    moved = run.model_copy(update={"runs": str(into)})
    assert [one.seed for one in reader.runs_on_record(moved)] == [1, 2]


def test_keeping_that_was_cut_off_beside_the_record_adds_no_line_twice(
    run: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_as_run(run, ["1"], test={"accuracy": 70.0})
    keep(run.folder(), into=tmp_path / "whole")
    paths: list[Path] = []

    def cut(path: Path, content: bytes) -> None:
        if paths:
            raise KeyboardInterrupt
        paths.append(path)
        write_whole(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(store, "write_whole", cut)
        with pytest.raises(KeyboardInterrupt):
            keep(run.folder(), into=tmp_path / "cut")
    assert keep(run.folder(), into=tmp_path / "cut")
    contents = (
        {path.name: path.read_bytes() for path in files}
        for files in (sorted((tmp_path / name).rglob("*.jsonl")) for name in ("whole", "cut"))
    )
    assert next(contents) == next(contents)


def test_a_last_line_without_line_end_counts_and_survives_the_next(
    run: Experiment, kept: Experiment
) -> None:
    other, into = run.model_copy(update={"seed": 2}), kept.folder().parents[2]
    record_as_run(other, ["1"], test={"accuracy": 70.0})
    for file in into.glob("rt/*.jsonl"):
        file.write_bytes(file.read_bytes().removesuffix(b"\n"))  # as some editors save it
    assert reader.is_complete(kept.folder())
    keep(other.folder(), into=into)
    assert [one.seed for one in reader.runs_on_record(kept)] == [1, 2]
    assert reader.record(kept.folder()).outputs() == ["0", "ü\u2028 \x85", ""]


@pytest.mark.parametrize(
    "line",
    [
        {"run": []}, {"run": None}, {"run": 7},
        {"run": "x", "files": 7}, {"run": "x", "files": [""]}, {"run": "x", "files": {"result.json": 7}},
    ],
)  # fmt: skip
def test_a_line_of_other_types_is_named_and_hides_no_other(
    kept: Experiment, line: dict[str, Any]
) -> None:
    file = store.file_of(kept.folder().parent)
    file.write_bytes(file.read_bytes() + json.dumps({"files": {}, **line}).encode() + b"\n")
    with pytest.warns(UserWarning, match="line 2 is not counted: it is no record"):
        assert [one.folder for one in reader.records(file.parents[1]) if one.ended] == [
            kept.folder()
        ]


def test_analyses_are_kept_beside_the_runs(tmp_path: Path) -> None:
    for analysis, settings in (("gradients", ["task=rt"]), ("invariance", [])):
        run = compose_experiment([*settings, "norm=adanorm", f"runs={tmp_path}"])
        one = AnalysisRecord(load_analysis(analysis), run)
        task = {"task": run.task.name} if one.analysis.tasks else {}
        record_analysis(one, **task, summary={"mean": 1.0})
        before = files_in(one.folder())
        assert keep(one.folder(), into=tmp_path / "store")
        kept_folder = tmp_path / "store" / one.folder().relative_to(tmp_path)
        assert reader.record(kept_folder).ended == reader.record(one.folder()).ended
        assert files_in(lay_out(reader.record(kept_folder), tmp_path / "opened")) == before


def seal_outputs(folder: Path, content: bytes) -> None:
    (folder / "predictions.txt.gz").write_bytes(content)
    seal(folder, result_of(folder))


REFUSED: dict[str, Callable[[Path], object]] = {
    "predictions.txt.gz: cannot be read": lambda folder: seal_outputs(folder, b"no gzip"),
    "not packed as Python's gzip does": lambda folder: seal_outputs(
        folder, gzip.compress(b"0\n", mtime=1)
    ),
    "it failed": lambda folder: seal(folder, {**result_of(folder), "status": "failed"}),
    "it is a dry run": lambda folder: seal(
        folder, {**result_of(folder), "dry_run": {"peak_memory": 1}}
    ),
    "it has not ended, or is no record": lambda folder: (folder / "result.json").unlink(),
    "metrics.jsonl has been changed": lambda folder: (folder / "metrics.jsonl").write_text("{}"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_an_unfinished_or_damaged_record_is_not_kept(
    run: Experiment, tmp_path: Path, reason: str
) -> None:
    REFUSED[reason](run.folder())
    with pytest.raises(ValueError, match=reason):
        keep(run.folder(), into=tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: line.replace(b"75.0", b"76.0"), "has been changed"),
        (lambda line: line[:-9], "line 1 is not counted: it is no record"),
    ],
)
def test_changed_lines_do_not_count(
    kept: Experiment, change: Callable[[bytes], bytes], reason: str
) -> None:
    file = store.file_of(kept.folder().parent)
    whole = file.read_bytes()
    file.write_bytes(change(whole.removesuffix(b"\n")) + b"\n")
    with pytest.warns(UserWarning, match=reason):
        assert reader.result(kept.folder()) is None
    record(kept, test={"accuracy": 75.0})
    assert reader.is_complete(kept.folder()), "it was made again"
    file.write_bytes(file.read_bytes() + whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert reader.is_complete(kept.folder()), "a merge of two branches has the whole one too"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (
            lambda line: line.update(run=f"mini-seed1-{digest_of({})}"),
            "predictions.txt.gz is missing",
        ),
        (
            lambda line: line["files"].update({"../../../../left.py": "x = 1"}),
            "would lie elsewhere",
        ),
    ],
)
def test_a_line_with_another_name_or_with_files_elsewhere_is_not_laid_out(
    kept: Experiment, tmp_path: Path, edit: Callable[[dict[str, Any]], object], reason: str
) -> None:
    file = store.file_of(kept.folder().parent)
    values = json.loads(file.read_text(errors="surrogateescape"))
    edit(values)
    file.write_text(
        json.dumps(with_checksum({k: v for k, v in values.items() if k != "checksum"})) + "\n"
    )
    (one,) = reader.records(tmp_path / "store")
    with pytest.raises(ValueError, match=reason):
        lay_out(one, tmp_path / "opened")
    assert not (tmp_path / "left.py").exists()


def test_two_processes_that_keep_at_once_lose_nothing(run: Experiment, tmp_path: Path) -> None:
    into = tmp_path / "store"
    runs = [run.model_copy(update={"seed": seed}) for seed in range(1, 7)]
    for one in runs[1:]:
        record(one, test={"accuracy": 70.0})
    with ThreadPoolExecutor(len(runs)) as pool:
        assert all(pool.map(lambda one: keep(one.folder(), into=into), runs))
    assert len(store.lines(into / "rt" / "adanorm.jsonl")) == len(runs)
