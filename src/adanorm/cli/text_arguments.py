"""Input and output of commands that read text, as streams: a text may be of any length."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from tqdm import tqdm

from adanorm.cli.command import Arguments, Key
from adanorm.files import writing

TEXT_KEYS = {"input": Key("a file; default: the standard input"),
             "output": Key("a file; default: the standard output")}  # fmt: skip
MARK = "\ufeff"  # the byte order mark
TOGETHER = 1024  # lines or sentences that are answered together; on a terminal, one

Entry = TypeVar("Entry")


class TextStreams(NamedTuple):
    """The lines of the input, the function that writes output, and how many entries are answered together."""

    lines: Iterator[str]
    write: Callable[[str], object]
    name: str  # the input's name, for messages
    together: int

    def parts(self, entries: Iterable[Entry]) -> Iterator[list[Entry]]:
        """Return the entries in lists of `together`; the first list is read now, before any work."""
        rest = iter(entries)
        parts = iter(lambda: list(islice(rest, self.together)), [])
        return chain(list(islice(parts, 1)), parts)


def check_output(output: str) -> None:
    """Raise ValueError if no file can be written at `output`; an empty `output` names no file."""
    if output and (Path(output).is_dir() or not Path(output).absolute().parent.is_dir()):
        raise ValueError(f"output={output}: no file can be written there")


@contextmanager
def text_streams(arguments: Arguments, *, keeps_mark: bool = False) -> Iterator[TextStreams]:
    """Open the input and the output that a command line names; an output file is written whole or not.

    The lines come without the input's byte order mark; with `keeps_mark` the output begins with it.
    What is printed meanwhile goes to stderr; a bar shows the progress, if a person can see it.
    Raises ValueError if there is no input or no folder for the output; reading raises ValueError at
    a line that is not UTF-8.
    """
    source, output = arguments.keys["input"], arguments.keys["output"]
    if source and (not Path(source).exists() or Path(source).is_dir()):  # a pipe is an input too
        raise ValueError(f"input={source}: no such file")
    check_output(output)
    if not source and sys.stdin is None:
        raise ValueError("the standard input is closed: name a file with input=FILE")
    path = Path(output).resolve()  # a link stays a link; a device or a pipe is written to
    with ExitStack() as stack:
        file = stack.enter_context(open(source, "rb")) if source else sys.stdin.buffer
        target: BinaryIO = sys.stdout.buffer
        if output:
            is_special = path.exists() and not path.is_file()
            target = stack.enter_context(path.open("wb") if is_special else writing(path))

        def write(text: str) -> None:
            target.write(text.encode())
            target.flush()

        is_terminal = file.isatty()
        hidden = is_terminal or not sys.stderr.isatty() or (not output and sys.stdout.isatty())
        lines = _decoded(file, source or "input", write if keeps_mark else lambda mark: None)
        progress = tqdm(lines, unit=" lines", disable=hidden)
        stack.enter_context(redirect_stdout(sys.stderr))
        yield TextStreams(iter(progress), write, source or "input", 1 if is_terminal else TOGETHER)


def _decoded(file: Iterable[bytes], name: str, write: Callable[[str], object]) -> Iterator[str]:
    """Yield lines with their line feeds, the only line ends. A byte order mark is written, not yielded."""
    for number, line in enumerate(file, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
        if number == 1 and text.startswith(MARK):
            write(MARK)
            text = text.removeprefix(MARK)
        yield text
