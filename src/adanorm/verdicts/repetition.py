"""Whether a run that is repeated gives what is on record: to the bit, in rounding, or as one more seed."""

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.check import OUTPUTS
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


def repetition(recorded: Experiment, repeated: Experiment) -> Repetition:
    """Return how a run's repetition agrees with its record, both complete.

    *To the bit*: curves, test scores and outputs are equal in every digit. *Within rounding*: curves and
    scores agree to ROUNDING. Else by the p of the score as one more run's, Student's t with the recorded
    seeds' own s: *within the seeds' spread* or *differs*; *open* where fewer than two seeds are on record.
    """

    def score(result: Result | None) -> float | None:
        is_done = result is not None and result.status == "done"
        return result.test_score(recorded.task.metric) if result and is_done else None

    before, after = reader.result(recorded.folder()), reader.result(repeated.folder())
    assert before is not None, "the record is complete"
    assert after is not None, "so is its repetition"
    alike = (score(reader.result(run.folder())) for run in reader.runs_on_record(recorded))
    scores, again, p = tuple(value for value in alike if value is not None), score(after), None
    if again is not None and len(scores) > 1:
        spread = Spread(max(stdev(scores), NO_SPREAD), len(scores) - 1)
        p = place(again, rounding=0.0, mean=fmean(scores), count=len(scores), spread=spread).p
    agreement: Agreement = "open" if p is None else "differs" if p < DIFFERS else "within the seeds' spread"
    (was, outputs), (now, others) = _written(recorded.folder(), before), _written(repeated.folder(), after)
    if before.status != after.status:
        agreement = "differs"
    elif (was, outputs) == (now, others):
        agreement = "to the bit"
    elif len(was) == len(now) and all(map(_close, was, now)):
        agreement = "within rounding"
    return Repetition(agreement, score(before), again, scores, p)


def _written(folder: Path, result: Result) -> tuple[list[dict[str, float]], list[str] | None]:
    """Return a run's curve, less its times, with its test scores as the last row; and its outputs."""
    curve = [{k: v for k, v in row.items() if k != "seconds"} for row in reader.metrics(folder)]
    record = reader.record(folder)
    return [*curve, result.test or {}], record.outputs() if record.has(OUTPUTS) else None


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
