"""All that a CUDA machine is needed for, in one command: `scripts/gpu-check`, minutes on one GPU.

The tests marked `cuda`, the kernels timed beside torch's LayerNorm, a smoke run of every task, a run of two
processes and one of two nodes where there are two devices; and the path to the paper's size: a corpus that is
prepared, what En-De needs, two updates of every task's whole model. Prints a verdict a line, `ok`, `FAIL` or
`skipped: why`, with its seconds, and writes all of it, with the times of the kernels and what a failed check
printed last, as JSON. The exit code is 1 if a check failed, and 2, with nothing written, where torch sees no
CUDA device.

Keys: output=FILE, checks=tests,norms,smoke,processes,nodes,size (some of them), limit=1800 (seconds that a
check may take).
"""

from __future__ import annotations

import csv
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from adanorm.cli.values import whole_number
from adanorm.config.paths import PROJECT, choices
from adanorm.files import write_whole
from scripts.command_line import ended_by_mistakes, parse_keys

KINDS = ("tests", "norms", "smoke", "processes", "nodes", "size")
DEFAULTS = {"output": "outputs/gpu-check.json", "checks": ",".join(KINDS), "limit": "1800"}
TASKS = ("mnist", "rt", "sst5", "ptb", "enwik8", "de-en", "en-vi", "en-de")  # those of the paper
KEPT_LINES = 40  # of what a failed check printed


class Check(NamedTuple):
    """A command that must end with code 0, or why it cannot be run here."""

    name: str
    command: Sequence[str] = ()
    skipped: str = ""


class Verdict(NamedTuple):
    """What became of a check; `output` is the end of what it printed if it failed."""

    name: str
    verdict: str  # ok | FAIL | skipped
    seconds: float = 0.0
    why: str = ""
    output: str = ""

    def __str__(self) -> str:
        text = f"{self.verdict}: {self.why}" if self.why else self.verdict
        return f"{self.name}: {text}" + ("" if self.verdict == "skipped" else f" ({self.seconds:.0f} s)")


def main(arguments: Sequence[str]) -> int:
    """Run the checks and return the exit code; raises ValueError for arguments that it does not take."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return 0
    keys = parse_keys(arguments, DEFAULTS)
    kinds, limit = keys["checks"].split(","), whole_number("limit", keys["limit"])
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"checks={unknown[0]}: choose from {', '.join(KINDS)}")
    import torch

    if not torch.cuda.is_available():
        print("gpu-check: torch sees no CUDA device here", file=sys.stderr)
        return 2
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        for check in checks(kinds, Path(folder), device="cuda", devices=torch.cuda.device_count()):
            verdicts.append(run_check(check, limit=limit))
            print(verdicts[-1], flush=True)
        costs = Path(folder) / "norms.csv"
        times = list(csv.DictReader(costs.read_text().splitlines())) if costs.exists() else []
    output = Path(keys["output"])
    output.parent.mkdir(parents=True, exist_ok=True)
    content = {**machine(), "checks": [verdict._asdict() for verdict in verdicts], "norms": times}
    write_whole(output, (json.dumps(content, indent=1) + "\n").encode())
    print(output)
    return int(any(verdict.verdict == "FAIL" for verdict in verdicts))


def checks(kinds: Sequence[str], folder: Path, *, device: str, devices: int) -> Iterator[Check]:
    """Yield the checks of these kinds; what they write lands in the folder."""
    python = (sys.executable, "-m")
    if "tests" in kinds:
        yield Check("tests", (*python, "pytest", "-m", "cuda", "-p", "no:cacheprovider", "tests"))
    if "norms" in kinds:
        keys = (f"devices={device}", "rounds=11", f"output={folder}")
        yield Check("norms", (*python, "scripts.benchmarks.norms", *keys))
    settings = ("norm=adanorm", "scale=smoke", f"device={device}")
    if "smoke" in kinds:
        for task in choices("task"):
            run = ("adanorm", "run", f"task={task}", *settings, f"runs={folder / 'runs'}")
            yield Check(f"smoke {task}", (*python, *run))
    if {"processes", "nodes"} & {*kinds}:
        yield from _checks_of_processes(kinds, settings, folder, devices)
    if "size" in kinds:
        bench = (*python, "scripts.benchmarks.preparation", "pairs=20000", "merges=2000", f"output={folder}")
        yield Check("size: preparation", bench)
        plan = ("adanorm", "plan", "task=en-de", "norm=adanorm", f"device={device}")
        yield Check("size: plan of en-de", (*python, *plan))
        for task in TASKS:
            dry = ("adanorm", "run", f"task={task}", "norm=adanorm", "scale=paper", "updates=2")
            places = (f"device={device}", f"runs={folder / 'size'}", f"data.cache={folder / 'cache'}")
            yield Check(f"size: dry run of {task}", (*python, *dry, *places))


def _checks_of_processes(
    kinds: Sequence[str], settings: Sequence[str], folder: Path, devices: int
) -> Iterator[Check]:
    """Yield a run of two processes, and one of two nodes that are both here."""
    torchrun = (sys.executable, "-m", "torch.distributed.run")
    run = ("-m", "adanorm", "run", "task=rt", *settings)
    if devices < 2:
        names = [kind for kind in ("processes", "nodes") if kind in kinds]
        yield from (Check(name, skipped=f"needs two CUDA devices, there is {devices}") for name in names)
        return
    if "processes" in kinds:
        alone = ("--standalone", "--nproc-per-node=2")
        yield Check("processes", (*torchrun, *alone, *run, f"runs={folder / 'processes'}"))
    if "nodes" in kinds:
        with socket.create_server(("localhost", 0)) as free:
            place = f"--rdzv-endpoint=localhost:{free.getsockname()[1]}"
        meet = ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", place, "--rdzv-id=two-nodes")
        node = shlex.join([*torchrun, *meet, *run, f"runs={folder / 'nodes'}"])
        both = f"CUDA_VISIBLE_DEVICES=0 {node} & CUDA_VISIBLE_DEVICES=1 {node} && wait $!"
        yield Check("nodes", ("bash", "-c", both))


def run_check(check: Check, *, limit: float) -> Verdict:
    """Return what becomes of a check that may take `limit` seconds."""
    if check.skipped:
        return Verdict(check.name, "skipped", why=check.skipped)
    started = time.monotonic()
    try:
        done = subprocess.run(
            check.command, timeout=limit, check=False, text=True, cwd=PROJECT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},  # so that what is printed last comes last
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        printed, why = done.stdout, f"code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        # As bytes, whatever was asked for: cpython issue 87597.
        printed, why = (error.stdout or b"").decode(errors="replace"), f"no end after {limit:.0f} s"
    seconds = round(time.monotonic() - started, 1)
    if not why:
        return Verdict(check.name, "ok", seconds)
    lines = printed.strip().splitlines()[-KEPT_LINES:]
    return Verdict(check.name, "FAIL", seconds, f"{why}: {lines[-1]}" if lines else why, "\n".join(lines))


def machine() -> dict[str, Any]:
    """Return when and on what the checks run."""
    import torch

    from adanorm.records.environment import describe

    facts = describe(device=torch.device("cuda"), precision="", processes=1, threads=torch.get_num_threads())
    versions = {"cuda": torch.version.cuda, "devices": torch.cuda.device_count(), "cores": os.cpu_count()}
    return {"date": datetime.now(UTC).isoformat(timespec="seconds"), **facts, **versions}


if __name__ == "__main__":
    with ended_by_mistakes():
        raise SystemExit(main(sys.argv[1:]))
