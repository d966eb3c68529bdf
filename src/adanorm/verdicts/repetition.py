"""Whether a repeated run agrees with its record: to the bit, within rounding, or like one more seed."""

import math
from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from adanorm.metrics.table import METRICS
from adanorm.records.integrity import OUTPUTS
from adanorm.records.reader import Record, siblings
from adanorm.records.result import Result
from adanorm.stats.variance import DIFFERS, NO_SPREAD, Spread, prediction

Agreement = Literal["to the bit", "within rounding", "within the seeds' spread", "open", "differs"]
ROUNDING = (
    1e-4  # relative: how far another order of summation moves a sum, before training magnifies it
)
FACTS = {
    "device": "processor",
    "arithmetic": "instructions and libraries",
    "python": "Python",
    "packages": "packages",
    "precision": "precision",
    "threads": "threads",
    "processes": "processes",
    "norm_backend": "norms' backend",
    "numerics_version": "numerics version",
    "commit": "commit",
}


class Repetition(NamedTuple):
    """How a repeated run agrees with its record; `p` is the two-sided p of its score as one more seed's."""

    agreement: Agreement
    recorded: float | None  # the test score; None if the run is not done
    repeated: float | None
    seeds: tuple[float, ...]  # the recorded scores of all seeds
    p: float | None


def repetition(before: Record, after: Record) -> Repetition:
    """Return how a repeated run, `after`, agrees with its record, `before`; both are complete.

    *To the bit*: curves, test scores and outputs are equal in every digit. *Within rounding*: curves and
    scores agree to ROUNDING. Otherwise Student's t, with the recorded seeds' own s, tests the score as one
    more run's: *within the seeds' spread* or *differs*; *open* with fewer than two seeds on record.
    """
    scores, recorded, repeated, p = scores_alike(before), score_of(before), score_of(after), None
    if repeated is not None and len(scores) > 1:
        spread = Spread(max(stdev(scores), NO_SPREAD), len(scores) - 1)
        p = prediction(
            repeated, rounding=0.0, mean=fmean(scores), count=len(scores), spread=spread
        ).p
    agreement: Agreement = (
        "open" if p is None else "differs" if p < DIFFERS else "within the seeds' spread"
    )
    (old_rows, old_outputs), (rows, outputs) = _curve_and_outputs(before), _curve_and_outputs(after)
    if (repeated is None) != (recorded is None):
        agreement = "differs"
    elif (old_rows, old_outputs) == (rows, outputs):
        agreement = "to the bit"
    elif len(old_rows) == len(rows) and all(map(_close, old_rows, rows)):
        agreement = "within rounding"
    return Repetition(agreement, recorded, repeated, scores, p)


def score_of(record: Record) -> float | None:
    """Return the test score of a run in its task's metric; None if the run is not done."""
    result = record.ended
    if not isinstance(result, Result) or result.status != "done":
        return None
    return result.test_score(record.identity["task"]["metric"])


def scores_alike(record: Record) -> tuple[float, ...]:
    """Return the recorded test scores of a run and of all runs that differ from it only in their seed."""
    return tuple(score for score in map(score_of, siblings(record)) if score is not None)


def elsewhere(here: Record, there: Record) -> str:
    """Return in words how a contributed run agrees with the one that counts, with the spread over seeds."""
    agreement, recorded, repeated, seeds, _ = repetition(here, there)
    where = f"on {there.environment['device']}"
    if recorded is None or repeated is None:
        return f"{where} it ended otherwise: {agreement}"
    digits = METRICS[here.identity["task"]["metric"]].decimals(recorded)
    spread = f" beside ± {stdev(seeds):.{digits}f} of seeds" if len(seeds) > 1 else ""
    return f"{recorded:.{digits}f} here, {repeated - recorded:+.{digits}f} {where}{spread}: {agreement}"


def _curve_and_outputs(record: Record) -> tuple[list[dict[str, float]], list[str] | None]:
    """Return a run's curve without times, with the test scores as its last row, and its outputs."""
    curve = [{k: v for k, v in row.items() if k != "seconds"} for row in record.rows()]
    tests = record.ended.test or {} if isinstance(record.ended, Result) else {}
    return [*curve, tests], record.outputs() if record.has(OUTPUTS) else None


def _close(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(
        math.isclose(one[k], other[k], rel_tol=ROUNDING) for k in one
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return one line per difference between two environments: the value on record and the value here."""
    lines = []
    for key, name in FACTS.items():
        was, now = before.get(key), after.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            parts = [part for part in {**was, **now} if was.get(part) != now.get(part)]
            lines += [
                f"{part}: {_shown(was.get(part))} on record, {_shown(now.get(part))} here"
                for part in parts
            ]
        # For the backend `eager`, the reason behind the colon changes no number.
        elif was != now and {str(value).partition(":")[0] for value in (was, now)} != {"eager"}:
            lines.append(f"{name}: {_shown(was)} on record, {_shown(now)} here")
    return lines


def _shown(value: Any) -> str:
    if value is None:
        return "not said"
    return (
        ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
    )
