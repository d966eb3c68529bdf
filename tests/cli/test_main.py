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


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-c", INTERRUPTED_IMPORT], 130, "interrupted: the next start resumes from the last checkpoint\n"),
        (["-m", "adanorm"], 141, ""),
        (["-c", "import os, runpy; os.close(1); runpy.run_module('adanorm', run_name='__main__')"], 0, ""),
    ],
    ids=["interrupted while modules are loaded", "the reader has gone", "the output is closed"],
)
def test_what_ends_a_command_early_is_no_traceback(arguments: list[str], code: int, said: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, said)


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
