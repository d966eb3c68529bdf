"""Write the hashed locks, or check them against pyproject.toml: `python -m scripts.locks [check]`.

`locks/cuda.txt` has PyTorch as PyPI has it: with CUDA on Linux, without on macOS. `locks/cpu.txt`
has PyTorch's build for the CPU on x86_64 Linux. `pip install --require-hashes -r` and `uv pip sync`
read both. Writing needs uv and the network; the variable TORCH_CPU names a page or folder that has
PyTorch's wheels for the CPU, such as the one that pytorch.org names.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.command_line import ended_by_mistakes

PROJECT = Path(__file__).parents[1]
PYTHON = "3.11.0"  # the oldest that all pins support
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;]+)", re.MULTILINE)


def uv_options(kind: str) -> list[str]:
    """Return uv's options for a kind of lock, cpu or cuda.

    Raises ValueError if cpu lacks TORCH_CPU.
    """
    if kind == "cuda":
        return ["--universal"]
    wheels = os.environ.get("TORCH_CPU")
    if not wheels:
        raise ValueError("TORCH_CPU: must name a page or folder with PyTorch's wheels for the CPU")
    return [
        "--python-platform",
        "x86_64-manylinux_2_28",
        "--find-links",
        wheels,
    ]


def digest_of(project: Path) -> str:
    """Return the digest of what locks are made from: dependencies and the versions that bound them."""
    declared = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    chosen = [
        declared["requires-python"],
        declared["dependencies"],
        declared["optional-dependencies"],
    ]
    pins = (project / "constraints.txt").read_text("utf-8")
    return hashlib.sha256(json.dumps([chosen, pins]).encode()).hexdigest()[:16]


def write(project: Path) -> None:
    """Write both locks; raises ValueError where uv is not installed."""
    uv = shutil.which("uv")
    if uv is None:
        raise ValueError("uv is not installed (pip install uv)")
    (project / "locks").mkdir(exist_ok=True)
    for kind in ("cpu", "cuda"):
        arguments = [
            "pip",
            "compile",
            "-q",
            "pyproject.toml",
            "--all-extras",
            "-c",
            "constraints.txt",
        ]
        form = [
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
            "--python-version",
            PYTHON,
        ]
        command = [uv, *arguments, *form, *uv_options(kind)]
        environment = os.environ | {"UV_NO_CONFIG": "1"}
        compiled = subprocess.check_output(command, cwd=project, env=environment, text=True)
        source = f"pyproject.toml and constraints.txt {digest_of(project)}"
        head = f"# By `python -m scripts.locks`, of {source}\n"
        (project / "locks" / f"{kind}.txt").write_text(head + compiled, "utf-8")


def problems(project: Path) -> list[str]:
    """Return the faults of a project's locks, one line each."""
    declared = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [
        *declared["dependencies"],
        *chain(*declared["optional-dependencies"].values()),
    ]
    direct = {canonicalize_name(Requirement(text).name) for text in texts} - {declared["name"]}
    pinned = dict(_pins((project / "constraints.txt").read_text("utf-8")))
    lines = []
    for kind in ("cpu", "cuda"):
        text = (project / "locks" / f"{kind}.txt").read_text("utf-8")
        head, _, body = text.partition("\n")
        faults = []
        if digest_of(project) not in head:
            faults.append("of other requirements than pyproject.toml and constraints.txt name")
        pins = [(name, version.partition("+")[0]) for name, version in _pins(text)]
        missing = direct - {name for name, _ in pins}
        faults += [f"{name} is not pinned" for name in sorted(missing)]
        for name, version in pins:  # a name may have several versions, each for some platforms
            expected = pinned.get(name, version)
            if version != expected:
                faults.append(f"{name}=={version}, not {expected} as in constraints.txt")
        entries = re.split(r"\n(?=\S)", body.strip())
        faults += [f"{entry} has no hash" for entry in entries if "--hash=sha256:" not in entry]
        if "://" in text or "--find-links" in text or "--index" in text:
            faults.append("names an address")
        lines += [f"locks/{kind}.txt: {problem}" for problem in faults]
    return lines


def _pins(text: str) -> list[tuple[str, str]]:
    return [(canonicalize_name(name), version) for name, version in PIN.findall(text.lower())]


if __name__ == "__main__":
    with ended_by_mistakes():
        if sys.argv[1:] not in ([], ["check"]):
            raise ValueError(f"takes check or nothing, not {' '.join(sys.argv[1:])!r}")
        if not sys.argv[1:]:
            write(PROJECT)
    lines = problems(PROJECT)
    print("\n".join(lines) or "locks belong to pyproject.toml and constraints.txt")
    sys.exit(bool(lines))
