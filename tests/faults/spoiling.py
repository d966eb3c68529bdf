"""Ways to spoil the content of a file."""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

Edit = Callable[[bytes, Random], bytes]
TOKENS = (
    "-1",
    "0",
    "999",
    "x",
    "",
    "\u00fc",
    "\x00",
    "1e9",
    "\t",
    " ",
    "nan",
    "_",
    "\u2028",
    "a" * 500,
)


def _with_flipped_bits(content: bytes, random: Random, bits: int) -> bytes:
    flipped = bytearray(content)
    for _ in range(bits if flipped else 0):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _with_zeros(content: bytes, random: Random) -> bytes:
    start = random.randrange(max(1, len(content)))
    return content[:start] + bytes(min(16, len(content) - start)) + content[start + 16 :]


def _by_line(edit: Callable[[list[bytes], Random], object]) -> Edit:
    def edited(content: bytes, random: Random) -> bytes:
        lines = content.split(b"\n")
        edit(lines, random)
        return b"\n".join(lines)

    return edited


def _other_field(lines: list[bytes], random: Random) -> None:
    number = random.randrange(len(lines))
    fields = lines[number].split(b"\t")
    fields[random.randrange(len(fields))] = random.choice(TOKENS).encode()
    lines[number] = b"\t".join(fields)


REMOVED = "removed"
OF_BYTES: Mapping[str, Edit] = {
    "a bit flipped": lambda content, random: _with_flipped_bits(content, random, 1),
    "three bits flipped": lambda content, random: _with_flipped_bits(content, random, 3),
    "cut at half": lambda content, _: content[: len(content) // 2],
    "cut by a byte": lambda content, _: content[:-1],
    "emptied": lambda *_: b"",
    "garbage": lambda content, random: random.randbytes(max(1, min(len(content), 4096))),
    "zeros": _with_zeros,
    "longer": lambda content, random: content + random.randbytes(7),
    REMOVED: lambda *_: b"",
}
OF_TEXT: Mapping[str, Edit] = {
    **OF_BYTES,
    "a line less": _by_line(lambda lines, random: lines.pop(random.randrange(len(lines)))),
    "a line twice": _by_line(lambda lines, random: lines.insert(0, random.choice(lines))),
    "lines shuffled": _by_line(lambda lines, random: random.shuffle(lines)),
    "another field": _by_line(_other_field),
    "one more field": _by_line(lambda lines, _: lines.insert(1, lines[0] + b"\tx")),
    "one line": _by_line(lambda lines, _: lines.__delitem__(slice(1, None))),
    "an endless word": _by_line(lambda lines, _: lines.insert(1, b"x" * 20000)),
    "other line ends": lambda content, _: content.replace(b"\n", b"\r"),
    "UTF-16": lambda content, _: content.decode().encode("utf-16"),
    "blank lines": lambda *_: b"\n" * 50,
}


def spoil(path: Path, how: str, random: Random) -> None:
    """Spoil a file in the way of this name."""
    if how == REMOVED:
        path.unlink()
    else:
        path.write_bytes(OF_TEXT[how](path.read_bytes(), random))
