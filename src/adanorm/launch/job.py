"""One job of a study, started by a launcher of Hydra's: a run in a process of its own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import hydra
from filelock import FileLock, Timeout
from omegaconf import DictConfig

from adanorm.config.overrides import parsed
from adanorm.config.paths import CONF
from adanorm.files import write_whole
from adanorm.launch import lifeline
from adanorm.records.folder import OF_A_STUDY

STOPPED = (-signal.SIGTERM, -signal.SIGUSR2)  # by SLURM, which also warns with the second
LONGEST_STOP = 600  # seconds


@hydra.main(config_path=str(CONF), config_name="job", version_base="1.3")
def job(config: DictConfig) -> int:
    """Make the plan's run of this index and return its exit code, written beside its log as well.

    A run that fails is no error of the job: the launcher then goes on with the others.
    """
    folder = Path(config.plan)
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    if plan["local"] and lifeline.is_over(folder):
        return 1
    with reserved_devices(plan["devices"], config.gpus, plan["runs_a_device"]) as devices:
        places = {"CUDA_VISIBLE_DEVICES": ",".join(devices)} if devices else {}
        code = _run(plan, config.index, config.gpus, folder, {**os.environ, **places, OF_A_STUDY: "1"})
    write_whole(folder / f"{config.index}.ended", str(code).encode())
    return code


def _run(plan: dict[str, object], index: int, gpus: int, folder: Path, environment: dict[str, str]) -> int:
    torchrun = ["torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", "-m"] if gpus > 1 else []
    runs = plan["runs"]
    assert isinstance(runs, list)
    command = [sys.executable, "-m", *torchrun, "adanorm", "run", *runs[index]]
    with (folder / f"{index}.log").open("a", encoding="utf-8") as log:
        # Several bars at once would be unreadable: a run alone speaks for itself.
        output = None if plan["aloud"] else log
        cwd = str(plan["cwd"])
        with subprocess.Popen(command, cwd=cwd, env=environment, stdout=output, stderr=output) as process:
            # On a cluster's machine nothing is seen of the study's.
            code = lifeline.wait_until_over(process, folder) if plan["local"] else process.wait()
    if code in STOPPED and "SLURM_JOB_ID" in os.environ:
        time.sleep(LONGEST_STOP)  # to be put back into the queue: a job that has ended is not
    return code


@contextmanager
def reserved_devices(devices: Sequence[str], count: int, runs_a_device: int = 1) -> Iterator[list[str]]:
    """Yield `count` of the devices, each shared with fewer than `runs_a_device` other jobs of this machine.

    Those with fewer jobs come first; waits for them. Without devices there are none to wait for.
    """
    taken: list[str] = []
    while devices:
        with ExitStack() as locks:
            for place, device in itertools.product(range(runs_a_device), devices):
                name = f"adanorm-{os.getuid()}-device-{device}-{place}.lock"
                if device in taken:
                    continue
                try:
                    locks.enter_context(FileLock(Path(tempfile.gettempdir()) / name, timeout=0))
                except Timeout:
                    continue
                taken.append(device)
                if len(taken) == count:
                    yield taken
                    return
        taken.clear()
        time.sleep(1)
    yield taken


def main() -> None:
    """Hand the jobs of the command line to their launcher, for as long as their study lives."""
    plan = next(parsed(argument).value() for argument in sys.argv if argument.startswith("plan="))
    lifeline.end_group_with(Path(plan))
    job()


if __name__ == "__main__":
    main()
