"""Command lines in forked processes: modules are loaded once, and a command takes a tenth of its time."""

from __future__ import annotations

import importlib
import io
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import torch

from adanorm.cli.command import COMMANDS, dispatch
from adanorm.config.paths import PROJECT

MEMORY = 8 << 30  # bytes that a command may ask for
FORBIDDEN, CRASHED = 99, 98  # codes: it wrote into results/; the campaign's own mistake
WRITING = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.symlink"}
HEAVY = ("fairseq", "sacremoses", "sacrebleu", "conllu", "scipy.stats", "subword_nmt.apply_bpe")


class Ended(NamedTuple):
    """What a command came to; a negative code is the signal that ended it."""

    code: int
    stdout: str
    stderr: str

    @property
    def errors(self) -> list[str]:
        """The lines of stderr that are no warnings or notes."""
        lines = self.stderr.strip().splitlines()
        return [
            line for line in lines if line.startswith(("error: ", "Traceback")) or line[:1] in (" ", "\t")
        ]

    @property
    def is_one_line(self) -> bool:
        """Whether it was refused as every mistake of the user is: one line, code 2."""
        return self.code == 2 and len(self.errors) == 1 and self.errors[0].startswith("error: ")


def warm_up(place: Path, tasks: Sequence[str]) -> None:
    """Import what commands import and make a run of every task, so that forked processes need not."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    for name in HEAVY:
        importlib.import_module(name)
    for command in COMMANDS:
        importlib.import_module(f"adanorm.cli.{command.replace('-', '_')}")
    importlib.import_module("adanorm.data.translation.fairseq_library").fairseq()
    logging.disable(logging.WARNING)  # once more: fairseq's import sets logging up
    settings = ["norm=adanorm", "scale=smoke", f"runs={place / 'runs'}", f"data.cache={place / 'cache'}"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        for task in tasks:
            dispatch(["run", f"task={task}", *settings])


def run(
    arguments: Sequence[str],
    place: Path,
    *,
    limit: float = 60,
    stdin: bytes = b"",
    kill_at: int | None = None,
    kill_after: float | None = None,
    count: bool = False,
) -> Ended:
    """Return what `adanorm ARGUMENTS` comes to in a folder; it is interrupted after `limit` core-seconds.

    It is killed before its `kill_at`-th write or after `kill_after` core-seconds, if given. With
    `count` the number of its writes is in `place`/writes.
    """
    place.mkdir(parents=True, exist_ok=True)
    (place / "stdin").write_bytes(stdin)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _become(arguments, place, kill_at=kill_at, count=count)
    _wait(child, limit if kill_after is None else kill_after, kill=kill_after is not None)
    _, status = os.waitpid(child, 0)
    out, err = ((place / name).read_text(errors="replace") for name in ("stdout", "stderr"))
    return Ended(os.waitstatus_to_exitcode(status), out, err)


def _wait(child: int, limit: float, *, kill: bool) -> None:
    """Wait for a process, then stop it as Ctrl-C does, or kill it; in 20 seconds more it is killed.

    Seconds are of a core, so a busy machine changes nothing; what waits has ten times as many on the wall.
    """
    for number in [signal.SIGKILL] if kill else [signal.SIGINT, signal.SIGKILL]:
        end, latest = _spent(child) + limit, time.monotonic() + 10 * limit
        while _spent(child) < end and time.monotonic() < latest:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            time.sleep(0.005)
        os.kill(child, number)
        limit = 20


def _spent(process: int) -> float:
    """Return the processor time of a process, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # of its own code, of the system's


def _become(arguments: Sequence[str], place: Path, *, kill_at: int | None, count: bool) -> None:
    """Be the command, and never return."""
    code = CRASHED
    try:
        for number, name, flags in (
            (0, "stdin", os.O_RDONLY),
            (1, "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(place / name, flags), number)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        logging.disable(logging.WARNING)  # fairseq's import has set logging up, for all
        compose_cache: Any = importlib.import_module("adanorm.config.compose_cache")
        compose_cache.FOLDER = place / "composed"
        compose_cache._folder.cache_clear()
        writes = _watch(place, kill_at)
        os.chdir(place)
        sys.argv = ["adanorm", *arguments]
        code = _main()
        if count:
            written = writes["count"]
            os.write(os.open(place / "writes", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), str(written).encode())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _main() -> int:
    """Return the exit code of the command line in sys.argv, as a process of its own would have it."""
    from adanorm.__main__ import main

    try:
        main()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1


def _watch(place: Path, kill_at: int | None) -> dict[str, int]:
    """Count this process's writes, die before the `kill_at`-th, and before any into results/."""
    counted = {"count": 0}
    results = str(PROJECT / "results")

    def seen(event: str, values: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = values
            if not isinstance(path, str | bytes | os.PathLike) or not flags & (os.O_WRONLY | os.O_RDWR):
                return
        elif event in WRITING:
            path = values[0]
        else:
            return
        name = os.path.abspath(os.fsdecode(path)) if not isinstance(path, int) else ""
        if name.startswith(results):
            os.write(2, f"wrote {name}\n".encode())
            os._exit(FORBIDDEN)
        if name.startswith(str(place.parent)) and "/composed/" not in name:
            counted["count"] += 1
            if counted["count"] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(seen)
    return counted


Edit = Callable[[bytes], bytes]


def changes(random: Any) -> Mapping[str, Edit]:
    """Return ways to spoil a file's content."""

    def flipped(bits: int) -> Edit:
        def flip(content: bytes) -> bytes:
            found = bytearray(content)
            for _ in range(bits if found else 0):
                found[random.randrange(len(found))] ^= 1 << random.randrange(8)
            return bytes(found)

        return flip

    def zeroed(content: bytes) -> bytes:
        start = random.randrange(max(1, len(content)))
        return content[:start] + bytes(min(16, len(content) - start)) + content[start + 16 :]

    return {
        "a bit flipped": flipped(1),
        "three bits flipped": flipped(3),
        "cut at half": lambda content: content[: len(content) // 2],
        "cut by a byte": lambda content: content[:-1],
        "emptied": lambda content: b"",
        "garbage": lambda content: random.randbytes(max(1, min(len(content), 4096))),
        "zeros": zeroed,
        "longer": lambda content: content + random.randbytes(7),
        "removed": lambda content: b"",  # the caller removes the file
    }
