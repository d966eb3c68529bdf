"""Dropping pairs of sentences that cannot be translations of each other, and saying which and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Dropped:
    """How many pairs were dropped for each reason, and where the first of them stands."""

    total: int
    counts: dict[str, int] = field(default_factory=dict)
    firsts: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, where: str, count: int = 1) -> None:
        """Count a pair, or several of which the first stands at `where`."""
        self.counts[reason] = self.counts.get(reason, 0) + count
        self.firsts.setdefault(reason, where)

    def lines(self, origin: str) -> list[str]:
        """Return what was dropped from the files of that name, a reason a line."""
        return [
            f"{origin}: dropped {count:,} of {self.total:,} pairs, {reason}"
            f" (the first: {self.firsts[reason]})"
            for reason, count in self.counts.items()
        ]


def clean(
    source: Sequence[str], target: Sequence[str], *, longest: int, ratio: float, start: int = 0
) -> tuple[list[int], Dropped]:
    """Return the indices of the pairs to keep, and what was dropped.

    The rules of Moses's clean-corpus-n: both sides have 1 to `longest` words, and neither has
    more than `ratio` times the other's. `start` lines come before these.
    """
    kept, dropped = [], Dropped(len(source))
    for index, pair in enumerate(zip(source, target, strict=True)):
        here, there = (len(side.split()) for side in pair)
        where = f"line {start + index + 1}, {here:,} and {there:,} words"
        if not here or not there:
            dropped.add("a side is empty", where)
        elif max(here, there) > longest:
            dropped.add(f"a side is longer than {longest} words", where)
        elif max(here, there) > ratio * min(here, there):
            dropped.add(f"one side has over {ratio:g} times the other's words", where)
        else:
            kept.append(index)
    return kept, dropped
