"""What the observations of a run come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

Mean = Callable[[Iterable[float]], float]


class Averages(NamedTuple):
    """Means by quantity: over the places, and at each of them."""

    summary: dict[str, float]
    places: dict[str, dict[str, float]]


def geometric_mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean of numbers that are not negative, 0 where one of them is."""
    logarithms = [math.log(number) if number else -math.inf for number in numbers]
    return math.exp(fmean(logarithms))


def averages(rows: Sequence[dict[str, Any]], mean: Mean = fmean) -> Averages:
    """Return each quantity's mean over observations, at each place and over the places it is known at."""
    seen: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for place, values in row["values"].items():
            for name, value in values.items():
                if value is not None:
                    seen.setdefault(place, {}).setdefault(name, []).append(value)
    places = {
        place: {name: mean(numbers) for name, numbers in found.items()} for place, found in seen.items()
    }
    names = dict.fromkeys(name for found in places.values() for name in found)
    summary = {name: mean(found[name] for found in places.values() if name in found) for name in names}
    return Averages(summary, places)
