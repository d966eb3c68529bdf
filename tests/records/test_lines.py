"""Every record is kept to the byte, as it was written, and in few bytes; lines only grow."""

import gzip
import json
import os
import random
import subprocess
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from adanorm.analyses.spec import AnalysisRecord, load_analysis
from adanorm.cli.command import dispatch
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import ANALYSES, PROJECT, RUNS
from adanorm.files import with_checksum, write_whole
from adanorm.records import lines, reader
from adanorm.records.differences import differences, restored
from adanorm.records.integrity import check_record
from adanorm.records.keep import keep
from adanorm.records.lines import unchanging
from adanorm.records.reader import Record
from tests.reporting.records import as_older_version, edit, files_in, put, record, record_analysis

PATCH = b"+ caf\xe9\r\n+ \xe2\x80\xa8\n"  # not UTF-8, and with characters that elsewhere end a line
OUTPUTS = ["0", "ü\u2028 \x85", ""]
COUNTED = {"accuracy": [[1], [0], [1], [1]]}


@pytest.fixture
def run(tmp_path: Path) -> Experiment:
    """A finished run in a folder of its own."""
    settings = ["task=rt", "norm=adanorm", "scale=mini", f"runs={tmp_path / 'live'}"]
    experiment = compose_experiment(settings)
    files = {"changes.patch": PATCH}
    record(
        experiment,
        outputs=OUTPUTS,
        files=files,
        test={"accuracy": 75.0},
    )
    return experiment


@pytest.fixture
def kept(run: Experiment, tmp_path: Path) -> Experiment:
    """The same run where it is kept."""
    assert keep_run(run, tmp_path / "kept")
    return run.model_copy(update={"runs": str(tmp_path / "kept")})


def keep_run(run: Experiment, into: Path) -> bool:
    return keep(Record(run.folder()), into=into)


def file_of(run: Experiment) -> Path:
    return lines.file_of(run.folder().parent)


@pytest.mark.records
@pytest.mark.parametrize("root", [RUNS, ANALYSES])
def test_every_kept_record_has_the_bytes_and_the_digest_that_it_was_written_with(
    root: Path,
) -> None:
    records = [entry for entry in reader.records(root) if entry.is_kept]
    if not records:
        pytest.skip(f"no records in {root}")
    for entry in records:
        assert entry.ended is not None, entry.folder
        check_record(entry.folder, entry.content, entry.ended)  # every file by its SHA-256
        assert not entry.has("predictions.txt.gz") or entry.outputs()


def test_the_tracked_files_have_at_most_40_mebibytes() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git repository here, so nobody knows which files are tracked")
    paths = [PROJECT / name for name in listed.stdout.decode().split("\0")]
    sizes = {path: path.stat().st_size for path in paths if path.is_file()}
    assert sum(sizes.values()) <= 40 << 20


def test_readers_take_a_kept_record_as_they_take_its_folder(
    run: Experiment, kept: Experiment
) -> None:
    assert not kept.folder().exists()
    assert reader.is_complete(kept.folder())
    assert reader.runs_on_record(kept) == [kept]
    there, here = (reader.record(side.folder()) for side in (kept, run))
    assert there.contents() == here.contents()
    assert there.content("changes.patch") == PATCH
    assert there.outputs() == here.outputs() == OUTPUTS
    assert (there.ended, there.rows()) == (here.ended, here.rows())
    assert (there.environment, there.identity) == (here.environment, here.identity)
    records = reader.records(kept.folder().parents[2])
    assert [entry.folder for entry in records] == [kept.folder()]


def test_a_record_of_an_older_version_is_the_same_line(run: Experiment, tmp_path: Path) -> None:
    record(run, counted=COUNTED, files={"code/mine/norm.py": b"x = 1\n"})
    keep_run(run, tmp_path / "new")
    before = Record(run.folder()).contents()
    as_older_version(run.folder())
    assert reader.record(run.folder()).contents() == before
    assert [entry.folder for entry in reader.records(run.folder().parents[2])] == [run.folder()]
    keep_run(run, tmp_path / "old")
    assert files_in(tmp_path / "old") == files_in(tmp_path / "new")


