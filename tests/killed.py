"""`python -m tests.killed MOMENTS MOMENT TIMES run ... runs=FOLDER`: a run that is killed at a moment.

It is killed just before it does to a file in FOLDER what MOMENT says, the TIMES-th time; `never` is none.
All such moments go into the file MOMENTS, a line each.
"""

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from adanorm.__main__ import main

WRITING = os.O_WRONLY | os.O_RDWR


def moment_of(event: str, arguments: tuple[Any, ...], folder: str) -> str | None:
    """Return what an audit event of Python's is about to do to a file of a folder, None where nothing."""
    if event == "open" and isinstance(arguments[0], str) and arguments[2] & WRITING:
        what, path = "open", arguments[0]
    elif event == "os.rename":
        what, path = "rename to", str(arguments[1])
    elif event == "os.remove":
        what, path = "remove", str(arguments[0])
    else:
        return None
    return f"{what} {Path(path).name}" if path.startswith(folder) else None


def watch(log: Path, chosen: str, times: int, folder: str) -> None:
    seen: Counter[str] = Counter()
    file = log.open("a")

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if moment := moment_of(event, arguments, folder):
            seen[moment] += 1
            print(moment, file=file, flush=True)
            if moment == chosen and seen[moment] == times:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(look)


if __name__ == "__main__":
    _, log, chosen, times, *arguments = sys.argv
    (folder,) = (argument.removeprefix("runs=") for argument in arguments if argument.startswith("runs="))
    watch(Path(log), chosen, int(times), folder)
    sys.argv = ["adanorm", *arguments]
    main()
