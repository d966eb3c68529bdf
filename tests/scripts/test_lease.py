"""The script for a borrowed GPU machine, by what a CPU can show of it."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT
from scripts import lease
from scripts.benchmarks.updates import checkout_of


def machine_in(folder: Path, *, minutes: str = "5", processes: str = "1") -> lease.Machine:
    """A machine without a GPU, whose results and work lie in a folder."""
    keys = {"minutes": minutes, "device": "cpu", "processes": processes}
    return lease.Machine({**keys, "output": str(folder / "out"), "work": str(folder / "work")})


@pytest.mark.usefixtures("_quick_start")
def test_a_borrowed_machine_measures_then_trains_what_fits_and_returns_it_without_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, measures = tmp_path / "runs.txt", tmp_path / "measures.txt"
    line = "task=gaussian norm=adanorm scale=smoke"
    runs.write_text(f"# best first\n{line} seed=1\n\n{line} seed=2\n")
    measures.write_text("graphs gaussian device={device}\nspeed gaussian scale=smoke\nspeed none\n")
    monkeypatch.setattr(lease, "RUNS", runs)
    monkeypatch.setattr(lease, "MEASURES", measures)
    output = tmp_path / "out"
    machine = machine_in(tmp_path, processes="2")
    machine._environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    machine.measure()
    machine.train()
    machine.pack()
    measured = [json.loads(text) for text in (output / "measured.jsonl").read_text().splitlines()]
    assert [facts["measure"][0] for facts in measured] == ["graphs", "speed", "speed"]
    assert measured[0]["ok"]
    assert measured[1]["milliseconds"] > 0
    assert not measured[2]["ok"]
    with tarfile.open(output / "runs.tar.gz") as archive:
        names = archive.getnames()
    results = [name for name in names if name.endswith("/record.jsonl")]
    assert len(results) == 2
    assert not [name for name in names if name.endswith((".pt", ".safetensors"))]
    with tarfile.open(output / "logs.tar.gz") as archive:
        assert len(archive.getnames()) >= 2


def test_the_script_starts_without_the_packages_that_it_installs() -> None:
    code = "import sys; sys.modules.update(torch=None, pydantic=None); import scripts.lease"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=PROJECT, check=False)
    assert done.returncode == 0


def test_a_machine_without_a_list_of_runs_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(PROJECT / "scripts/lease.py", tmp_path / "scripts")
    command = [sys.executable, "-S", script, "run", "device=cpu"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no list of runs in .lease: `prepare` fills it")
    assert done.stderr.count("\n") == 1


def test_a_list_with_a_mistake_leaves_what_was_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "lease" / "kept"
    kept.parent.mkdir()
    kept.touch()
    monkeypatch.setattr(lease, "LEASE", kept.parent)
    runs = tmp_path / "runs.txt"
    for text, message in (
        ("task=nowhere norm=adanorm\n", "nowhere"),
        ("# none\n", "the list of runs is empty"),
    ):
        runs.write_text(text)
        with pytest.raises(ValueError, match=message):
            lease.prepare(runs, None)
    assert kept.exists()


@pytest.mark.usefixtures("_quick_start")
def test_a_run_that_fails_is_counted_and_its_last_line_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs.txt"
    runs.write_text("task=nowhere norm=adanorm scale=smoke\n")
    monkeypatch.setattr(lease, "RUNS", runs)
    machine = machine_in(tmp_path)
    machine._environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    assert machine.train() == 1
    printed = capfd.readouterr()
    assert "0 ended, 1 failed, 0 cut" in printed.out
    assert "nowhere" in printed.err


def test_runs_that_do_not_fit_are_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / "runs.txt"
    runs.write_text("task=rt norm=adanorm\n")
    monkeypatch.setattr(lease, "RUNS", runs)
    machine = machine_in(tmp_path, minutes="0")
    machine.train()
    machine.pack()
    assert not (tmp_path / "work" / "runs").exists()


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the variables of a hook in another repository; return the commit there."""
    other = tmp_path / "other"
    commit = ["commit", "-q", "--allow-empty", "-m", "other"]
    author = ["-c", "user.name=x", "-c", "user.email=x@x"]
    for arguments in (["init", "-q"], [*author, *commit]):
        other.mkdir(exist_ok=True)
        subprocess.run(["git", *arguments], cwd=other, check=True)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, check=True)
    return head.stdout.decode().strip()


@pytest.mark.usefixtures("hooked")
def test_a_lease_counts_this_checkouts_files_whatever_a_hook_has_set() -> None:
    assert lease._tracked_bytes() > 1_000_000


def test_a_baseline_is_no_commit_of_the_repository_whose_hook_runs(hooked: str) -> None:
    with pytest.raises(ValueError, match="must be another checkout of this project"):
        checkout_of(hooked)
