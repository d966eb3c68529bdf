"""One cell of an analysis: its records over seeds, as numbers and as text."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from adanorm.analyses.spec import AnalysisRecord, Quantity
from adanorm.records import reader
from adanorm.records.result import AnalysisResult


def analysis_results(cell: Sequence[AnalysisRecord]) -> list[AnalysisResult]:
    """Return the results of the records that have ended."""
    endings = (reader.record(record.folder()).ended for record in cell)
    return [ended for ended in endings if isinstance(ended, AnalysisResult)]


def text(cell: Sequence[AnalysisRecord], quantity: Quantity) -> str:
    """Return a quantity of a cell: its mean ± standard deviation over seeds, `diverges`, or `-`."""
    ended = analysis_results(cell)
    if any(result.status == "diverged" for result in ended):
        return "diverges"
    summaries = [result.summary for result in ended]
    if quantity.geometric:
        records = [reader.record(record.folder()) for record in cell if analysis_results([record])]
        rows = [record.rows("rows.jsonl") for record in records]
        summaries = [averages(of, geometric_mean, only=quantity.name)[0] for of in rows]
    numbers = [summary[quantity.name] for summary in summaries if quantity.name in summary]
    if not numbers:
        return "-"
    if quantity.yes_within is not None:
        limit = float(cell[0].analysis.options[quantity.yes_within])
        return "yes" if max(numbers) <= limit else "no"
    mean = number(fmean(numbers))
    return f"{mean} ± {number(stdev(numbers))}" if len(numbers) > 1 else mean


def number(value: float) -> str:
    """Return a number with three digits that count, however large or small it is."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"
    return f"{value:.1e}"


def geometric_mean(numbers: Iterable[float]) -> float:
    """Return the geometric mean of numbers that are not negative, 0 where one of them is."""
    return math.exp(fmean(math.log(number) if number else -math.inf for number in numbers))


def averages(
    rows: Sequence[dict[str, Any]], mean: Callable[..., float] = fmean, *, only: str | None = None
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Return each quantity's mean over observations: over the places it is known at, and at each of them."""
    seen: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for place, values in row["values"].items():
            for name, value in values.items():
                if value is not None and only in (None, name):
                    seen.setdefault(place, {}).setdefault(name, []).append(value)
    places = {place: {name: mean(of) for name, of in found.items()} for place, found in seen.items()}
    names = dict.fromkeys(name for means in places.values() for name in means)
    summary = {name: mean(means[name] for means in places.values() if name in means) for name in names}
    return summary, places
