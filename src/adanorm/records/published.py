"""The paper's numbers, typed once in results/published.csv with their source."""

import csv
import math
from functools import cache
from typing import NamedTuple

from adanorm.config.paths import SHIPPED

UNCONFIRMED = "†"  # behind a number that no public source confirms


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
    with (SHIPPED / "results" / "published.csv").open(encoding="utf-8", newline="") as file:
        rows = {}
        for row in csv.DictReader(file):
            text, value = row["value"], None if row["value"] == "Diverge" else float(row["value"])
            known = Published(row["metric"], value, text, row["source"], row["confirmed"] == "yes")
            rows[row["task"], row["norm"]] = known
        return rows


def published(task: str, norm: str) -> Published | None:
    """Return the paper's number for a task under a norm, or None if it has none."""
    return _rows().get((task, norm))


def published_tasks() -> list[str]:
    """Return the tasks of the paper in the order of its columns."""
    return list(dict.fromkeys(task for task, _ in _rows()))


@cache
def published_curves(task: str) -> tuple[str, dict[tuple[str, str], list[tuple[float, float]]]] | None:
    """Return what x counts in the paper's curves of a task, and (x, y) by norm and part; None without any."""
    path = SHIPPED / "results" / "published-curves" / f"{task}.csv"
    if not path.exists():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    over, *columns = rows[0]
    points = {}
    for column in columns:
        norm, part = column.lower().split()
        points[norm, part] = [(float(row[over]), float(row[column])) for row in rows if row[column]]
    return over, points


READ_OFF = 0.0005  # how far a curve read off a drawing may be wrong, at the least


def published_last_loss(task: str, norm: str, part: str) -> float | None:
    """Return the last value of a curve of the paper in nats; None where it shows none.

    Enwiki8's are in bits and De-En's to base 2; the unit of PTB's is not stated, and taken for nats.
    """
    _, points = published_curves(task) or ("", {})
    if (norm, part) not in points:
        return None
    return points[norm, part][-1][1] * (1.0 if task == "ptb" else math.log(2))
