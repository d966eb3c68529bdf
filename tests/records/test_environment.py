"""What a record says about the code and the machine that computed it."""

import hashlib
import re
import resource
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


def test_code_that_differs_from_its_commit_is_dirty_and_a_patch_has_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PROJECT", tmp_path)
    monkeypatch.setattr(environment, "IS_CHECKOUT", True)

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments],
            cwd=tmp_path, check=True, capture_output=True,
        )  # fmt: skip

    def dirty() -> bool:
        description = described()
        assert len(description["commit"]) == 40
        return bool(description["dirty"])

    assert (environment.commit(), environment.is_dirty()) == (None, False), "no repository"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "norm.py").write_text("eps = 1e-5\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "code")
    (tmp_path / "notes.txt").write_text("no code")
    assert not dirty()
    (tmp_path / "src" / "norm.py").write_text("eps = 1e-6\n")
    assert dirty()
    edited = environment.origin(described())
    (tmp_path / "src" / "naïve new.py").write_text("new = True\n")
    patch, more = environment.changes(), environment.origin(described())
    git("stash", "--include-untracked")
    assert not dirty()
    committed = environment.origin(described())
    assert committed["commit"] == edited["commit"] == environment.commit()
    assert len({edited["changes"], more["changes"], committed.get("changes")}) == 3, (
        "told apart if resumed"
    )
    (tmp_path / "changes.patch").write_bytes(patch)
    git("apply", "changes.patch")
    assert (tmp_path / "src" / "norm.py").read_text() == "eps = 1e-6\n"
    assert (tmp_path / "src" / "naïve new.py").read_text() == "new = True\n"
    assert b"notes" not in patch
    monkeypatch.setattr(environment, "IS_CHECKOUT", False)
    assert (environment.commit(), environment.is_dirty()) == (None, False)


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
