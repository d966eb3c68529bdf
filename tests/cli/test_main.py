"""The process of the command line: interrupted at its very start, and where characters are lacking."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys

import pytest

from adanorm.__main__ import print_whatever_comes
from adanorm.config.paths import PROJECT

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


def test_every_text_file_is_opened_with_its_encoding_whatever_the_locale() -> None:
    """Ruff's PLW1514 sees this only where it can tell a type."""
    found = []
    for path in sorted((PROJECT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and _lacks_encoding(node):
                found.append(f"{path.relative_to(PROJECT)}:{node.lineno}: {ast.unparse(node)[:60]}")
    assert found == []


def _lacks_encoding(call: ast.Call) -> bool:
    """Whether a call opens a text file by the locale's encoding, as far as its words tell."""
    words = ast.unparse(call)
    match ast.unparse(call.func).rpartition("."):
        case _, _, "read_text":
            return not call.args
        case _, _, "write_text":
            return len(call.args) + len(call.keywords) == 1
        case owner, _, "open":
            is_text = re.search(r"'[rwax]?\+?b|'r\|", words) is None and owner not in (
                "os",
                "webbrowser",
                "zip",
                "archive",
            )
            return is_text and "encoding" not in words and (owner != "gzip" or "'rt'" in words)
    return False
