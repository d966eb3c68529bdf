"""Whether a run that is repeated gives what is on record: to the bit, in rounding, or as one more seed."""

import math
from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from adanorm.metrics.table import METRICS
from adanorm.records.check import OUTPUTS
from adanorm.records.reader import Record, alike
from adanorm.records.result import Result
from adanorm.verdicts.variance import DIFFERS, NO_SPREAD, Spread, place

Agreement = Literal["to the bit", "within rounding", "within the seeds' spread", "open", "differs"]
ROUNDING = 1e-4  # relative: what sums in another order differ by, before training magnifies it
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
    """How a repeated run compares; `p` is two-sided, of its score among those of the recorded seeds."""

    agreement: Agreement
    recorded: float | None  # the test score; None of a run that is not done
    repeated: float | None
    seeds: tuple[float, ...]  # the scores on record, of every seed
    p: float | None


def repetition(before: Record, after: Record) -> Repetition:
    """Return how a run's repetition, `after`, agrees with its record, both complete.

    *To the bit*: curves, test scores and outputs are equal in every digit. *Within rounding*: curves and
    scores agree to ROUNDING. Else by the p of the score as one more run's, Student's t with the recorded
    seeds' own s: *within the seeds' spread* or *differs*; *open* where fewer than two seeds are on record.
    """
    scores, recorded, again, p = scores_alike(before), score_of(before), score_of(after), None
    if again is not None and len(scores) > 1:
        spread = Spread(max(stdev(scores), NO_SPREAD), len(scores) - 1)
        p = place(again, rounding=0.0, mean=fmean(scores), count=len(scores), spread=spread).p
    agreement: Agreement = "open" if p is None else "differs" if p < DIFFERS else "within the seeds' spread"
    (was, outputs), (now, others) = _written(before), _written(after)
    if (again is None) != (recorded is None):
        agreement = "differs"
    elif (was, outputs) == (now, others):
        agreement = "to the bit"
    elif len(was) == len(now) and all(map(_close, was, now)):
        agreement = "within rounding"
    return Repetition(agreement, recorded, again, scores, p)


def score_of(one: Record) -> float | None:
    """Return the test score of a run in its task's metric; None of one that is not done."""
    result = one.ended
    if not isinstance(result, Result) or result.status != "done":
        return None
    return result.test_score(one.identity["task"]["metric"])


def scores_alike(one: Record) -> tuple[float, ...]:
    """Return the test scores on record of the runs that differ from one in their seed alone, and its own."""
    return tuple(score for score in map(score_of, alike(one)) if score is not None)


def elsewhere(here: Record, there: Record) -> str:
    """Return in words how a contributed run agrees with the one that counts, beside the spread of seeds."""
    repeat, metric = repetition(here, there), METRICS[here.identity["task"]["metric"]]
    pair = [score for score in (repeat.recorded, repeat.repeated) if score is not None]
    if len(pair) < 2:
        return f"on {there.environment['device']} it ended otherwise: {repeat.agreement}"
    digits = metric.decimals(pair[0])
    spread = f" beside ± {stdev(repeat.seeds):.{digits}f} of seeds" if len(repeat.seeds) > 1 else ""
    difference = f"{pair[1] - pair[0]:+.{digits}f} on {there.environment['device']}"
    return f"{pair[0]:.{digits}f} here, {difference}{spread}: {repeat.agreement}"


def _written(one: Record) -> tuple[list[dict[str, float]], list[str] | None]:
    """Return a run's curve, less its times, with its test scores as the last row; and its outputs."""
    curve = [{k: v for k, v in row.items() if k != "seconds"} for row in one.rows()]
    tests = one.ended.test or {} if isinstance(one.ended, Result) else {}
    return [*curve, tests], one.outputs() if one.has(OUTPUTS) else None


def _close(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(math.isclose(one[k], other[k], rel_tol=ROUNDING) for k in one)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return in what two runs' environments differ, one line each: what is on record, what is here."""
    lines = []
    for key, name in FACTS.items():
        was, now = before.get(key), after.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            parts = [part for part in {**was, **now} if was.get(part) != now.get(part)]
            lines += [f"{part}: {was.get(part)} on record, {now.get(part)} here" for part in parts]
        # Of PyTorch's own operations the reason, behind a colon, changes no number.
        elif was != now and {str(value).partition(":")[0] for value in (was, now)} != {"eager"}:
            lines.append(f"{name}: {_shown(was)} on record, {_shown(now)} here")
    return lines


def _shown(value: Any) -> str:
    if value is None:
        return "not said"
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
