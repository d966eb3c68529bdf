"""`predict` reads and writes text in parts, and line by line on a terminal."""

import io
import os
import pty
import sys
from pathlib import Path

import pytest

from adanorm.cli.command import dispatch
from adanorm.cli.predict import TOGETHER, input_of, lines_of, output_of, parts_of


def copy(source: Path, output: Path, *, mark: bytes = b"") -> list[int]:
    """Copy a text in parts, behind `mark` if it has a byte order mark; return how many lines each had."""
    sizes = []
    with input_of(str(source)) as file, output_of(output) as target:
        for part in parts_of(lines_of(file, source.name, lambda _: target.write(mark)), TOGETHER):
            sizes.append(len(part))
            target.write("".join(part).encode())
            target.flush()
    return sizes


def test_a_line_on_a_terminal_is_answered_before_the_next_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, b"one\n")
    with os.fdopen(theirs) as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", terminal)
        with input_of("") as file:
            parts = parts_of(lines_of(file, "input", print), 1)
            assert next(parts) == ["one\n"]
            os.write(ours, b"two\n\x04")
            assert list(parts) == [["two\n"]]
    os.close(ours)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="input is closed: name a file with input=FILE"):
        input_of("").__enter__()


def test_a_file_is_read_in_parts_and_written_whole_or_not_at_all(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"a\x0cb\r\n" * TOGETHER + b"last\n\xff\n")
    with pytest.raises(ValueError, match=f"in, line {TOGETHER + 2}: not UTF-8"):
        copy(source, output)
    assert not output.exists()
    source.write_bytes(source.read_bytes()[:-2])
    assert copy(source, output) == [TOGETHER, 1]
    assert output.read_bytes() == source.read_bytes()


def test_writing_to_a_device_or_a_link_does_not_replace_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    source, device, link = tmp_path / "in", Path(os.ttyname(theirs)), tmp_path / "link"
    link.symlink_to(tmp_path / "out")
    source.write_bytes(b"\xef\xbb\xbfone\n")
    copy(source, device)
    copy(source, link)
    assert device.is_char_device()
    assert os.read(ours, 9) == b"one\r\n"
    assert link.is_symlink()
    assert (tmp_path / "out").read_bytes() == b"one\n", "without its byte order mark"
    copy(source, link, mark=b"\xef\xbb\xbf")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize("source", ["in.de", "mine.py"])
def test_no_text_of_a_user_is_replaced_nor_the_input(tmp_path: Path, source: str) -> None:
    output = tmp_path / "mine.py"
    for name in ("in.de", "mine.py"):
        (tmp_path / name).write_text("eins\n")
    with pytest.raises(ValueError, match=f"^output={output}: exists, .* name another file$"):
        dispatch(["predict", "task=chess", f"input={tmp_path / source}", f"output={output}"])
    assert output.read_text() == "eins\n"
    output.write_text("")
    with pytest.raises(ValueError, match="unknown task 'chess'"):
        dispatch(["predict", "task=chess", f"input={tmp_path / source}", f"output={output}"])


def test_byte_order_marks_are_no_text_also_of_files_that_were_joined() -> None:
    marks: list[str] = []
    joined = b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n"
    lines = lines_of(io.BytesIO(joined), "input", marks.append)
    assert [*lines] == ["one\n", "two\n"]
    assert marks == ["\ufeff"], "the first stays in front of parses"