def test_lines_that_an_older_version_kept_are_read_and_made_smaller(
    run: Experiment, tmp_path: Path
) -> None:
    """Older versions kept rows in the line, and outputs and counts as texts in two files."""
    record(run, counted=COUNTED)
    *texts, last = map(json.loads, (run.folder() / lines.RECORD).read_text().splitlines())
    older = tmp_path / "older" / "rt" / "adanorm.jsonl"
    older.parent.mkdir(parents=True)
    for text in texts:
        (key,) = text.keys() - {"run"}
        if key == "metrics":
            last["files"]["metrics.jsonl"] = text[key]
            del last[key]
        else:
            older.with_suffix(f".{key}.jsonl").write_text(json.dumps(text) + "\n")
    del last["checksum"]
    older.write_text(json.dumps(with_checksum(last)) + "\n")
    (there,) = reader.records(tmp_path / "older")
    assert there.contents() == Record(run.folder()).contents()
    assert there.counts["accuracy"].tolist() == COUNTED["accuracy"]
    dispatch(["keep", str(tmp_path / "older"), f"into={tmp_path / 'copy'}"])
    dispatch(["keep", str(tmp_path / "older"), f"into={tmp_path / 'older'}"])
    assert files_in(tmp_path / "copy") == files_in(tmp_path / "older")
    assert not keep_run(run, tmp_path / "older"), "the same record in another form"


