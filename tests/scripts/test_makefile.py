"""The Makefile: cleaning a copy of the repository, and the commands that targets would run."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT

LEFTOVERS = (
    ".venv/bin/python",
    ".mypy_cache/a.json",
    "data/rt/train.txt",
    "outputs/studies/log.txt",
    "results/runs/rt/adanorm/weights.safetensors",
    "results/runs/rt/adanorm/run.lock",
    "results/runs/rt/adanorm/result.json.7.tmp",
    "src/adanorm/__pycache__/cli.pyc",
    "tests/__pycache__/conftest.pyc",
)
ODD = 'my runs, it\'s "ü"; x'
KEPT = ("results/runs/rt/adanorm/result.json", "runs/rt/adanorm/weights.safetensors")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the tracked files but for the records of runs."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git repository here, so nobody knows which files belong to it")
    for name in filter(None, listed.stdout.decode().split("\0")):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not name.startswith("results/runs/") and (PROJECT / name).exists():
            shutil.copy(PROJECT / name, target)
    return tmp_path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_clean_keeps_the_clone_records_and_runs_elsewhere_and_removes_the_rest(clone: Path) -> None:
    before = files(clone)
    for name in (*LEFTOVERS, *KEPT):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("")
    subprocess.run(
        ["make", "clean"],
        cwd=clone,
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert files(clone) == before | {*KEPT}
    for name in ("results", "scripts", "tests"):
        shutil.rmtree(clone / name)
    subprocess.run(
        ["make", "clean"],
        cwd=clone,
        check=True,
        capture_output=True,
        timeout=60,
    )


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", "-n", *arguments],
        cwd=PROJECT, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce", "SEED=2"), "SEED: no such variable; choose from"),
        (("reproduce", "GPUS=0"), "GPUS=0: must be a whole number of at least 1"),
        (("test", "WORKERS=2;touch X"), "WORKERS=2;touch X: must be a whole number of at least 1"),
        (("clean", "VENV=a;touch X"), "VENV=a;touch X: write a path"),
        (("list", "PYTHON=$$(touch X)"), "write a path"),
        (("study", "PLACEMENT=final"), "PLACEMENT=final: is of one run"),
    ],
)
def test_a_variable_that_a_target_would_drop_is_refused(
    arguments: tuple[str, ...], message: str
) -> None:
    done = make(*arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(
            ((target, f"RUNS={ODD}"), {f"runs={ODD}"})
            for target in ("reproduce", "study", "report")
        ),
        (("study", f"STUDY={ODD}"), {ODD}),
        (
            ("trial", "NORM=rmsnorm", "BUDGET=1h", "OPTIMIZER=muon"),
            {"norm=rmsnorm", "budget=1h", "optimizer=muon"},
        ),
        (("check-norm", "NORM=a:B"), {"norm=a:B"}),
        (
            ("verify", "TASK=rt", "RUNS=a b", "PLACEMENT=final"),
            {"runs=a b", "norm.placement=final"},
        ),
        (("reproduce", "TASK=rt", "SEEDS=1, 2"), {"-m", "seed=1, 2"}),
        (("predict", "TASK=enwik8", "MODEL=gru"), {"task=enwik8-gru"}),
        (("reproduce", "TASK=rt", "CUDA_VISIBLE_DEVICES=1", "GPUS=2"), {"gpus=2", "task=rt"}),
    ],
)
def test_a_target_passes_its_variables_on(arguments: tuple[str, ...], words: set[str]) -> None:
    assert words <= {*shlex.split(make(*arguments).stdout.splitlines()[-1])}


@pytest.mark.parametrize("target", ["trial", "check-norm"])
def test_a_norm_that_is_judged_is_never_the_default(target: str) -> None:
    assert "norm=" not in make(target).stdout


TARGETS = (
    "reproduce", "data", "plan", "compare", "predict", "verify", "analyse", "study", "status",
    "trial", "arena", "check-norm", "report", "gpu-check",
)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_a_variable_of_make_is_never_a_command_of_the_shell(target: str) -> None:
    names = "NORM NORMS SCALE WHAT SEEDS RUNS INPUT OUTPUT STUDY LAUNCHER BUDGET MODEL SET"
    names += " OPTIMIZER"
    names += " PLACEMENT" if target not in ("compare", "study", "status", "report") else ""
    variables = [f"{name}=b;touch X" for name in names.split()]
    output = make(
        "-s",
        target,
        "PYTHON=python3",
        "TASK=a;touch X",
        *variables,
    ).stdout
    (line,) = (
        line for line in output.splitlines() if re.search(r" -m (adanorm|scripts.gpu_check) ", line)
    )
    words = shlex.shlex(
        line, posix=True, punctuation_chars=True
    )  # a `;` outside of quotes is a word
    words.whitespace_split = True
    assert "touch" not in [*words]
