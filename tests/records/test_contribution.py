"""A contribution adds runs of another machine whole or not at all; what is wrong with one refuses it."""

import gzip
import hashlib
import json
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.files import with_checksum
from adanorm.records import contribution, lines, reader
from adanorm.records.keep import keep
from adanorm.reporting.tables.formats import table_markdown
from adanorm.reporting.tables.table import Table
from adanorm.studies.study import Study, study_grid
from tests.faults import command as faults
from tests.faults.mistakes import BOMB
from tests.reporting.records import contents_of, edit, files_in, put, record, run_in

MACHINE = {"commit": "0" * 40, "device": "Another (TM) CPU", "packages": {}, "precision": "fp32"}
OF_32 = {1: 24, 2: 25, 3: 26}  # right answers, by seed
Contents = dict[str, bytes]


def make_run(
    runs: Path, seed: int = 1, right: int | None = None, setting: str = "norm=adanorm"
) -> Experiment:
    settings = ["task=rt", "norm=adanorm", "scale=mini", setting]
    run = compose_experiment([*settings, f"seed={seed}", f"runs={runs}"])
    right = OF_32[seed] if right is None else right
    files = {"environment.json": json.dumps(MACHINE).encode()}
    counted = {"accuracy": [[int(n < right)] for n in range(32)]}
    record(
        run,
        counted=counted,
        seconds=1.0,
        files=files,
    )
    return run


def records_of(*runs: Experiment) -> list[reader.Record]:
    return [reader.record(run.folder()) for run in runs]


def write(path: Path, *runs: Experiment) -> str:
    path.write_bytes(contribution.packed_runs(records_of(*runs), MACHINE, {}))
    return str(path)


def merge(*arguments: object) -> None:
    dispatch(["merge", *map(str, arguments)])


def test_tables_mark_contributed_or_repeated_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    file = write(
        tmp_path / "file",
        make_run(there, 1),
        make_run(there, 2),
        make_run(there, 3),
    )
    make_run(here, 1, right=22)
    make_run(here, 2)
    before = files_in(tmp_path)
    merge(file, f"runs={here}", "add=false")
    assert files_in(tmp_path) == before
    merge(file, f"runs={here}")
    output = capsys.readouterr().out
    assert "repeated elsewhere, 68.75 here, +6.25 on Another (TM) CPU" in " ".join(output.split())
    assert "new, 81.25 beside" in output
    study = Study(
        title="T",
        rows=["adanorm"],
        columns=["rt"],
        scale="mini",
        seeds=[1, 2, 3],
    )
    table = Table(study, study_grid(study, runs=str(here)))
    cell = table.cells["adanorm", "rt"]
    assert cell is not None
    assert cell.scores == [100 * right / 32 for right in (22, 25, 26)], "a repetition is no seed"
    assert table.ours("adanorm", "rt").endswith("[1 contributed, 1 repeated elsewhere]")
    note = "RT AdaNorm seed 1 repeated elsewhere, 68.75 here, +6.25 on"
    assert f"{note} Another (TM) CPU beside ± 6.51 of seeds: within" in table_markdown(table)
    (folder,) = (tmp_path / "here-contributed").iterdir()
    assert len(lines.kept_lines(folder / "rt" / "adanorm.jsonl")) == 2
    merged = files_in(tmp_path)
    merge(file, f"runs={here}")
    assert files_in(tmp_path) == merged, "merged again it adds nothing"
    assert [one.identity["seed"] for one in reader.records(here)] == [1, 2, 3]


