"""Check in one command all that a GPU machine must show before hours are spent on it: `make gpu-check`.

The checks: the machine itself; losses beside the CPU's; a resumed run; speed, waits and memory of
each task's update at the paper's size in every precision; 1, 2, ... and all GPUs; how a run ends
that loses a process; the norms' kernels. Prints one line per check and a verdict in words; after
every check it writes all results as JSON. The exit code is 1 if a check failed, and 2, with the
reason, without a CUDA device.

Keys: output=FILE, minutes=30 (checks not begun by then are skipped), checks=speed (whose names
begin so).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import torch

from adanorm.config.errors import whole_number
from adanorm.config.paths import PROJECT
from adanorm.files import writing_to
from adanorm.process import torchrun
from adanorm.records.environment import describe, driver_version, no_cuda, usable_devices
from scripts.command_line import ended_by_mistakes, parse_keys
from scripts.processes import CASES

DEFAULTS = {"output": "outputs/gpu-check.json", "minutes": "30", "checks": ""}
TASKS = ("en-de", "enwik8", "de-en", "en-vi", "ptb", "mnist", "rt")  # SST5 is RT with other data
KEPT_LINES = 40  # the last lines that a failed check printed
Facts = dict[str, Any]


def measurement(*arguments: str, processes: int = 1) -> list[str]:
    """Return the command of a measurement of scripts.gpu_measure."""
    start = [sys.executable] if processes == 1 else torchrun(processes)
    return [*start, "-m", "scripts.gpu_measure", *arguments]


def checks(devices: int) -> dict[str, list[str]]:
    """Return each check's command by name, cheap and telling ones first; those without a device if none."""
    if not devices:
        return {"resume": measurement("resume", "rt", "scale=smoke", "model.dropout=0.3")}
    several = [count for count in (2, 4, 8, 16) if count < devices] + [devices] * (devices > 1)
    commands = {f"equality: {case}": measurement("equality", case) for case in CASES}
    commands |= {
        f"graphs: {task}": measurement("graphs", task, "device=cuda") for task in ("rt", "de-en")
    }
    commands["resume"] = measurement("resume", "de-en", "scale=paper", "updates=2")
    commands |= {f"speed: {task} fp32": measurement("speed", task) for task in TASKS}
    if several:
        commands["ranks"] = measurement("ranks", "cuda", str(devices))
        commands["lost process"] = measurement("lost", "cuda")
        commands["all-reduce"] = measurement("allreduce", processes=devices)
    for task, precision in product(TASKS, ("bf16", "tf32")):
        commands[f"speed: {task} {precision}"] = measurement(
            "speed", task, f"precision={precision}"
        )
    for count in several:
        commands[f"speed: en-de bf16 on {count}"] = measurement(
            "speed", "en-de", "precision=bf16", processes=count
        )
    norms = [sys.executable, "-m", "scripts.benchmarks.norms", "devices=cuda", "rounds=11"]
    return commands | {"norms": [*norms, f"output={PROJECT / 'outputs' / 'gpu-check-norms'}"]}


