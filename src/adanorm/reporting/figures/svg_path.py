"""The data of an SVG path: read, moved, and written in few characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

Point = tuple[float, float]
_TOKEN = re.compile(r"[MLQCz]|-?\d+(?:\.\d+)?(?:e-?\d+)?")
_SMALL = 10.0  # points: what is all nearer to 0 is a marker


class Segment(NamedTuple):
    """A command, one of M, L, Q, C and z, and its points."""

    command: str
    points: tuple[Point, ...]


def read(text: str) -> list[Segment]:
    """Return the segments of a path that matplotlib wrote: its commands are absolute, each has a letter."""
    assert not set(text) - set("MLQCz0123456789.-e \n"), "what matplotlib writes of a path"
    segments, numbers = list[Segment](), list[float]()
    command = ""
    for token in [*_TOKEN.findall(text), ""]:
        if token and token not in "MLQCz":
            numbers.append(float(token))
            continue
        if command:
            segments.append(Segment(command, tuple(zip(numbers[::2], numbers[1::2], strict=True))))
        command, numbers = token, []
    return segments


def moved(path: Sequence[Segment], x: float, y: float) -> list[Segment]:
    """Return a path at another place."""
    return [Segment(command, tuple((a + x, b + y) for a, b in points)) for command, points in path]


def draws(path: Sequence[Segment]) -> bool:
    """Return whether a path has more than places to start at."""
    return any(command != "M" for command, _ in path)


def written(path: Sequence[Segment]) -> str:
    """Return path data in relative commands: to a tenth of a point, of a marker to a hundredth."""
    grid = 100 if all(abs(number) <= _SMALL for _, points in path for at in points for number in at) else 10
    out = _Writer(grid)
    for command, points in path:
        out.add(command, [(round(x * grid), round(y * grid)) for x, y in points])
    return out.text


class _Writer:
    """Path data as it grows; places are whole numbers of a grid, so that no error adds up."""

    def __init__(self, grid: int) -> None:
        self.text = ""
        self._grid = grid
        self._at = self._start = (0, 0)
        self._last = ""  # the command that numbers without a letter belong to
        self._number = ""  # the last one

    def add(self, command: str, points: Sequence[tuple[int, int]]) -> None:
        if command == "z":
            self.text, self._at, self._last = f"{self.text}z", self._start, ""
            return
        x, y = self._at
        steps = [part - origin for point in points for part, origin in zip(point, (x, y), strict=True)]
        if command == "L":
            if not any(steps) and self._last not in ("m", "M"):  # a dot of a line that goes on
                return
            letter, steps = (
                ("v", steps[1:]) if not steps[0] else ("h", steps[:1]) if not steps[1] else ("l", steps)
            )
        else:
            letter = command.lower()
        self._append(letter, steps)
        self._at = points[-1]
        if command == "M":
            self._start = self._at

    def _append(self, letter: str, steps: Sequence[int]) -> None:
        if letter != self._last or letter == "m":
            if letter == "m" and not self.text:
                letter = "M"  # from 0, 0: the same
            self.text += letter
            before = ""
        else:
            before = self._number
        for step in steps:
            word = number(step / self._grid)
            starts = word[0] == "-" or (word[0] == "." and "." in before)  # a number of itself
            self.text += word if starts or not before else f" {word}"
            before = word
        self._last, self._number = letter, before


def number(value: float, digits: int = 2) -> str:
    """Return a number without the zeros that say nothing: `.5`, `-12`, `0`."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"
    if text in ("-0", ""):
        return "0"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text