def test_contributions_count_in_their_order_whatever_their_number(tmp_path: Path) -> None:
    here = tmp_path / "here"
    for seed, number in ((1, 998), (2, 999), (3, 1000)):
        merge(write(tmp_path / "file", make_run(tmp_path / "there", seed)), f"runs={here}")
        folders = [*reader.contributions(here).values()]
        if seed == 1:
            folders[0].rename(folders[0].with_name("998-00000000"))
        assert int(folders[-1].name.partition("-")[0]) == (number if seed > 1 else 1)
    assert [number for number, _ in reader.contributions(here)] == [998, 999, 1000]
    seeds = [run.identity["seed"] for run in reader.records(here)]
    assert seeds == [1, 2, 3]
    # Two branches have each merged a contribution under one number: both count.
    folders[0].rename(folders[0].with_name("999-00000000"))
    assert [run.identity["seed"] for run in reader.records(here)] == [1, 2, 3]


def test_merging_a_norm_from_outside_imports_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "untold.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path / "mine")
    run = make_run(tmp_path / "there", setting="norm.path=untold:Norm")
    put(run.folder(), "code/untold.py", (tmp_path / "mine" / "untold.py").read_bytes())
    file = write(tmp_path / "file", run)
    monkeypatch.chdir(tmp_path)
    merge(file, f"runs={tmp_path / 'here'}")
    (one,) = reader.records(tmp_path / "here")
    assert one.has("code/untold.py")
    assert one.contribution


def test_a_killed_merge_leaves_what_was_there_and_the_next_one_completes_it(tmp_path: Path) -> None:
    order = ["merge", write(tmp_path / "file", make_run(tmp_path / "there")), "runs=runs"]
    whole = tmp_path / "whole"
    assert faults.run(order, whole).code == 0
    writes = (whole / faults.WRITES).read_text().splitlines()
    (folder,) = (whole / "runs-contributed").iterdir()
    for number in range(1, len(writes) + 1):
        broken = tmp_path / str(number)
        assert faults.run(order, broken, kill_at=number).code == -signal.SIGKILL
        is_merged = f"rename {folder.name}" in writes[: number - 1]
        assert len([*reader.records(broken / "runs")]) == is_merged, writes[number - 1]
        merge(*order[1:-1], f"runs={broken / 'runs'}")
        assert files_in(broken / "runs-contributed") == files_in(folder.parent)


def test_a_run_that_was_counted_after_it_was_kept_is_no_contribution(tmp_path: Path) -> None:
    folder, into = make_run(tmp_path / "runs").folder(), tmp_path / "kept"
    counts = contents_of(folder)["test_counts.json"].decode()
    put(folder, "test_counts.json", None)
    assert keep(reader.Record(folder), into=into)
    line = json.dumps({"run": folder.name, "counts": counts})
    (into / "rt" / "adanorm.counts.jsonl").write_text(f"{line}\n")
    kept = reader.record(into / "rt" / "adanorm" / folder.name)
    assert "accuracy" in kept.counts
    missing = r"it has no test_counts\.json: it was made before runs wrote one"
    with pytest.raises(ValueError, match=missing):
        contribution.check_contributable(kept)
    assert keep(kept, into=tmp_path / "copy")
    copied = reader.record(tmp_path / "copy" / "rt" / "adanorm" / folder.name)
    assert copied.counts["accuracy"].tolist() == kept.counts["accuracy"].tolist()


def resealed(contents: Contents, **result: Any) -> Contents:
    """Return contents whose result has other values, with checksums that are true."""
    values = {**json.loads(contents["result.json"]), **result}
    sums = {
        name: hashlib.sha256(of).hexdigest()
        for name, of in contents.items()
        if name in values["files"]
    }
    values |= {"files": {**sums, **result.get("files", {})}}
    values = {key: value for key, value in values.items() if key != "checksum"}
    return {**contents, "result.json": json.dumps(with_checksum(values)).encode()}


def replaced(name: str, old: bytes, new: bytes, count: int = -1) -> Callable[[Contents], Contents]:
    def edit(contents: Contents) -> Contents:
        assert old in contents[name]
        return resealed({**contents, name: contents[name].replace(old, new, count)})

    return edit


