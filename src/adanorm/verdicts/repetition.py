"""Whether a run that is repeated gives what is on record: to the bit, in rounding, or as one more seed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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

    *To the bit*: the curves, test scores and outputs are equal in every digit written. *Within rounding*:
    the curves and scores agree to 1e-4 of their size. Else the score is one more run's: *within the seeds'
    spread* where its p among the recorded seeds (Student's t for one more, s of their own) is at least .05,
    *differs* where it is below, *open* where fewer than two seeds are on record.
    """
    metric = recorded.task.metric
    before, after = reader.result(recorded.folder()), reader.result(repeated.folder())
    assert before is not None, "the record is complete"
    assert after is not None, "so is its repetition"
    scores = tuple(
        result.test_score(metric)
        for run in reader.runs_on_record(recorded)
        if (result := reader.result(run.folder())) is not None and result.status == "done"
    )
    was, now = (r.test_score(metric) if r.status == "done" else None for r in (before, after))
    p = _p(now, scores)
    agreement = _agreement(recorded.folder(), repeated.folder(), (before, after), p)
    return Repetition(agreement, was, now, scores, p)


def _p(score: float | None, seeds: Sequence[float]) -> float | None:
    if score is None or len(seeds) < 2:
        return None
    spread = Spread(max(stdev(seeds), NO_SPREAD), len(seeds) - 1)
    return place(score, rounding=0.0, mean=fmean(seeds), count=len(seeds), spread=spread).p


def _agreement(before: Path, after: Path, results: tuple[Result, Result], p: float | None) -> Agreement:
    curves = [_curve(folder) for folder in (before, after)]
    scores = [result.test or {} for result in results]
    if results[0].status != results[1].status:
        return "differs"
    if curves[0] == curves[1] and scores[0] == scores[1] and _outputs(before) == _outputs(after):
        return "to the bit"
    alike = len(curves[0]) == len(curves[1]) and all(
        map(_close, [*curves[0], scores[0]], [*curves[1], scores[1]])
    )
    if alike:
        return "within rounding"
    if p is None:
        return "open"
    return "differs" if p < DIFFERS else "within the seeds' spread"


def _curve(folder: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in reader.metrics(folder)]


def _outputs(folder: Path) -> list[str] | None:
    return reader.outputs(folder) if reader.record(folder).has(OUTPUTS) else None


def _close(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(math.isclose(one[k], other[k], rel_tol=ROUNDING) for k in one)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return in what two runs' environments differ, a line each: what it was on record, what it is here."""
    lines = []
    for key, name in FACTS.items():
        was, now = before.get(key), after.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            parts = [part for part in {**was, **now} if was.get(part) != now.get(part)]
            lines += [f"{part}: {was.get(part)} on record, {now.get(part)} here" for part in parts]
        elif was != now and not (_is_eager(was) and _is_eager(now)):
            lines.append(f"{name}: {_shown(was)} on record, {_shown(now)} here")
    return lines


def _is_eager(value: Any) -> bool:
    """Return whether a backend is PyTorch's operations; the reason, behind a colon, changes no number."""
    return isinstance(value, str) and value.partition(":")[0] == "eager"


def _shown(value: Any) -> str:
    if value is None:
        return "not said"
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
