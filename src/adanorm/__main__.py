"""The process of the command `adanorm`: its signals, streams and exit codes."""

import fcntl
import io
import os
import signal
import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

from adanorm.process import end_with_parent, is_first_process, set_up_libraries


def main() -> NoReturn:
    """Run this process's command line.

    If interrupted at any moment, end with one line and code 130.
    """
    # A shell's background jobs ignore it.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        print_whatever_comes(stream)
    try:
        _run()
    except KeyboardInterrupt:
        print("interrupted: the next start continues from what has been saved", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # only Python's own shutdown is left


def _open_streams() -> None:
    """Open on the null device each standard stream that was closed when this process started.

    Otherwise the next file to be opened would get the stream's number and receive what libraries
    print.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        os.set_inheritable(number, True)
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(  # noqa: SIM115
            1,
            "w",
            closefd=False,
            encoding="utf-8",
        )
    if sys.stderr is None:
        sys.stderr = open(  # noqa: SIM115
            2,
            "w",
            closefd=False,
            encoding="utf-8",
        )


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second SIGINT ends the process at once
    raise KeyboardInterrupt


def print_whatever_comes(stream: TextIO) -> None:
    """Let a stream take every text; `?` replaces a character that its encoding lacks."""
    if isinstance(stream, io.TextIOWrapper):
        is_whole = stream.encoding.lower().replace("-", "") == "utf8"
        stream.reconfigure(errors="surrogateescape" if is_whole else "replace")


def _run() -> NoReturn:
    """Run the command line; a user's mistake ends it with one line and code 2."""
    is_of_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    if is_of_torchrun and sys.platform == "linux":
        end_with_parent(signal.SIGKILL)()  # if torchrun, which started this process, is killed
    # No import finds a file of the current folder by its name, in this process and those that it
    # starts. A norm that the user names is looked for there all the same (config/outside_norms.py).
    try:
        sys.path[:] = [path for path in sys.path if path not in ("", os.getcwd())]
    except FileNotFoundError:
        _leave("the current folder has been removed: change to another")
    os.environ["PYTHONSAFEPATH"] = "1"
    from adanorm.cli.command import dispatch, mistake_line

    # One line without the position in the code, which does not help the user.
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving with 1
    try:
        set_up_libraries()
        code = dispatch(sys.argv[1:])
        sys.stdout.flush()
        if is_of_torchrun:
            # The interpreter's end would destroy the group's threads, which may abort the process.
            sys.stderr.flush()
            os._exit(code)
        raise SystemExit(code)
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except Exception as error:
        line = mistake_line(error)
        if line is None:
            raise
        _leave(line)


def _leave(line: str) -> NoReturn:
    """End the process with code 2 and the line of a mistake.

    Of torchrun's processes only one prints it.

    That is the first to fail: torchrun then ends the others, which may not have reached the
    mistake.
    """
    shared = os.environ.get("TORCHELASTIC_ERROR_FILE")  # .../START/RANK/error.json
    if shared:
        with (Path(shared).parents[1] / "mistake").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # no other process ends before the line is printed
            if file.seek(0, os.SEEK_END) == 0:
                print(f"error: {line}", file=sys.stderr, flush=True)
                file.write(line)
    elif is_first_process():
        print(f"error: {line}", file=sys.stderr)
    raise SystemExit(2) from None


if __name__ == "__main__":
    main()