def added(name: str) -> Callable[[Contents], Contents]:
    return lambda contents: {**contents, name: b"x = 1\n"}


def with_row(column: str, value: str) -> Callable[[Contents], Contents]:
    """Return an edit of a run's last row: another value, as text of JSON, in a column."""

    def edit(contents: Contents) -> Contents:
        row = json.loads(contents["metrics.jsonl"])
        row[column] = "VALUE"
        text = json.dumps(row).replace('"VALUE"', value)
        return resealed({**contents, "metrics.jsonl": f"{text}\n".encode()})

    return edit


def with_rows(name: str, *rows: Mapping[str, Any]) -> Callable[[Contents], Contents]:
    """Return an edit of a run: rows before those of a file, if it has any."""

    def edit(contents: Contents) -> Contents:
        text = "".join(f"{json.dumps(row)}\n" for row in rows).encode() + contents.get(name, b"")
        result = json.loads(contents["result.json"])
        result["files"][name] = "the checksum of these rows"
        return resealed({**contents, name: text, "result.json": json.dumps(result).encode()})

    return edit


def computed(**facts: Any) -> Callable[[Contents], Contents]:
    """Return an edit of a run's environment."""

    def edit(contents: Contents) -> Contents:
        values = {**json.loads(contents["environment.json"]), **facts}
        return resealed({**contents, "environment.json": json.dumps(values).encode()})

    return edit


def diverged(
    at: int, *, reason: str = "loss not finite at update 15", **result: Any
) -> Callable[[Contents], Contents]:
    """Return an edit that lets a run, whose evaluation was at update 10, diverge at another."""

    def edit(contents: Contents) -> Contents:
        kept = {name: of for name, of in contents.items() if name not in TESTED}
        values = {"valid": None, "test": None, "steps": at, "diverged": reason, **result}
        return with_files(kept, status="diverged", **values)

    return edit


def with_files(contents: Contents, **result: Any) -> Contents:
    """Return resealed contents whose result names their files and no others."""
    values = json.loads(contents["result.json"])
    values["files"] = {name: of for name, of in values["files"].items() if name in contents}
    return resealed({**contents, "result.json": json.dumps(values).encode()}, **result)


