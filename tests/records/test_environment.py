"""What a record says about the code and the machine that computed it."""

import hashlib
import re
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from adanorm.config.paths import PROJECT
from adanorm.records import environment


def described(**others: Any) -> dict[str, Any]:
    facts = {"precision": "fp32", "processes": 1, "threads": 1, **others}
    return environment.describe(device=torch.device("cpu"), **facts)


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip


def commit_of(folder: Path, *options: str) -> None:
    git(folder, "init", "-q", *options)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "code")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module, in no repository."""
    folder = tmp_path / "thesis" / "project"
    monkeypatch.setattr(environment, "PROJECT", folder)
    monkeypatch.setattr(environment, "IS_CHECKOUT", True)
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "norm.py").write_text("eps = 1e-5\n")
    (folder / "pyproject.toml").write_text("[project]\n")
    return folder


def facts() -> tuple[bool, bool | None]:
    """Whether the code here has a commit, and whether it is dirty."""
    description = described()
    return bool(description["commit"]), description["dirty"]


def test_code_that_differs_from_its_commit_is_dirty_and_a_patch_has_the_differences(
    project: Path,
) -> None:
    commit_of(project)
    module = project / "src" / "norm.py"
    (project / "notes.txt").write_text("no code")
    assert facts() == (True, False)
    module.write_text("eps = 1e-6\n")
    assert facts() == (True, True)
    edited = environment.origin(described())
    (project / "src" / "naïve new.py").write_text("new = True\n")
    patch, more = environment.changes(), environment.origin(described())
    git(project, "stash", "--include-untracked")
    assert facts() == (True, False)
    committed = environment.origin(described())
    assert committed["commit"] == edited["commit"] == environment.commit()
    digests = {edited["code"], more["code"], committed["code"]}
    assert len(digests) == 3, "told apart if resumed"
    (project / "changes.patch").write_bytes(patch)
    git(project, "apply", "changes.patch")
    assert module.read_text() == "eps = 1e-6\n"
    assert (project / "src" / "naïve new.py").read_text() == "new = True\n"
    assert b"notes" not in patch
    assert environment.origin(described()) == more


def test_a_commit_of_a_repository_with_long_names_is_clean_until_its_code_changes(
    project: Path,
) -> None:
    commit_of(project, "--object-format=sha256")
    assert facts() == (True, False)
    assert len(environment.commit() or "") == 64
    (project / "src" / "norm.py").write_text("eps = 1e-6\n")
    assert facts() == (True, True)


def test_what_replaces_a_commit_in_one_repository_does_not_count(project: Path) -> None:
    commit_of(project)
    (project / "src" / "norm.py").write_text("eps = 1e-6\n")
    git(project, "commit", "-q", "-a", "-m", "another")
    git(project, "replace", "HEAD", "HEAD~1")
    assert facts() == (True, False)


@pytest.mark.parametrize("is_ignored", [False, True])
def test_code_within_another_repository_has_no_commit_of_it(
    project: Path, is_ignored: bool
) -> None:
    assert facts() == (False, None), "no repository"
    digest = described()["code"]
    (project.parent / "thesis.tex").write_text("text")
    (project.parent / ".gitignore").write_text("project" if is_ignored else "")
    commit_of(project.parent)
    (project / "src" / "norm.py").write_text("eps = 1e-6\n")
    assert facts() == (False, None)
    assert described()["code"] != digest
    assert environment.changes() != b"" or is_ignored


COPIES = {
    "worktree": ("worktree", "add", "-q", "../copy"),
    "shallow clone": ("clone", "-q", "--depth=1", "file://{project}", "../copy"),
    "submodule": ("-c", "protocol.file.allow=always", "submodule", "add", "{project}", "copy"),
}


@pytest.mark.parametrize("kind", COPIES)
def test_copies_that_git_makes_are_clean_until_their_code_changes(
    project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (project / "src" / "shipped").mkdir()
    (project / "src" / "shipped" / "train.en.xz").write_text("data, no code")
    (project / "src" / ".editor").write_text("no code")
    commit_of(project)
    arguments = [part.format(project=project) for part in COPIES[kind]]
    is_submodule = kind == "submodule"
    if is_submodule:
        (project.parent / "thesis.tex").write_text("text")
        git(project.parent, "init", "-q")
    git(project.parent if is_submodule else project, *arguments)
    commit, digest = environment.commit(), described()["code"]
    copy = project.parent / "copy"
    monkeypatch.setattr(environment, "PROJECT", copy)
    assert facts() == (True, False)
    assert (environment.commit(), described()["code"]) == (commit, digest)
    git(copy, "update-index", "--assume-unchanged", "src/norm.py")
    (copy / "src" / "norm.py").write_text("eps = 1e-6\n")
    assert facts() == (True, True)


def test_a_commit_of_this_projects_own_files_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in environment.CODE:
        source, target = PROJECT / name, tmp_path / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    monkeypatch.setattr(environment, "IS_CHECKOUT", True)
    commit_of(tmp_path)
    assert facts() == (True, False)


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"])
def test_variables_of_a_git_hook_and_settings_that_hide_files_change_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (project.parent / "thesis.tex").write_text("text")
    commit_of(project.parent)
    commit_of(project)
    commit = environment.commit()
    paths = {"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index", "GIT_WORK_TREE": "."}
    monkeypatch.setenv(variable, str(project.parent / paths[variable]))
    assert facts() == (True, False)
    assert environment.commit() == commit
    monkeypatch.delenv(variable)
    git(project, "config", "status.showUntrackedFiles", "no")
    (project / "src" / "more.py").write_text("new = True\n")
    assert facts() == (True, True)


def test_where_git_is_missing_whether_code_has_changed_is_unknown(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_of(project)
    monkeypatch.setenv("PATH", "")
    assert facts() == (False, None)
    assert environment.code_text(described()).startswith("unknown, code ")


def test_made_files_are_no_code_and_a_wheel_has_a_digest_too(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = described()["code"]
    for name in ("src/__pycache__/norm.pyc", "src/a.egg-info/PKG-INFO", "src/.norm.swp"):
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("made")
    assert described()["code"] == digest
    monkeypatch.setattr(environment, "IS_CHECKOUT", False)
    assert described()["code"] != digest
    assert facts() == (False, None)


def test_a_record_describes_its_machine_and_given_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in environment.HOLDS:
        monkeypatch.delenv(name, raising=False)
    facts: dict[str, Any] = {"precision": "bf16", "processes": 2, "threads": 3}
    least = described(**facts)
    most = described(**facts, norm_backend="eager", numerics_version=2)
    assert most == {**least, "norm_backend": "eager", "numerics_version": 2}
    assert {key: least[key] for key in facts} == facts
    assert least["packages"]["torch"] == torch.__version__
    constraints = (PROJECT / "constraints.txt").read_bytes()
    assert least["constraints"] == hashlib.sha256(constraints).hexdigest()
    built = torch.__config__.show()
    arithmetic = least["arithmetic"]
    assert ("oneDNN" in arithmetic) == ("MKL-DNN v" in built)
    assert arithmetic["instructions"] == torch.backends.cpu.get_cpu_capability()
    assert arithmetic.get("oneDNN", "") in built
    kind, _, number = arithmetic.get("BLAS", "").partition(" ")
    assert (kind == "MKL") == ("Math Kernel Library" in built)
    assert number in built
    monkeypatch.setenv("ADANORM_ARITHMETIC", "portable")
    assert described()["arithmetic"] == {**arithmetic, "ADANORM_ARITHMETIC": "portable"}
    lines = Path("/proc/cpuinfo").read_text()
    assert f": {least['device']}\n" in lines or "model name" not in lines


@pytest.mark.parametrize(
    ("built", "named"),
    [
        (
            "Intel(R) oneAPI Math Kernel Library Version 2024.2-P BLAS_INFO=mkl, ",
            {"BLAS": "MKL 2024.2"},
        ),
        ("BLAS_INFO=open, Intel(R) MKL-DNN v3.12.0 (Git", {"BLAS": "open", "oneDNN": "3.12.0"}),
        ("GCC 13.3", {}),
    ],
)
def test_the_libraries_of_products_are_those_that_torch_says_it_was_built_with(
    monkeypatch: pytest.MonkeyPatch, built: str, named: dict[str, str]
) -> None:
    monkeypatch.setattr(torch.__config__, "show", lambda: built)
    arithmetic = described()["arithmetic"]
    assert {key: arithmetic[key] for key in ("BLAS", "oneDNN") if key in arithmetic} == named


def test_the_peak_of_memory_is_the_kernels_and_no_less_than_the_present_use() -> None:
    (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    peak = environment.peak_memory(torch.device("cpu"))
    assert peak == pytest.approx(1024 * int(kilobytes), abs=2e6)  # its counters lag by some pages
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert peak > resource.getpagesize() * pages - 2e6


def test_a_gpus_peak_of_memory_is_what_torch_allocated_there() -> None:
    device = torch.device("cuda", 0)
    assert environment.peak_memory(device) == torch.cuda.max_memory_allocated(
        device
    )  # 0 without a GPU