def test_git_joins_what_two_branches_keep(run: Experiment, tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(
            ["git", *name, *arguments],
            cwd=into,
            check=True,
            capture_output=True,
        )

    into = tmp_path / "repository"
    into.mkdir()
    git("init", "-q", "-b", "main")
    (into / ".gitattributes").write_bytes((PROJECT / ".gitattributes").read_bytes())
    runs = [run.model_copy(update={"seed": seed}) for seed in (1, 2, 3)]
    for entry in runs:
        record(entry, counted=COUNTED)
    for entry, branch in zip(runs, ("main", "left", "right"), strict=True):
        git("checkout", "-q", *(["-b", branch, "main"] if branch != "main" else ["-B", "main"]))
        keep_run(entry, into / "results" / "runs")
        git("add", "results/runs/rt/adanorm.jsonl", "results/runs/rt/adanorm.examples")
        git("add", ".gitattributes")
        git("commit", "-qm", branch)
    git("merge", "-q", "left", "-m", "both")
    merged = [*reader.records(into / "results" / "runs")]
    assert [entry.identity["seed"] for entry in merged] == [1, 2, 3]
    assert all(entry.outputs() and entry.counts for entry in merged)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_folder_or_pipe_in_the_place_of_lines_hides_no_record(
    run: Experiment, make: Callable[[Path], None]
) -> None:
    make(file_of(run))
    records = reader.records(run.folder().parents[2])
    assert [entry.folder for entry in records] == [run.folder()]


def test_keeping_adds_lines_and_changes_none(run: Experiment, tmp_path: Path) -> None:
    into, other = tmp_path / "kept", run.model_copy(update={"seed": 2})
    record(other, test={"accuracy": 70.0})
    assert keep_run(other, into)
    before = (into / "rt" / "adanorm.jsonl").read_bytes()
    assert keep_run(run, into)
    assert (into / "rt" / "adanorm.jsonl").read_bytes().startswith(before)
    after = files_in(into)
    assert not keep_run(run, into), "it is there already"
    assert files_in(into) == after
    record(other, test={"accuracy": 71.0})
    with pytest.raises(ValueError, match="has another record of"):
        keep_run(other, into)
    moved = run.model_copy(update={"runs": str(into)})
    assert [entry.seed for entry in reader.runs_on_record(moved)] == [1, 2]


WORDS = st.lists(st.sampled_from([b"", b"a", b"b"]), max_size=4).map(b" ".join)
TEXT = st.lists(WORDS, max_size=5).map(b"\n".join)


@hypothesis.given(TEXT, TEXT)
def test_a_text_is_restored_from_its_differences(text: bytes, base: bytes) -> None:
    changed = differences(text, base)
    assert changed is None or restored(changed, base) == text
    assert differences(text, text) == b"\n" * text.count(b"\n")


def test_outputs_are_kept_as_their_differences_from_the_first_runs(
    run: Experiment, tmp_path: Path
) -> None:
    numbers = random.Random(1)
    outputs = [f"{numbers.random()} {numbers.random()}" for _ in range(1000)]
    sizes = []
    for seed in (1, 2, 3):
        entry = run.model_copy(update={"seed": seed})
        outputs[seed] = "another line"
        record(entry, outputs=outputs, test={"accuracy": 75.0})
        keep_run(entry, tmp_path / "kept")
        moved = entry.model_copy(update={"runs": str(tmp_path / "kept")})
        assert reader.record(moved.folder()).contents() == Record(entry.folder()).contents()
        sizes.append(file_of(moved).with_suffix(lines.EXAMPLES).stat().st_size)
    assert sizes[2] < 1.2 * sizes[0], "the words of two runs differ in a few lines"
    examples = file_of(moved).with_suffix(lines.EXAMPLES)
    first = run.folder().name.encode()
    kept_examples = examples.read_bytes().split(b"\n")
    examples.write_bytes(b"\n".join(e for e in kept_examples if not e.startswith(first)))
    with pytest.raises(ValueError, match=r"predictions\.txt\.gz: cannot be read"):
        reader.record(moved.folder()).outputs()


def test_outputs_are_restored_whichever_branch_kept_their_base(
    run: Experiment, tmp_path: Path
) -> None:
    """Two branches kept other records of seed 1, and each a seed with differences from its own."""
    bases = {"left": [str(n) for n in range(500)], "right": [str(n * n) for n in range(500)]}
    into = tmp_path / "merged" / "rt"
    into.mkdir(parents=True)
    for seed, (branch, base) in enumerate(bases.items(), 2):
        for entry, outputs in (
            (run, base),
            (run.model_copy(update={"seed": seed}), ["x", *base[1:]]),
        ):
            record(entry, outputs=outputs, test={"accuracy": 70.0 + seed})
            keep_run(entry, tmp_path / branch)
        for name in ("adanorm.jsonl", "adanorm.examples"):
            with (into / name).open("ab") as merged:
                merged.write((tmp_path / branch / "rt" / name).read_bytes())
    first, second, third = reader.records(into.parent)
    assert first.outputs() == bases["left"]
    assert second.outputs() == ["x", *bases["left"][1:]]
    assert third.outputs() == ["x", *bases["right"][1:]]


def test_keeping_again_brings_lost_texts_back(run: Experiment, tmp_path: Path) -> None:
    into = tmp_path / "kept"
    runs = [run.model_copy(update={"seed": seed}) for seed in (1, 2)]
    for entry in runs:
        record(entry, outputs=[str(n) for n in range(500)], test={"accuracy": 75.0})
        keep_run(entry, into)
    examples = into / "rt" / "adanorm.examples"
    kept = examples.read_bytes().split(b"\n")
    examples.write_bytes(b"\n".join(kept[1:]))
    lines_before = (into / "rt" / "adanorm.jsonl").read_bytes()
    assert keep_run(run, into), "its outputs, from which the other's differ, were lost"
    assert not keep_run(run, into)
    assert (into / "rt" / "adanorm.jsonl").read_bytes() == lines_before
    there, here = (reader.records(folder) for folder in (into, tmp_path / "live"))
    assert [entry.contents() for entry in there] == [entry.contents() for entry in here]


def test_keeping_that_was_cut_off_beside_the_record_adds_no_line_twice(
    run: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_run(run, tmp_path / "whole")
    written: list[Path] = []

    def cut(path: Path, content: bytes) -> None:
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write_whole(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(lines, "write_whole", cut)
        with pytest.raises(KeyboardInterrupt):
            keep_run(run, tmp_path / "cut")
    assert keep_run(run, tmp_path / "cut")
    assert files_in(tmp_path / "cut") == files_in(tmp_path / "whole")


def test_a_last_line_without_line_end_counts_and_survives_the_next(
    run: Experiment, kept: Experiment
) -> None:
    other, into = run.model_copy(update={"seed": 2}), kept.folder().parents[2]
    record(other, outputs=["1"], test={"accuracy": 70.0})
    for file in (file_of(kept), file_of(kept).with_suffix(lines.EXAMPLES)):
        file.write_bytes(file.read_bytes().removesuffix(b"\n"))  # as some editors save it
    assert reader.is_complete(kept.folder())
    keep_run(other, into)
    assert [entry.seed for entry in reader.runs_on_record(kept)] == [1, 2]
    assert reader.record(kept.folder()).outputs() == OUTPUTS


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
    file = file_of(kept)
    file.write_bytes(file.read_bytes() + json.dumps({"files": {}, **line}).encode() + b"\n")
    with pytest.warns(UserWarning, match="line 2 is not counted: it is no record"):
        counted = [entry.folder for entry in reader.records(file.parents[1]) if entry.ended]
    assert counted == [kept.folder()]


@pytest.mark.parametrize("content", [b"", b"x\n", b"x outputs nogzip\n", b"\xff \xff \\x\n"])
@pytest.mark.filterwarnings("ignore:.* is not counted. it is no record")
def test_lost_or_spoiled_outputs_are_an_error_that_names_them(
    kept: Experiment, content: bytes
) -> None:
    file_of(kept).with_suffix(lines.EXAMPLES).write_bytes(content)
    with pytest.raises(ValueError, match=r"predictions\.txt\.gz: cannot be read"):
        reader.record(kept.folder()).outputs()


@pytest.mark.filterwarnings("ignore:.* is not counted. it is no record")
def test_lost_rows_are_an_error_that_names_them(kept: Experiment) -> None:
    file_of(kept).with_suffix(lines.EXAMPLES).write_bytes(b"")
    with pytest.raises(ValueError, match=r"metrics\.jsonl: cannot be read"):
        reader.record(kept.folder()).rows()


def test_while_no_record_changes_each_is_looked_up_once(kept: Experiment) -> None:
    with unchanging():
        before = reader.record(kept.folder())
        file_of(kept).unlink()
        assert reader.record(kept.folder()) is before
    assert not reader.record(kept.folder()).has_ended


def test_analyses_are_kept_beside_the_runs(tmp_path: Path) -> None:
    for analysis, settings in (("gradients", ["task=rt"]), ("invariance", [])):
        run = compose_experiment([*settings, "norm=adanorm", f"runs={tmp_path}"])
        entry = AnalysisRecord(load_analysis(analysis), run)
        task = run.task.name if entry.analysis.tasks else None
        record_analysis(entry, task=task, summary={"mean": 1.0})
        assert keep(Record(entry.folder()), into=tmp_path / "kept")
        there = reader.record(tmp_path / "kept" / entry.folder().relative_to(tmp_path))
        assert there.ended == reader.record(entry.folder()).ended
        assert there.contents() == reader.record(entry.folder()).contents()


def write_outputs(folder: Path, content: bytes) -> None:
    as_older_version(folder)
    (folder / "predictions.txt.gz").write_bytes(content)


REFUSED: dict[str, Callable[[Path], object]] = {
    "predictions.txt.gz: cannot be read": lambda folder: write_outputs(folder, b"no gzip"),
    "not packed as Python's gzip does": lambda folder: write_outputs(
        folder, gzip.compress(b"0\n", mtime=1)
    ),
    "it failed": lambda folder: edit(folder, status="failed"),
    "it is a dry run": lambda folder: edit(folder, dry_run={"peak_memory": 1}),
    "it has not ended, or is no record": lambda folder: (folder / lines.RECORD).unlink(),
    "its line 1 is no record": lambda folder: (folder / lines.RECORD).write_bytes(b"{}\n[]\n"),
    "is not of this run": lambda folder: (folder / lines.RECORD).write_bytes(b""),
    "metrics.jsonl ends at update None": lambda folder: put(folder, "metrics.jsonl", b"{}\n"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_an_unfinished_or_damaged_record_is_not_kept(
    run: Experiment, tmp_path: Path, reason: str
) -> None:
    REFUSED[reason](run.folder())
    with pytest.raises(ValueError, match=reason):
        keep_run(run, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_link_that_leads_to_itself_is_an_error_that_names_it(
    run: Experiment, tmp_path: Path
) -> None:
    file = tmp_path / "kept" / "rt" / "adanorm.jsonl"
    file.parent.mkdir(parents=True)
    file.symlink_to(file.name)
    with pytest.raises(OSError, match="symbolic links") as refused:
        keep_run(run, tmp_path / "kept")
    assert refused.value.filename == str(file)


def test_of_a_folder_of_runs_all_that_is_evidence_is_kept(
    run: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, status in ((2, "failed"), (4, "done")):
        record(run.model_copy(update={"seed": seed}), status=status)
    record(
        run.model_copy(update={"seed": 3}),
        status="diverged",
        rows=[{"valid_accuracy": 50.0}],
        diverged="loss not finite at update 20",
        best_step=10,
        steps=20,
    )
    as_older_version(run.model_copy(update={"seed": 4}).folder())
    order = ["keep", str(tmp_path / "live"), f"into={tmp_path / 'kept'}"]
    dispatch(order)
    assert len(lines.kept_lines(tmp_path / "kept" / "rt" / "adanorm.jsonl")) == 3
    printed = capsys.readouterr()
    assert "live: 3 runs kept, 0 kept already" in printed.out
    assert printed.err.count("\n") == printed.err.count("left out: ") == 1
    dispatch(order)
    assert "live: 0 runs kept, 3 kept already" in capsys.readouterr().out


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
    file = file_of(kept)
    whole = file.read_bytes()
    file.write_bytes(change(whole.removesuffix(b"\n")) + b"\n")
    with pytest.warns(UserWarning, match=reason):
        assert reader.result(kept.folder()) is None
    record(kept, test={"accuracy": 75.0})
    assert reader.is_complete(kept.folder()), "it was made again"
    file.write_bytes(file.read_bytes() + whole)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = "a merge of two branches has the whole line too"
        assert reader.is_complete(kept.folder()), message


def test_two_processes_that_keep_at_once_lose_nothing(run: Experiment, tmp_path: Path) -> None:
    into = tmp_path / "kept"
    runs = [run.model_copy(update={"seed": seed}) for seed in range(1, 7)]
    for entry in runs[1:]:
        record(entry, test={"accuracy": 70.0})
    with ThreadPoolExecutor(len(runs)) as pool:
        assert all(pool.map(lambda entry: keep_run(entry, into), runs))
    assert len(lines.kept_lines(into / "rt" / "adanorm.jsonl")) == len(runs)
