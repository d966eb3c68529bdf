"""`python -m tests.faults.command LIMITS COMMAND ...`: a command that is killed or interrupted on the way.

LIMITS is JSON: `interrupt_after` and `kill_after` are seconds of a core, `kill_at` is the number of
a write in the working folder, and `kill_before` is the name of a write and its count.
`largest_file` is in bytes: a file that may not grow stands in for a full disk. A write into
results/ ends the process at once.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests import commands

MEMORY = 8 << 30  # bytes that a command may ask for
WRITES = (
    "writes"  # the file with the names of the writes, such as `open metrics.jsonl`, one per line
)
WRITING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink"}


class Ended(NamedTuple):
    """The exit code of a command (a negative one is the signal that ended it) and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def is_refusal(self) -> bool:
        """Whether it ended as every mistake of the user must: code 2 and one line, warnings aside."""
        lines = self.stderr.strip().splitlines()
        errors = [line for line in lines if line.startswith(("error: ", "Traceback", " ", "\t"))]
        return self.code == 2 and len(errors) == 1 and errors[0].startswith("error: ")

    @property
    def summary(self) -> str:
        return f"code {self.code}: {' / '.join(self.stderr.strip().splitlines()[-3:])}"


def run(
    arguments: Sequence[str], folder: Path, *, interrupt_after: float = 60, **limits: Any
) -> Ended:
    """Run `adanorm ARGUMENTS` in a folder under the limits, and return how it ended."""
    folder.mkdir(parents=True, exist_ok=True)
    limits_json = json.dumps({"interrupt_after": interrupt_after, **limits})
    environment = {**os.environ, "PYTHONPATH": str(commands.PROJECT)}
    ended = commands.run(
        "tests.faults.command", limits_json, *arguments, cwd=folder, environment=environment
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def watch_writes(folder: str, kill_at: int | None, kill_before: list[Any] | None) -> list[str]:
    """Return a growing list of this process's writes in a folder; kill the process before the chosen one."""
    names, results = list[str](), str(commands.PROJECT / "results")

    def look(event: str, values: tuple[Any, ...]) -> None:
        is_write = event in WRITING or (event == "open" and values[2] & (os.O_WRONLY | os.O_RDWR))
        target = values[1] if event == "os.rename" else values[0] if is_write else None
        if not is_write or not isinstance(target, str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(target))
        if path.startswith(results):
            os.write(2, f"Traceback: wrote {path}\n".encode())
            os._exit(99)
        if path.startswith(folder):
            names.append(f"{event.removeprefix('os.')} {os.path.basename(path)}")
            if len(names) == kill_at or [names[-1], names.count(names[-1])] == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)
    return names


def main(
    interrupt_after: float,
    kill_after: float | None = None,
    kill_at: int | None = None,
    kill_before: list[Any] | None = None,
    largest_file: int = resource.RLIM_INFINITY,
) -> None:
    """Run the command in sys.argv in this process, under the limits."""
    from adanorm.__main__ import main as command

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (largest_file, largest_file)
    )  # Python ignores its signal
    if kill_after is not None:
        signal.setitimer(signal.ITIMER_PROF, kill_after)  # its signal ends a process without a word
    else:
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        signal.setitimer(signal.ITIMER_PROF, interrupt_after)
        signal.setitimer(signal.ITIMER_REAL, 4 * interrupt_after)  # for a process that waits
    names = watch_writes(f"{os.getcwd()}/", kill_at, kill_before)
    try:
        command()
    finally:
        Path(WRITES).write_text("\n".join(names))


if __name__ == "__main__":
    limits = json.loads(sys.argv[1])
    sys.argv = ["adanorm", *sys.argv[2:]]
    main(**limits)
