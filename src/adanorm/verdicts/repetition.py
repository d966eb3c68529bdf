"""Whether a repeated run agrees with its record: to the bit, within rounding, like a seed."""

import math
import re
from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from adanorm.config.titles import METRICS
from adanorm.files import Fields
from adanorm.records.integrity import OUTPUTS
from adanorm.records.reader import Record, siblings
from adanorm.records.result import Result
from adanorm.stats.variance import DIFFERS, Spread, prediction

Agreement = Literal["to the bit", "within rounding", "within the seeds' spread", "open", "differs"]
ROUNDING = (
    1e-4  # relative: how far another order of summation moves a sum, before training magnifies it
)
LEAST_SPREAD = 1e-9  # of scores that are all equal
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
    "code": "digest of the code",
    "commit": "commit",
}


class Repetition(NamedTuple):
    """How a repeated run agrees with its record.

    `p` is the two-sided p of its score as one more seed's.
    """

    agreement: Agreement
    recorded: float | None  # the test score; None if the run is not done
    repeated: float | None
    seeds: tuple[float, ...]  # the recorded scores of all seeds
    p: float | None


def repetition(before: Record, after: Record) -> Repetition:
    """Return how a repeated run, `after`, agrees with its record, `before`; both are complete.

    *To the bit*: curves, test scores and outputs are equal in every digit. *Within rounding*:
    curves and scores agree to ROUNDING. Otherwise Student's t, with the recorded seeds' own s,
    tests the score as one more run's: *within the seeds' spread* or *differs*; *open* with fewer
    than two seeds on record.
    """
    scores = scores_alike(before)
    recorded = score_of(before)
    repeated = score_of(after)
    curve, outputs = _curve_and_outputs(after)
    recorded_curve, recorded_outputs = _curve_and_outputs(before)
    agreement: Agreement = "open"
    p = None
    if repeated is not None and len(scores) > 1:
        spread = Spread(max(stdev(scores), LEAST_SPREAD), len(scores) - 1)
        mean = fmean(scores)
        count = len(scores)
        p = prediction(
            repeated,
            rounding=0.0,
            mean=mean,
            count=count,
            spread=spread,
        ).p
        agreement = "differs" if p < DIFFERS else "within the seeds' spread"
    if (repeated is None) != (recorded is None):
        agreement = "differs"
    elif curve == recorded_curve and outputs == recorded_outputs:
        agreement = "to the bit"
    elif len(curve) == len(recorded_curve) and all(
        map(
            _close,
            recorded_curve,
            curve,
        )
    ):
        agreement = "within rounding"
    return Repetition(agreement, recorded, repeated, scores, p)


def score_of(record: Record) -> float | None:
    """Return the test score of a run in its task's metric; None if the run is not done."""
    result = record.ended
    if not isinstance(result, Result) or result.status != "done":
        return None
    return result.test_score(record.identity["task"]["metric"])


def scores_alike(record: Record) -> tuple[float, ...]:
    """Return the recorded test scores of a run and of all that differ only in their seed."""
    scores = [score_of(sibling) for sibling in siblings(record)]
    return tuple(score for score in scores if score is not None)


def elsewhere(here: Record, there: Record) -> str:
    """Return in words how a contributed run agrees with the one that counts."""
    agreement, recorded, repeated, seeds, _ = repetition(here, there)
    where = f"on {there.environment.get('device')}"
    if recorded is None or repeated is None:
        return f"{where} it ended otherwise: {agreement}"
    digits = METRICS[here.identity["task"]["metric"]].decimals(recorded)
    beside = f" beside ± {stdev(seeds):.{digits}f} of seeds" if len(seeds) > 1 else ""
    gap = f"{repeated - recorded:+.{digits}f}"
    return f"{recorded:.{digits}f} here, {gap} {where}{beside}: {agreement}"


def _curve_and_outputs(record: Record) -> tuple[list[dict[str, float]], list[str] | None]:
    """Return a run's curve without times, with the test scores as its last row, and its outputs."""
    curve = []
    for row in record.rows():
        curve.append({name: value for name, value in row.items() if name != "seconds"})
    if isinstance(record.ended, Result):
        curve.append(record.ended.test or {})
    outputs = record.outputs() if record.has(OUTPUTS) else None
    return curve, outputs


def _close(before: Mapping[str, float], after: Mapping[str, float]) -> bool:
    if before.keys() != after.keys():
        return False
    return all(
        math.isclose(
            before[name],
            after[name],
            rel_tol=ROUNDING,
        )
        for name in before
    )


def differences(before: Fields, after: Fields) -> list[str]:
    """Return one line per difference of two environments: on record, and here."""
    lines = []
    for key, name in FACTS.items():
        was = before.get(key)
        now = after.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            for part in {**was, **now}:
                if was.get(part) != now.get(part):
                    recorded = _shown(was.get(part))
                    here = _shown(now.get(part))
                    lines.append(f"{part}: {recorded} on record, {here} here")
        # For the backend `eager`, the reason behind the colon changes no number.
        elif was != now and {str(value).partition(":")[0] for value in (was, now)} != {"eager"}:
            lines.append(f"{name}: {_shown(was)} on record, {_shown(now)} here")
    return lines


def _shown(value: Any) -> str:
    if value is None:
        return "not said"
    if isinstance(value, dict):
        return ", ".join(f"{name} {version}" for name, version in value.items())
    text = str(value)
    return text[:12] if re.fullmatch("[0-9a-f]{40,64}", text) else text  # of a commit or a digest