TESTED = ("predictions.txt.gz", "test_counts.json")  # files of a run that was tested
EVALUATED = {"update": 5, "valid_accuracy": 1.0}
NO_FACTS: dict[str, Any] = {
    "code": 12, "commit": 7, "dirty": "perhaps", "python": {"a": [1]}, "packages": {"torch": ["2"]},
    "device": ["a", "b"], "system": 1, "machine": True, "cudnn": "9", "tf32": {"products": 1},
    "arithmetic": {"BLAS": 3}, "precision": "bf16", "threads": -3, "processes": 1.5,
    "norm_backend": {}, "numerics_version": "seven", "driver": "x" * 100_000, "changes": [],
}  # fmt: skip
# What training does not write, beside rows that are no curve.
NO_RUNS: Mapping[str, Callable[[Contents], Contents]] = {
    **{
        f"an environment with {key}={value!r:.9}": computed(**{key: value})
        for key, value in NO_FACTS.items()
    },
    "a better evaluation": with_rows("metrics.jsonl", {**EVALUATED, "valid_accuracy": 99.0}),
    "an equal and earlier evaluation": with_rows(
        "metrics.jsonl", {**EVALUATED, "valid_accuracy": 75.0}
    ),
    "an evaluation without the score": with_rows("metrics.jsonl", {"update": 5}),
    "a test score among those of validation": with_rows(
        "metrics.jsonl", {**EVALUATED, "test_accuracy": 1.0}
    ),
    "averaged weights": lambda of: resealed(of, averaged=[10], valid={"accuracy": 99.0}),
    "averaged weights of no update": lambda of: resealed(of, averaged=[]),
    "no starts": lambda of: with_rows("test_metrics.jsonl", {"update": 10, "test_accuracy": 1.0})(
        resealed(of, computed_by=[])
    ),
    "starts on other machines": lambda of: resealed(
        of, computed_by=[{"device": "A"}, {"device": "B"}]
    ),
    "starts of no machine": lambda of: resealed(of, computed_by=[{"code": 1}, {"code": 2}]),
    "a test between evaluations": with_rows(
        "test_metrics.jsonl",
        {"update": 5, "test_accuracy": 99.0},
        {"update": 10, "test_accuracy": 75.0},
    ),
    "a test after the end": with_rows(
        "test_metrics.jsonl",
        {"update": 10, "test_accuracy": 75.0},
        {"update": 11, "test_accuracy": 99.0},
    ),
    "a validation score among tests": with_rows(
        "test_metrics.jsonl", {"update": 10, "test_accuracy": 75.0, "valid_accuracy": 99.0}
    ),
    "a done run that diverged": lambda of: resealed(of, diverged="loss"),
    "a done run that failed": lambda of: resealed(of, error="boom"),
    "a diverged run that was tested": lambda of: resealed(
        of,
        status="diverged",
        diverged="loss not finite at update 10",
        valid=None,
        test=None,
    ),
    "a diverged run without a reason": diverged(15, reason=""),
    "a run that diverged before its evaluation": diverged(5, reason="loss not finite at update 5"),
    "a run that diverged at two updates": diverged(16),
    "a diverged run with another best step": diverged(15, best_step=5),
    "a diverged run with a test after the end": lambda of: with_rows(
        "test_metrics.jsonl", {"update": 15, "test_accuracy": 99.0}
    )(diverged(15)(of)),
    "more parameters in norms than in all": lambda of: resealed(of, norm_parameters=10**9),
    "parameters without a bound": lambda of: resealed(of, parameters=10**400),
    "seconds without a bound": lambda of: resealed(of, seconds=1e308),
    "prepared data below zero": lambda of: resealed(of, prepared={"overlap": {"test": -5}}),
    "an empty dry run": lambda of: resealed(of, dry_run={}),
    "a column twice": replaced("metrics.jsonl", b'{"', b'{"epoch": 9, "'),
    "a fact twice": replaced("environment.json", b"{", b'{"commit": null, ', 1),
    "a key of the result twice": lambda of: {
        **of,
        "result.json": of["result.json"].replace(b"{", b'{"seed": 2, ', 1),
    },
    "an example with two right answers": lambda of: resealed(
        {**of, "test_counts.json": of["test_counts.json"].replace(b'["1 1', b'["2 0', 1)}
    ),
}

IMPOSSIBLE = ("NaN", "Infinity", "1e400", '"low"', "[1.0]", "{}", "null", "-5", "true", "9" * 400)
NO_CURVES: Mapping[str, Callable[[Contents], Contents]] = {
    **{f"a training loss {value:.9}": with_row("train_loss", value) for value in IMPOSSIBLE},
    "a validation score above all": with_row("valid_accuracy", "100.1"),
    "an epoch below zero": with_row("epoch", "-1"),
    "a column that moves a cursor": with_row("\x1b[2J", "1"),
    "an update that is none": with_row("update", "1.5"),
    "rows that go back": lambda of: resealed(
        {**of, "metrics.jsonl": b'{"update": 99}\n' + of["metrics.jsonl"]}
    ),
    "test rows that are not JSON": lambda of: resealed({**of, "test_metrics.jsonl": b"garbage"}),
    "a test row without an update": lambda of: resealed(
        {**of, "test_metrics.jsonl": b'{"test_accuracy": 1.0}'}
    ),
    "a test score above all": lambda of: resealed(
        {**of, "test_metrics.jsonl": b'{"update": 1, "test_accuracy": 101}'}
    ),
    "seconds below zero": lambda of: resealed(of, seconds=-1.0),
    "processor time below zero": lambda of: resealed(of, cpu_seconds=-1.0),
    "parameters below zero": lambda of: resealed(of, parameters=-1),
    "a diverged run with test scores": lambda of: resealed(of, status="diverged", diverged="so"),
    "what moves a cursor in a list": lambda of: resealed(of, norm_sites=["norm\x1b[2J"]),
    "what moves a cursor in a list of objects": computed(later=[{"device": ["\x1b[2J"]}]),
    "a setting that moves a cursor": replaced("config.yaml", b"seed: 1", b'x: ["\\e[2J"]\nseed: 1'),
}

