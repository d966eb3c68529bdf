"""The process of the command line: interrupted at its very start, and where characters are lacking."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from adanorm.__main__ import print_whatever_comes

INTERRUPTED_IMPORT = """
import os, runpy, signal, sys

def interrupt(event, arguments):
    if event == "import" and arguments[0] == "adanorm.cli.command":
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # as on a terminal
sys.addaudithook(interrupt)
runpy.run_module("adanorm", run_name="__main__")
"""


def test_an_interruption_while_modules_are_loaded_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 130
    assert done.stderr == "interrupted: the next start resumes from the last checkpoint\n"


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "adanorm"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False,
        timeout=60,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_closed_output_is_no_mistake() -> None:
    done = subprocess.run(
        f"{sys.executable} -m adanorm >&-",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("ascii", "74 ± 2 ü", b"74 ? 2 ?"),
        ("latin-1", "± \u2248", b"\xb1 ?"),
        ("utf-8", "± /tmp/\udcfc", b"\xc2\xb1 /tmp/\xfc"),  # a file's name that is not UTF-8
    ],
)
def test_what_a_stream_cannot_encode_does_not_end_a_command(encoding: str, text: str, written: bytes) -> None:
    taken = io.BytesIO()
    stream = io.TextIOWrapper(taken, encoding=encoding)
    print_whatever_comes(stream)
    stream.write(text)
    stream.flush()
    assert taken.getvalue() == written
