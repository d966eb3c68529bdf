"""What the observations of a run come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple


class Averages(NamedTuple):
    """Means by quantity: over the places, and at each of them."""

    summary: dict[str, float]
    places: dict[str, dict[str, float]]


def averages(rows: Sequence[dict[str, Any]]) -> Averages:
    """Return each quantity's mean over observations, at each place and over the places it is known at."""
    seen: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for place, values in row["values"].items():
            for name, value in values.items():
                if value is not None:
                    seen.setdefault(place, {}).setdefault(name, []).append(value)
    places = {
        place: {name: fmean(numbers) for name, numbers in found.items()} for place, found in seen.items()
    }
    names = dict.fromkeys(name for found in places.values() for name in found)
    summary = {name: fmean(found[name] for found in places.values() if name in found) for name in names}
    return Averages(summary, places)
