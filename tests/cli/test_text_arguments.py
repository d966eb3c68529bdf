"""Text goes through a command bit by bit, on a terminal line by line."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import pytest

from adanorm.cli.command import parse_arguments
from adanorm.cli.text_arguments import TOGETHER, text_streams
from adanorm.cli.translate import USAGE


def test_a_line_on_a_terminal_is_answered_before_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"one\n")
    with (
        os.fdopen(theirs) as terminal,
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", terminal)
        with text_streams(parse_arguments("translate", USAGE, [])) as text:
            parts = text.parts(text.lines)
            assert next(parts) == ["one\n"]
            os.write(ours, b"two\n\x04")
            assert list(parts) == [["two\n"]]
    os.close(ours)


def test_a_file_is_read_in_parts_and_written_whole_or_not(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a\x0cb\r\n" * TOGETHER + b"last\n\xff\n")
    arguments = parse_arguments("translate", USAGE, [f"input={source}", f"output={output}"])

    def copy() -> list[int]:
        sizes = []
        with text_streams(arguments) as text:
            for part in text.parts(text.lines):
                sizes.append(len(part))
                text.write("".join(part))
        return sizes

    with pytest.raises(ValueError, match=f"in, line {TOGETHER + 2}: not UTF-8"):
        copy()
    assert not output.exists()
    source.write_bytes(source.read_bytes()[:-2])
    assert copy() == [TOGETHER, 1]
    assert output.read_bytes() == source.read_bytes()
