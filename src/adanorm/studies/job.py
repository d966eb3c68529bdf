"""One job of a study: a run in its own process. One of Hydra's launchers starts it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import product
from pathlib import Path
from types import FrameType

import hydra
from filelock import FileLock, Timeout
from omegaconf import DictConfig

from adanorm.config.paths import CONF
from adanorm.files import write_whole
from adanorm.records.folder import OF_A_STUDY

# SLURM has ended the run, or has warned it with the second.
STOPPED = (-signal.SIGTERM, -signal.SIGUSR2)
LONGEST_STOP = 600  # seconds


@hydra.main(
    config_path=str(CONF),
    config_name="job",
    version_base="1.3",
)
def job(config: DictConfig) -> int:
    """Make the plan's run of this index.

    Return its exit code, which is also written beside its log.

    A run that fails is no error of the job, so that the launcher goes on with the other runs.
    """
    folder = Path(config.plan)
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    command = [sys.executable, "-m", "adanorm", "run", f"gpus={config.gpus}"]
    command += plan["runs"][config.index]
    environment = {**os.environ, OF_A_STUDY: "1"}
    with reserved_devices(
        plan["devices"],
        config.gpus,
        plan["runs_a_device"],
    ) as devices:
        if devices:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        with (folder / f"{config.index}.log").open("a", encoding="utf-8") as log:
            # Several progress bars at once are unreadable: a run prints only if it is alone.
            output = None if plan["aloud"] else log
            code = subprocess.call(
                command, cwd=plan["cwd"], env=environment, stdout=output, stderr=output
            )
    if code in STOPPED and "SLURM_JOB_ID" in os.environ:
        time.sleep(LONGEST_STOP)  # SLURM requeues this job only if it has not ended
    write_whole(folder / f"{config.index}.ended", str(code).encode())
    return code


@contextmanager
def reserved_devices(
    devices: Sequence[str], count: int, runs_per_device: int = 1
) -> Iterator[list[str]]:
    """Wait for `count` devices and yield them, the least shared first.

    Each device takes `runs_per_device` jobs: a job holds the lock of one of the device's turns.
    """
    reserved = []
    while devices:
        with ExitStack() as locks:
            for turn, device in product(range(runs_per_device), devices):
                name = f"adanorm-{os.getuid()}-device-{device}-{turn}.lock"
                if device not in reserved:
                    with suppress(Timeout):
                        locks.enter_context(FileLock(Path(tempfile.gettempdir()) / name, timeout=0))
                        reserved.append(device)
                if len(reserved) == count:
                    yield reserved
                    return
        reserved.clear()
        time.sleep(1)
    yield reserved


def _end_group(number: int, frame: FrameType | None) -> None:
    """End the group of this process: the jobs of a study that has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.killpg(0, signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end_group)
    job()
