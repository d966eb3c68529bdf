"""Aligned texts, read line by line: files, members of archives, several one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from adanorm.data import packed

Texts = tuple[str, str]  # of two languages, a line feed after each line
TOGETHER = 1000  # lines that are decoded at once, which takes a third of the time of one by one


class Lines:
    """The lines of a text, read again at each iteration: they are never all in memory."""

    def __init__(self, start: Callable[[], Iterable[str]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[str]:
        return iter(self._start())


@dataclass(frozen=True)
class Pairs:
    """Aligned lines of two languages, the names of their files, and where they are from."""

    source: Iterable[str]
    target: Iterable[str]
    names: tuple[str, str]
    origin: str

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield each pair; raises ValueError where the numbers of lines differ, and where there is none."""
        sides, count = (iter(self.source), iter(self.target)), 0
        for count, pair in enumerate(zip_longest(*sides), 1):  # noqa: B007 (after the loop)
            if None in pair:
                break
            yield pair
        else:
            if count == 0:
                raise ValueError(f"{self.names[0]}: no lines")
            return
        here, there = (
            count - (line is None) + sum(1 for _ in side) for line, side in zip(pair, sides, strict=True)
        )
        raise ValueError(
            f"{self.names[0]} has {here:,} lines and {self.names[1]} has {there:,}: line i of one must"
            " be the translation of line i of the other"
        )

    def parts(self, size: int, limit: int | None = None) -> Iterator[Texts]:
        """Yield two texts of `size` lines each, of the first `limit` pairs.

        The rest is read to see that it aligns.
        """
        pairs = iter(self)
        taken = pairs if limit is None else islice(pairs, limit)
        while part := list(islice(taken, size)):
            source, target = zip(*part, strict=True)
            yield "\n".join((*source, "")), "\n".join((*target, ""))
        deque(pairs, maxlen=0)

    def empty_lines(self) -> list[str]:
        """Return a line on the pairs that have an empty side, if any; raises ValueError where all have."""
        lines, count = [], 0
        for count, pair in enumerate(self, 1):
            if not all(map(str.strip, pair)):
                lines.append(count)
        if not lines:
            return []
        if len(lines) == count:
            raise ValueError(f"{self.origin}: every pair has an empty side: there is nothing to score")
        return [f"{self.origin}: {len(lines)} pairs with an empty side, the first in line {lines[0]}"]


def lines_of(content: bytes, name: str) -> list[str]:
    """Return the lines of a UTF-8 text, without a byte order mark; only a line feed ends a line.

    Raises ValueError naming the line that is not UTF-8.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def aligned(source: Iterable[str], target: Iterable[str], names: tuple[str, str]) -> Pairs:
    """Return two files' lines as pairs."""
    return Pairs(source, target, names, f"{names[0]}, {names[1]}")


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield lines of UTF-8 as text, without a byte order mark.

    Raises ValueError naming the line that is not, and where carriage returns end the lines.
    """
    rest, before = iter(lines), 0
    while block := b"".join(islice(rest, TOGETHER)):
        try:
            text = block.decode("utf-8" if before else "utf-8-sig")
        except UnicodeDecodeError as error:
            number = before + 1 + block[: error.start].count(b"\n")
            raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from None
        if not before and "\r" in text.rstrip("\r") and "\n" not in text:
            raise ValueError(f"{name}: its lines end in carriage returns alone; a line feed ends a line")
        yield from text.removesuffix("\n").split("\n")
        before += TOGETHER


def pair_of(source: Path, target: Path) -> Pairs:
    """Return two text files' lines as pairs."""
    first, second = (
        Lines(lambda path=path: _decoded(packed.lines(path), path.name))  # type: ignore[misc]
        for path in (source, target)
    )
    return aligned(first, second, (source.name, target.name))


def joined(parts: Sequence[Pairs]) -> Pairs:
    """Return the pairs of several corpora, one after the other."""
    source = Lines(lambda: (pair[0] for part in parts for pair in part))
    target = Lines(lambda: (pair[1] for part in parts for pair in part))
    names = ", ".join(part.names[0] for part in parts), ", ".join(part.names[1] for part in parts)
    return Pairs(source, target, names, ", ".join(part.origin for part in parts))


class Archive:
    """Members of a tar archive by name, read in place: nothing is unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, suffix: str) -> Lines:
        """Return the lines of the member whose path ends so.

        Iterating raises ValueError naming it where the archive does not have it, or is not whole.
        """
        return Lines(lambda: _decoded(packed.member_lines(self.path, suffix), f"{self.path.name}: {suffix}"))

    def pairs(self, pattern: str, languages: tuple[str, str]) -> Pairs:
        """Return a pair of members as aligned lines; {} in the pattern stands for the language."""
        names = (pattern.format(languages[0]), pattern.format(languages[1]))
        return aligned(self.lines(names[0]), self.lines(names[1]), names)
