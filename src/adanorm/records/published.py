"""The paper's numbers, typed once in results/published.csv with their source."""

import csv
import math
from functools import cache
from typing import NamedTuple

from adanorm.config.paths import SHIPPED

UNCONFIRMED = "†"  # behind a number that no public source confirms
READ_OFF = 0.0005  # the least error to expect of a value read off a drawn curve


class Published(NamedTuple):
    """One number of the paper; `value` is None where the paper says Diverge."""

    metric: str
    value: float | None
    text: str
    source: str
    confirmed: bool

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        decimals = len(self.text.partition(".")[2])
        return 0.5 * 10.0**-decimals


def _csv_rows(name: str) -> list[dict[str, str]]:
    path = SHIPPED / "results" / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def _numbers() -> dict[tuple[str, str], Published]:
    numbers = {}
    for row in _csv_rows("published.csv"):
        text = row["value"]
        value = None if text == "Diverge" else float(text)
        number = Published(
            row["metric"],
            value,
            text,
            row["source"],
            row["confirmed"] == "yes",
        )
        numbers[row["task"], row["norm"]] = number
    return numbers


def published(task: str, norm: str) -> Published | None:
    """Return the paper's number for a task and a norm, or None if there is none."""
    return _numbers().get((task, norm))


def published_tasks() -> list[str]:
    """Return the tasks of the paper in the order of its columns."""
    return list(dict.fromkeys(task for task, _ in _numbers()))


@cache
def published_curves(
    task: str,
) -> tuple[str, dict[tuple[str, str], list[tuple[float, float]]]] | None:
    """Return the x axis of the paper's curves of a task, and their points (x, y) by (norm, part).

    Or None.
    """
    name = f"published-curves/{task}.csv"
    if not (SHIPPED / "results" / name).exists():
        return None
    rows = _csv_rows(name)
    x_axis, *columns = rows[0]
    points = {}
    for column in columns:
        norm, part = column.lower().split()
        drawn = [row for row in rows if row[column]]
        points[norm, part] = [(float(row[x_axis]), float(row[column])) for row in drawn]
    return x_axis, points


def published_last_loss(task: str, norm: str, part: str) -> float | None:
    """Return the last value of a curve of the paper, in nats.

    None if the paper does not show the curve. The paper gives Enwiki8 in bits and De-En to base 2.
    It states no unit for PTB, which we take as nats.
    """
    _, points = published_curves(task) or ("", {})
    if (norm, part) not in points:
        return None
    _, last = points[norm, part][-1]
    return last if task == "ptb" else last * math.log(2)
