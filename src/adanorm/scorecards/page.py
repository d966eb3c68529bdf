"""A scorecard as one HTML page that needs no other file, and as Markdown for the terminal and to paste."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from jinja2 import Environment

from adanorm.config.paths import choices
from adanorm.config.titles import counted, task_metric, title
from adanorm.scorecards.columns import Column, span
from adanorm.scorecards.cost import Cost
from adanorm.scorecards.observed import Observed
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import lacking, listed

FOLDER = Path(__file__).parent
WIDTH = 80  # columns of the summary
NEARLY = 1e-2  # what is not invariant moves by a tenth and more; an eps of its own, by less
SAME = "the same"  # in place of an answer, where norms compute the same
ALIKE = "computes the same, so that only rounding differs"
SMOKE = "synthetic data, a run of seconds: it shows that the norm trains, and no more"


class Score(NamedTuple):
    """The runs of a column by norm, and the norm beside each other norm; `alike` compute the same there."""

    column: Column
    runs: Mapping[str, Cell]
    pairs: Mapping[str, Pair]
    alike: Sequence[str]


class Card(NamedTuple):
    """A scorecard; `norm` and `against` are as they are named, `budget` and `spent` are seconds."""

    norm: str
    against: Sequence[str]
    identity: str  # digest of the norms' settings and code
    checks: Sequence[str]  # of the contract; all hold
    observed: Observed
    scores: Sequence[Score]
    not_run: Sequence[str]  # what the budget has no room for, or no data, and why
    budget: float
    spent: float
    ended: str  # why nothing more is run


def card_page(card: Card) -> str:
    """Return a scorecard as a page."""
    return _filled("page.html", card, autoescape=True)


def summary(card: Card) -> str:
    """Return a scorecard as Markdown in lines of at most 80 columns."""
    lines = []
    for line in _filled("summary.md", card, autoescape=False).splitlines():
        indent = " " * len(re.match(" *(- )?", line)[0])  # type: ignore[index]
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
    return "\n".join([*lines, ""])


def _filled(template: str, card: Card, *, autoescape: bool) -> str:
    """Return a template with what both show, in words."""
    observed, norms = card.observed, [card.norm, *card.against]
    scores, machine = [_score(score) for score in card.scores], observed.environment
    environment = Environment(autoescape=autoescape, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string((FOLDER / template).read_text("utf-8")).render(
        title=_name(card.norm),
        verdicts=_headline(scores),
        alike=[*map(_name, observed.alike)],
        checks=card.checks,
        norms=[*map(_name, norms)],
        changes=[
            (change, [_blind(moved[norm], observed.tolerance) for norm in norms])
            for change, moved in observed.changes.items()
        ],
        costs=[{**_cost(cost), "is_own": cost.norm == card.norm} for cost in observed.costs],
        scores=scores,
        undecided=[
            *(
                f"{score['title']}, beside {verdict['other']}: it would take {verdict['closing']}."
                for score in scores
                for verdict in score["verdicts"]
                if verdict["closing"]
            ),
            *(f"Not run: {line}." for line in card.not_run),
        ],
        ending=f"Budget {span(card.budget)}, spent {span(card.spent)} on {machine['device']}:"
        f" {card.ended}. Norms: {listed(norms)}; digest {card.identity}, commit {machine['commit']}.",
        smoke=SMOKE if any(score.column.scale == "smoke" for score in card.scores) else "",
        stopping=preregistration().stopping,
    )


def short(norm: str) -> str:
    """Return what a norm is called: MyNorm of my_norms:MyNorm."""
    return norm.rpartition(":")[2]


def _name(norm: str) -> str:
    """Return what a norm is called in a text; one from outside by its whole path if ours has that name."""
    taken = ":" in norm and short(norm).lower() in choices("norm")
    return norm if taken else title(short(norm))


def _headline(scores: Sequence[dict[str, Any]]) -> str:
    """Return the answers beside each other norm, and on which tasks."""
    answers: dict[str, dict[str, list[str]]] = {}
    for score in scores:
        for verdict in score["verdicts"]:
            by_answer = answers.setdefault(verdict["other"], {})
            by_answer.setdefault(verdict["answer"], []).append(score["title"].replace(", scale", ""))
    sentences = [
        f"Beside {other}: {'; '.join(f'{answer} on {listed(tasks)}' for answer, tasks in by_answer.items())}."
        for other, by_answer in answers.items()
    ]
    return " ".join(sentences) or "Nothing is judged yet."


def _blind(moved: float, tolerance: float) -> str:
    """Return whether an output that moves so far stays the same: yes, nearly, or no."""
    if moved <= tolerance:
        return "yes"
    return f"nearly ({moved:.0e})" if moved <= NEARLY else "no"


def _cost(cost: Cost) -> dict[str, str]:
    passes = {"forward": cost.forward, "backward": cost.backward}
    return {
        "norm": _name(cost.norm),
        "shape": f"{cost.rows:,} × {cost.features:,}",
        "kept": f"{cost.kept:,} B, LayerNorm {cost.kept_by_layernorm:,} B",
        **{name: f"{median:.2f} ({low:.2f} to {high:.2f})" for name, (low, median, high) in passes.items()},
    }


def _score(score: Score) -> dict[str, Any]:
    metric = task_metric(score.column.task)
    return {
        "title": score.column.title,
        "metric": f"{metric.label}{'' if metric.higher_is_better else ', lower is better'}",
        "sides": [(_name(norm), f"{cell.text} ({len(cell.results)})") for norm, cell in score.runs.items()],
        "verdicts": [
            _verdict(other, pair, is_same=other in score.alike)
            for other, pair in score.pairs.items()
            if score.column.scale != "smoke"
        ],
    }


def _verdict(other: str, pair: Pair, *, is_same: bool) -> dict[str, str]:
    """Return the answer beside another norm with the interval that decides it, and what would close it."""
    if is_same:
        return {"other": _name(other), "answer": SAME, "why": ALIKE, "closing": ""}
    digits = pair.comparison.digits if pair.comparison else 2
    numbers = (
        [f"{fmean(pair.gaps) + 0.0:+.{digits}f}, {counted(len(pair.seeds), 'seed')}"] if pair.gaps else []
    )
    closes = pair.answer == "open" and len(pair.seeds) >= preregistration().stopping.planned
    why = "; ".join(filter(None, [*numbers, pair.why]))
    return {
        "other": _name(other),
        "answer": pair.answer,
        "why": why,
        "closing": lacking(pair) if closes else "",
    }
