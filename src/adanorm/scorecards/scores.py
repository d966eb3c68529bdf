"""What the records say of a norm beside others, by the code that judges the studies."""

from __future__ import annotations

from typing import Any

from adanorm.config.compose_cache import cached_experiment
from adanorm.config.titles import title
from adanorm.metrics.table import METRICS
from adanorm.scorecards.card import Answer, Card, Column, Score, Side, Verdict
from adanorm.verdicts.evidence import Evidence, NormRuns
from adanorm.verdicts.pair import Pair, pair, paper_gap
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import lacking

ALIKE = "computes the same, so that only rounding differs"
SMOKE = "synthetic data, a run of seconds: it shows that the norm trains, and no more"


def score(card: Card, column: Column, found: Evidence, run_metric: str) -> Score:
    """Return a column's scores and verdicts, from its records."""
    metric = METRICS[run_metric]
    sign = 1 if metric.higher_is_better else -1
    return Score(
        column=column,
        title=title(column.task),
        metric=metric.label,
        higher_is_better=metric.higher_is_better,
        sides=[_side(norm, found.norms[norm], sign) for norm in (card.norm, *card.against)],
        verdicts=[_verdict(card, column, other, found) for other in card.against],
    )


def alike_on(card: Card, task: str) -> list[str]:
    """Return the norms that compute on a task what the card's norm computes there.

    That was seen of the norms as they come: one that the task sets otherwise is another norm there.
    """
    if card.observed is None or _set_by(task, card.norm):
        return []
    return [norm for norm in card.observed.alike if not _set_by(task, norm)]


def _set_by(task: str, norm: str) -> dict[str, Any]:
    """Return the parameters of a norm that a task sets otherwise than they come; none of one from outside."""
    if ":" in norm:
        return {}
    usual, here = (cached_experiment([*on, f"norm={norm}"]).norm.params for on in ([], [f"task={task}"]))
    return {key: value for key, value in here.items() if usual.get(key) != value}


def _side(norm: str, runs: NormRuns, sign: int) -> Side:
    return Side(
        norm=norm,
        scores={seed: sign * value for seed, value in sorted(runs.scores.items())},
        diverged=len(runs.diverged),
        unlearned=len(runs.unlearned),
        failed=len(runs.failed),
    )


def _verdict(card: Card, column: Column, other: str, found: Evidence) -> Verdict:
    margin = preregistration().margin(column.task, "test")
    assert margin is not None, "of the columns that are chosen"
    read = pair(
        found, card.norm, other, margin=margin, paper=paper_gap(found, card.norm, other), goes_on=True
    )
    assert read is not None, "both norms are there"
    is_alike = other in alike_on(card, column.task)
    answer, remark = _answer(read, column, is_alike=is_alike)
    if card.observed is not None and other in card.observed.alike and not is_alike:
        remark = "; ".join(filter(None, [remark, _otherwise(column.task, card.norm, other)]))
    comparison = read.comparison
    planned = preregistration().stopping.planned
    closes = answer == "open" and column.scale != "smoke" and not is_alike and len(read.seeds) >= planned
    return Verdict(
        other=other,
        answer=answer,
        seeds=len(read.seeds),
        margin=margin,
        gap=sum(read.gaps) / len(read.gaps) if read.gaps else None,
        interval=None if comparison is None else tuple(comparison.interval),
        remark=remark,
        closing=lacking(read) if closes else "",
    )


def _otherwise(task: str, *norms: str) -> str:
    """Return which parameters a task sets of norms that compute the same elsewhere."""
    said = [
        f"{title(norm)} has {', '.join(f'{key} = {value}' for key, value in found.items())} on this task"
        for norm in norms
        if (found := _set_by(task, norm))
    ]
    return ", ".join(said)


def _answer(read: Pair, column: Column, *, is_alike: bool) -> tuple[Answer, str]:
    """Return what is said of a pair, and why if it is not what its numbers alone say."""
    if read.answer == "not run":
        return "not run", read.remark
    if column.scale == "smoke":
        return "open", read.remark
    if is_alike:  # on the probes; what differs here is chance, or outside of what the probes see
        return ("open" if read.answer in ("better", "worse") else "equivalent"), ALIKE
    planned = preregistration().stopping.planned
    if len(read.seeds) < planned and read.divergence_p is None:
        return "open", f"{len(read.seeds)} of {planned} planned seeds"
    return read.answer, read.remark
