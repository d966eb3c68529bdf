"""What the records say of a norm beside others, by the code that judges the studies."""

from __future__ import annotations

from adanorm.metrics.table import METRICS
from adanorm.reporting.names import title
from adanorm.reporting.verdicts.answers import Pair, pair, paper_gap
from adanorm.reporting.verdicts.evidence import Evidence, NormRuns
from adanorm.reporting.verdicts.preregistration import preregistration
from adanorm.reporting.verdicts.sentences import lacking
from adanorm.scorecards.card import Answer, Card, Column, Score, Side, Verdict

ALIKE = "computes the same"
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
    is_alike = card.observed is not None and other in card.observed.alike
    answer, remark = _answer(read, column, is_alike=is_alike)
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
