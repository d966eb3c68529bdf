"""The paper's numbers, typed once in results/published.csv with their source."""

from __future__ import annotations

import csv
from functools import cache
from typing import NamedTuple

from adanorm.config.paths import PROJECT


class Published(NamedTuple):
    """One number of the paper; `value` is None where it says Diverge."""

    metric: str
    value: float | None
    text: str
    source: str
    confirmed: bool

    @property
    def rounding(self) -> float:
        """Half a unit of the last digit printed."""
        return 0.5 * 10.0 ** -len(self.text.partition(".")[2])


@cache
def _rows() -> dict[tuple[str, str], Published]:
    with (PROJECT / "results" / "published.csv").open(newline="") as file:
        return {
            (row["task"], row["norm"]): Published(
                row["metric"],
                None if row["value"] == "Diverge" else float(row["value"]),
                row["value"],
                row["source"],
                row["confirmed"] == "yes",
            )
            for row in csv.DictReader(file)
        }


def published(task: str, norm: str) -> Published | None:
    """Return the paper's number for a task under a norm, or None if it has none."""
    return _rows().get((task, norm))


def published_tasks() -> list[str]:
    """Return the tasks of the paper in the order of its columns."""
    return list(dict.fromkeys(task for task, _ in _rows()))