# Edits of the files of a run, under checksums that are true.
RUNS: Mapping[str, Callable[[Contents], Contents]] = {
    **NO_CURVES,
    **NO_RUNS,
    "an edited score": lambda of: resealed(of, test={"accuracy": 90.0}),
    "a score that is no number": lambda of: resealed(of, test={"accuracy": float("nan")}),
    "an edited score, not counted": lambda of: resealed(
        {name: content for name, content in of.items() if name != "test_counts.json"},
        test={"accuracy": 90.0},
    ),
    "a test score that its row denies": lambda of: resealed(
        {**of, "test_metrics.jsonl": b'{"update": 1, "test_accuracy": 74.0}'}
    ),
    "no row of the score": lambda of: resealed(
        {**of, "test_metrics.jsonl": b'{"update": 99, "test_accuracy": 75.0}'}
    ),
    "an edited validation score": lambda of: resealed(of, valid={"accuracy": 90.0}),
    "another seed": lambda of: resealed(of, seed=2),
    "another norm": lambda of: resealed(of, norm="layernorm"),
    "another task": lambda of: resealed(of, task="sst5"),
    "a task that is a path": lambda of: resealed(of, task="../../../rt"),
    "a norm that is a path": lambda of: resealed(of, norm="../adanorm"),
    "a norm that is a file of the store": lambda of: resealed(of, norm="adanorm.outputs"),
    "other data": lambda of: resealed(of, data={"x": "0" * 64}),
    "a text that moves a cursor": lambda of: resealed(of, data={"\x1b[2J": "0" * 64}),
    "a newer record": lambda of: resealed(of, schema=2),
    "a run that failed": lambda of: resealed(of, status="failed"),
    "an analysis": lambda of: resealed(of, analysis="gradients"),
    "other settings": replaced("config.yaml", b"lr: 0.001", b"lr: 0.002"),
    "an alias": replaced("config.yaml", b"seed: 1", b"a: &a [1]\nb: *a\nseed: 1"),
    "a bomb of aliases": replaced("config.yaml", b"seed: 1", BOMB.encode() + b"seed: 1"),
    "a call": replaced(
        "config.yaml", b"seed: 1", b"a: !!python/object/apply:os.system [id]\nseed: 1"
    ),
    "a tag": replaced("config.yaml", b"seed: 1", b"seed: !!int 1"),
    "deep settings": replaced(
        "config.yaml", b"seed: 1", b"a: " + b"[" * 9999 + b"]" * 9999 + b"\nseed: 1"
    ),
    "an environment without a device": lambda of: resealed({**of, "environment.json": b"{}"}),
    "what moves a cursor": replaced("environment.json", b"Another", b"\\u001b[2J"),
    "fewer rows": lambda of: resealed({**of, "metrics.jsonl": b""}),
    "more outputs": lambda of: resealed(
        {**of, "predictions.txt.gz": gzip.compress(b"0\n" * 33, mtime=0)}
    ),
    "a file without a checksum": lambda of: {**of, "changes.patch": b""},
    "code": added("code/evil.py"),
    "a path upwards": added("../../evil.py"),
    "a path from the root": added("/evil.py"),
}