def run_check(name: str, command: Sequence[str], *, seconds: float) -> Facts:
    """Return a check's verdict (`ok`, `FAIL` or `skipped`), its seconds and what it measured or printed."""
    facts: Facts = {"name": name}
    if seconds <= 0:
        return {**facts, "verdict": "skipped", "why": "no time is left: minutes=60 gives more"}
    started = time.monotonic()
    process = subprocess.Popen(
        command, cwd=PROJECT, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"OMP_NUM_THREADS": "1", **os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        printed, why = process.communicate(timeout=seconds)[0], ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # torchrun passes it on to processes in other groups
        printed, why = process.communicate()[0], f"no end after {seconds:.0f} s"
    facts["seconds"] = round(time.monotonic() - started, 1)
    lines = printed.strip().splitlines() or [""]
    if why := why or (f"code {process.returncode}: {lines[-1]}" if process.returncode else ""):
        return {**facts, "verdict": "FAIL", "why": why, "output": "\n".join(lines[-KEPT_LINES:])}
    measured: Facts = next(
        (json.loads(line) for line in reversed(lines) if line.startswith("{")), {}
    )
    return {**facts, "verdict": "ok" if measured.get("ok", True) else "FAIL", **measured}


def machine() -> Facts:
    """Return what the machine is, as far as it shows without using a GPU, and why torch sees none."""
    has_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if has_cuda else "cpu")
    shared, header = (
        shutil.disk_usage("/dev/shm"),
        Path(sysconfig.get_paths()["include"]) / "Python.h",
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **describe(device=device, precision="", processes=1, threads=1),
        "cuda": torch.version.cuda,
        "driver": driver_version(),
        "devices": torch.cuda.device_count(),
        "device_files": sorted(path.name for path in Path("/dev").glob("nvidia*")),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": _printed("nvidia-smi", "-L"),  # also names the parts of a GPU under MIG
        "topology": _printed("nvidia-smi", "topo", "-m"),
        "compiler": next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None),
        "python_header": header.exists(),  # Triton compiles a launcher with it and the compiler
        "triton": find_spec("triton") is not None,
        "apex": find_spec("apex") is not None,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "shared_memory_gb": round(shared.total / 1e9, 1),
        "reason": None if has_cuda else no_cuda(),
    }


def _printed(*command: str) -> list[str]:
    if shutil.which(command[0]) is None:
        return []
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def in_words(checked: Sequence[Facts]) -> list[str]:
    """Return the verdict: hours of a run at the paper's size, what limits them, and what failed."""
    lines = [f"AdaNorm: {facts['norms']}" for facts in checked if "norms" in facts][:1]
    lines += [_speed(facts) for facts in checked if "hours" in facts]
    for verdict in ("FAIL", "skipped"):
        names = [facts["name"] for facts in checked if facts["verdict"] == verdict]
        lines += [f"{verdict}: {', '.join(names)}"] if names else []
    has_failed = any(facts["verdict"] == "FAIL" for facts in checked)
    bad, good = "Do not start long runs before this is understood.", "All that was run is well."
    return [*lines, bad if has_failed else good]


def _speed(facts: Facts) -> str:
    name = facts["name"].removeprefix("speed: ")
    text = f"{name}: {facts['hours']:.2g} hours, {facts['peak_gb']:.1f} GB"
    if "device_milliseconds" not in facts:
        return text
    share = min(1, facts["device_milliseconds"] / facts["milliseconds"])
    limit, waits = "GPU" if share > 0.8 else "host", facts["waits"]
    return f"{text}; the {limit} limits it (kernels {share:.0%}, {waits} waits)"


def main(arguments: Sequence[str]) -> int:
    """Run the checks and return the exit code; raises ValueError for unknown arguments."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return 0
    keys = parse_keys(arguments, DEFAULTS)
    end = time.monotonic() + 60 * whole_number("minutes", keys["minutes"])
    devices = usable_devices()
    commands = checks(devices)
    chosen = [name for name in commands if name.startswith(keys["checks"])]
    if not chosen:
        raise ValueError(
            f"checks={keys['checks']}: no check begins so; choose from {', '.join(commands)}"
        )
    output, content = (
        Path(keys["output"]),
        {**machine(), "checks": list[Facts](), "verdict": list[str]()},
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        facts = run_check(name, commands[name], seconds=end - time.monotonic())
        content["checks"].append(facts)
        content["verdict"] = in_words(content["checks"])
        with writing_to(output) as file:
            file.write((json.dumps(content, indent=1) + "\n").encode())
        print(f"{name}: {facts['verdict']} {facts.get('why', '')}".rstrip(), flush=True)
    if not devices:  # what ran on the CPU says nothing of a GPU
        print(output)
        print(f"gpu-check: {content['reason']}", file=sys.stderr)
        return 2
    print("\n".join([*content["verdict"], str(output)]))
    return int(any(facts["verdict"] == "FAIL" for facts in content["checks"]))


if __name__ == "__main__":
    with ended_by_mistakes():
        raise SystemExit(main(sys.argv[1:]))
