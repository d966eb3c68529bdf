"""With this folder on PYTHONPATH, an interpreter lets a fork run the module if it is one of MODULES.

This serves the processes that a study, torchrun or a script starts; tests/commands.py makes the
forks. The interpreter stays, since its parent sees it: it forwards signals to the fork, ends the
fork when it ends, and ends as the fork does.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

MODULES = (
    "adanorm",
    "adanorm.runs.torchrun",
    "adanorm.studies.job",
    "scripts.gpu_check",
    "scripts.gpu_measure",
    "torch.distributed.run",
)
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def delegate(arguments: list[str]) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.commands import start

    process = start(
        *arguments,
        output=1,
        errors=2,
        cwd=Path.cwd(),
    )

    def forward(number: int, frame: FrameType | None) -> None:
        os.kill(process.pid, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    code = process.wait()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if "ADANORM_TESTS_PROCESSES" in os.environ and "-m" in sys.orig_argv:
    start_of_module = sys.orig_argv.index("-m") + 1
    if sys.orig_argv[start_of_module] in MODULES:
        delegate(sys.orig_argv[start_of_module:])
