# PYTHON_ARGCOMPLETE_OK
"""The command `adanorm`, also as `python -m adanorm`."""

from __future__ import annotations

import io
import signal
import sys
from types import FrameType
from typing import NoReturn, TextIO

INTERRUPTED = 130
LINE = "interrupted: the next start resumes from the last checkpoint"


def main() -> NoReturn:
    """Run the command line of this process; interrupted at any moment it ends with one line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background jobs ignore it
        signal.signal(signal.SIGINT, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        print_whatever_comes(stream)
    try:
        from adanorm.cli.command import main as run

        run()
    except KeyboardInterrupt:
        print(LINE, file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # what is left is Python's own end


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # once more ends the process at once, as a kill does
    raise KeyboardInterrupt


def print_whatever_comes(stream: TextIO | None) -> None:
    """Have a stream take every text: where its encoding lacks a character, `?` stands for it."""
    if isinstance(stream, io.TextIOWrapper):
        is_whole = stream.encoding.lower().replace("-", "") == "utf8"
        stream.reconfigure(errors="surrogateescape" if is_whole else "replace")


if __name__ == "__main__":
    main()