def headed(**facts: Any) -> Callable[[bytes], bytes]:
    """Return an edit of a file: other facts in the head, under a checksum that is true."""

    def edit(text: bytes) -> bytes:
        head, _, body = text.partition(b"\n")
        values = {key: value for key, value in json.loads(head).items() if key != "checksum"}
        return json.dumps(with_checksum(values | facts)).encode() + b"\n" + body

    return edit


def bodied(edit: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return an edit of the lines below the head of a file; the head has their true SHA-256."""

    def edited(text: bytes) -> bytes:
        head, _, body = text.partition(b"\n")
        body = edit(body)
        return headed(content=hashlib.sha256(body).hexdigest())(head + b"\n" + body)

    return edited


def with_line(body: bytes, **facts: Any) -> bytes:
    """Return the lines of a run whose own line, the last, has other values under a true checksum."""
    *texts, last = body.splitlines(keepends=True)
    values = {key: value for key, value in json.loads(last).items() if key != "checksum"}
    line = json.dumps(with_checksum(values | facts), ensure_ascii=False)
    return b"".join(texts) + line.encode() + b"\n"


FILES: Mapping[str, Callable[[bytes], bytes]] = {
    "nothing": lambda text: b"",
    "a file cut short": lambda text: text[:-100],
    "a line less": bodied(lambda body: body.partition(b"\n")[2]),
    "a run twice": bodied(lambda body: 2 * body),
    "a digit": lambda text: text.replace(b"75.0", b"76.0"),
    "a digit in its record": bodied(lambda body: body.replace(b"75.0", b"76.0")),
    "a key twice": bodied(lambda body: body.replace(b'{"run"', b'{"run": "x", "run"')),
    "a million lines": bodied(lambda body: b"{}\n" * 1_000_000),
    "a huge line": bodied(lambda body: b'{"x": "' + b"x" * 20_000_000 + b'"}\n' + body),
    "a deep line": bodied(lambda body: b"[" * 500_000 + b"]" * 500_000 + b"\n" + body),
    "lines that are no records": bodied(lambda body: b'{"files": 7, "run": 7}\n[]\nnull\n'),
    "another digest of its rows": bodied(lambda body: with_line(body, metrics="0" * 64)),
    "a text that is not there": bodied(lambda body: with_line(body, rows="0" * 64)),
    "a bomb": lambda text: gzip.compress(bytes(300 << 20), 1),
    "a pickle": lambda text: b"\x80\x04cos\nsystem\n(S'id'\ntR.",
    "a newer schema": headed(schema=2),
    "a schema that is none": headed(schema="x" * 999_999),
    "golden losses of what is not there": headed(golden={"../x": [1.0]}),
    "golden losses that are none": headed(golden={"rt/adanorm": [float("nan"), "1"]}),
    "a head of a machine that is none": headed(environment=[]),
}


@pytest.mark.parametrize("how", [*NO_CURVES, *NO_RUNS])
def test_what_training_does_not_write_is_not_kept_either(tmp_path: Path, how: str) -> None:
    (run,) = records_of(make_run(tmp_path / "there"))
    contents = RUNS[how](run.contents())
    edited = reader.Record(
        run.folder,
        lines.line_of(
            run.folder.name,
            contents,
            run.folder,
        ),
    )
    with pytest.raises(ValueError, match=re.escape(run.folder.name)) as refused:
        keep(edited, into=tmp_path / "kept")
    assert re.fullmatch(".{,400}", str(refused.value))
    assert not (tmp_path / "kept").exists()


def test_a_new_norm_on_other_data_is_refused(tmp_path: Path) -> None:
    make_run(tmp_path / "here", 1)
    there = make_run(tmp_path / "there", 2, setting="norm=rmsnorm")
    assert "rmsnorm" in str(there.folder())
    merge(write(tmp_path / "file", there), f"runs={tmp_path / 'here'}", "add=false")
    (one,) = records_of(there)
    contents = resealed(one.contents(), data={"x": "0" * 64})
    line = lines.line_of(there.folder().name, contents, there.folder())
    file = tmp_path / "edited"
    file.write_bytes(contribution.packed_runs([reader.Record(there.folder(), line)], MACHINE, {}))
    with pytest.raises(ValueError, match="its data differ from those of the runs here"):
        merge(file, f"runs={tmp_path / 'here'}")


def test_contribute_does_not_overwrite_a_file_that_is_no_contribution(tmp_path: Path) -> None:
    (notes := tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"^output=.*notes\.txt: exists, .* name another file$"):
        dispatch(["contribute", "rt/adanorm", f"output={notes}"])
    assert notes.read_text() == "mine"


@pytest.mark.parametrize(("group", "name"), [("norm", "adanorm"), ("task", "rt")])
def test_a_norm_or_task_that_this_checkout_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, name: str
) -> None:
    (one,) = records_of(make_run(tmp_path))
    choices_here = {group: [other for other in choices(group) if other != name]}
    monkeypatch.setattr(
        contribution, "choices", lambda kind: choices_here.get(kind) or choices(kind)
    )
    with pytest.raises(ValueError, match=f"^no {group} '{name}' here: its code comes first$"):
        contribution.check_contributable(one)


NAMES = {
    "another's digest": "mini-seed1-00000000",
    "a path": "../../../evil",
    "none": "",
    "long": "x" * 999,
}


@pytest.mark.parametrize("how", [*RUNS, *FILES, *NAMES, "a seed with a zero"])
def test_a_hostile_contribution_is_refused_in_one_line_and_adds_nothing(
    tmp_path: Path, how: str
) -> None:
    (one,) = records_of(run := make_run(tmp_path / "there"))
    make_run(tmp_path / "here", 2)
    contents = RUNS[how](one.contents()) if how in RUNS else one.contents()
    name = run.folder().name
    if how == "a seed with a zero":
        name = name.replace("seed1", "seed01")
    named = run.folder().parent / NAMES.get(how, name)
    edited = reader.Record(named, lines.line_of(named.name, contents, named))
    text = contribution.packed_runs([edited], MACHINE, {})
    (tmp_path / "file").write_bytes(FILES[how](gzip.decompress(text)) if how in FILES else text)
    before = files_in(tmp_path)
    with pytest.raises(ValueError, match=re.escape(f"{tmp_path / 'file'}: ")) as refused:
        merge(tmp_path / "file", f"runs={tmp_path / 'here'}")
    assert re.fullmatch(".{,400}", str(refused.value))
    assert files_in(tmp_path) == before


def test_a_contribution_of_a_million_objects_is_refused_before_they_are_made(
    tmp_path: Path,
) -> None:
    text = gzip.decompress(
        Path(write(tmp_path / "file", make_run(tmp_path / "there"))).read_bytes()
    )
    rows = b'{"run": "x", "rows": [' + b"{}," * 1_000_000 + b"1]}\n"
    with pytest.raises(ValueError, match=r"^has more than 524,288 objects and lists$"):
        contribution.parse_contribution(bodied(lambda body: rows + body)(text))


@pytest.mark.parametrize(("kind", "updates"), [("best", [10, 30]), ("last", [20, 30])])
def test_the_averaged_weights_are_those_that_the_settings_choose(
    tmp_path: Path, kind: str, updates: list[int]
) -> None:
    average = f"training.average={{of: {kind}, count: 2}}"
    run = run_in(tmp_path / "runs", "task=rt", "scale=mini", average)
    rows = [{"valid_accuracy": score} for score in (70.0, 60.0, 80.0)]
    record(run, rows=rows, averaged=updates)
    assert keep(reader.Record(run.folder()), into=tmp_path / "kept")
    for averaged in ([10, 20], [10, 20, 30], [30, 40], None):
        edit(run.folder(), averaged=averaged)
        with pytest.raises(ValueError, match="averaged is not"):
            keep(reader.Record(run.folder()), into=tmp_path / "other")
