"""A command reads and writes text in parts, and line by line on a terminal."""

import os
import pty
import sys
from pathlib import Path

import pytest

from adanorm.cli.command import parse_arguments
from adanorm.cli.text_arguments import TOGETHER, text_streams
from adanorm.cli.translate import USAGE


def test_a_line_on_a_terminal_is_answered_before_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"one\n")
    with os.fdopen(theirs) as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", terminal)
        with text_streams(parse_arguments("translate", USAGE, [])) as text:
            parts = text.parts(text.lines)
            assert next(parts) == ["one\n"]
            os.write(ours, b"two\n\x04")
            assert list(parts) == [["two\n"]]
    os.close(ours)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="input is closed: name a file with input=FILE"):
        text_streams(parse_arguments("translate", USAGE, [])).__enter__()


def test_a_file_is_read_in_parts_and_written_whole_or_not_at_all(tmp_path: Path) -> None:
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


def test_writing_to_a_device_or_a_link_does_not_replace_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    device, link = Path(os.ttyname(theirs)), tmp_path / "link"
    link.symlink_to(tmp_path / "out")
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbfone\n")
    for output in (device, link):
        arguments = parse_arguments(
            "translate", USAGE, [f"input={tmp_path / 'in'}", f"output={output}"]
        )
        with text_streams(arguments) as text:
            text.write("".join(text.lines))
    assert device.is_char_device()
    assert os.read(ours, 9) == b"one\r\n"
    assert link.is_symlink()
    assert (tmp_path / "out").read_bytes() == b"one\n", "without its byte order mark"
    with text_streams(arguments, keeps_mark=True) as text:
        text.write("".join(text.lines))
    assert (tmp_path / "out").read_bytes() == b"\xef\xbb\xbfone\n"
    os.close(ours)
    os.close(theirs)
