"""A scorecard as one HTML page that needs no other file, and as Markdown."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from jinja2 import Environment

from adanorm.config.paths import choices
from adanorm.config.titles import counted, task_metric, title
from adanorm.scorecards.columns import span
from adanorm.scorecards.observed import Cost
from adanorm.scorecards.trial import Card, Score, short
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import lacking, listed

FOLDER = Path(__file__).parent
WIDTH = 80  # columns of the summary
NEARLY = (
    1e-2  # an output that is not invariant moves by 0.1 or more; an eps moves it by less than this
)
SAME = "the same"  # the answer for norms that compute the same
ALIKE = "computes the same, so that only rounding differs"
SMOKE = "synthetic data, a run of seconds: it shows that the norm trains, and no more"


def summary(card: Card) -> str:
    """Return a scorecard as Markdown in lines of at most 80 columns."""
    lines = []
    for line in card_page(card, "summary.md").splitlines():
        indent = " " * len(re.match(" *(- )?", line)[0])  # type: ignore[index]
        lines += textwrap.wrap(
            line,
            WIDTH,
            subsequent_indent=indent,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join([*lines, ""])


def card_page(card: Card, template: str = "page.html") -> str:
    """Return a scorecard as a page, or rendered with another template of this folder."""
    trial, observed, scores = card.trial, card.observed, [*map(_score, card.scores)]
    norms, machine = [*map(_name, trial.norms)], observed.environment
    changes = {
        change: [_invariance(moves[norm], observed.tolerance) for norm in trial.norms]
        for change, moves in observed.changes.items()
    }
    pairs = ((score["title"], verdict) for score in scores for verdict in score["verdicts"])
    undecided = [
        f"{n}, beside {v['other']}: it would take {v['closing']}." for n, v in pairs if v["closing"]
    ]
    environment = Environment(
        autoescape=template.endswith(".html"), trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string((FOLDER / template).read_text("utf-8")).render(
        title=norms[0],
        verdicts=_headline(scores),
        alike=[*map(_name, observed.alike)],
        checks=card.checks,
        norms=norms,
        changes=[*changes.items()],
        costs=[{**_cost(cost), "is_own": cost.norm == trial.norm} for cost in observed.costs],
        scores=scores,
        undecided=[*undecided, *(f"Not run: {line}." for line in trial.not_run())],
        ending=f"Budget {span(trial.budget)}, spent {span(trial.spent)} on {machine['device']}: {card.ended}."
        f" Norms: {listed(trial.norms)}; digest {trial.identity}, commit {machine['commit']}."
        " adanorm contribute FOLDER writes its runs into one file that others can merge.",
        smoke=SMOKE if any(score.column.scale == "smoke" for score in card.scores) else "",
        stopping=preregistration().stopping,
    )


def _name(norm: str) -> str:
    """Return a norm's name in texts.

    For one from outside, its whole path if ours has the short name.
    """
    taken = ":" in norm and short(norm).lower() in choices("norm")
    return norm if taken else title(short(norm))


def _headline(scores: Sequence[dict[str, Any]]) -> str:
    """Return one sentence per other norm: each answer, and the tasks that have it."""
    answers: dict[str, dict[str, list[str]]] = {}
    for score in scores:
        for verdict in score["verdicts"]:
            by_answer = answers.setdefault(verdict["other"], {})
            by_answer.setdefault(verdict["answer"], []).append(
                score["title"].replace(", scale", "")
            )
    sentences = [
        f"Beside {other}: {'; '.join(f'{answer} on {listed(tasks)}' for answer, tasks in by_answer.items())}."
        for other, by_answer in answers.items()
    ]
    return " ".join(sentences) or "Nothing is judged yet."


def _invariance(move: float, tolerance: float) -> str:
    """Return whether an output that moves so far counts as invariant: yes, nearly or no."""
    return "yes" if move <= tolerance else f"nearly ({move:.0e})" if move <= NEARLY else "no"


def _cost(cost: Cost) -> dict[str, str]:
    passes = {"forward": cost.forward, "backward": cost.backward}
    return {
        "norm": _name(cost.norm),
        "shape": f"{cost.rows:,} × {cost.features:,}",
        "kept": f"{cost.kept:,} B, LayerNorm {cost.kept_by_layernorm:,} B",
        **{
            name: f"{median:.2f} ({low:.2f} to {high:.2f})"
            for name, (low, median, high) in passes.items()
        },
    }


def _score(score: Score) -> dict[str, Any]:
    metric, judged = (
        task_metric(score.column.task),
        score.pairs if score.column.scale != "smoke" else {},
    )
    return {
        "title": score.column.title,
        "metric": f"{metric.label}{'' if metric.higher_is_better else ', lower is better'}",
        "sides": [
            (_name(norm), f"{cell.text} ({len(cell.results)})") for norm, cell in score.runs.items()
        ],
        "verdicts": [
            _verdict(
                other,
                pair,
                is_same=other in score.alike,
            )
            for other, pair in judged.items()
        ],
    }


def _verdict(other: str, pair: Pair, *, is_same: bool) -> dict[str, str]:
    """Return the answer beside a norm, the interval that decides it, and what would close it."""
    if is_same:
        return {"other": _name(other), "answer": SAME, "why": ALIKE, "closing": ""}
    digits = pair.comparison.digits if pair.comparison else 2
    gap = (
        f"{fmean(pair.gaps) + 0.0:+.{digits}f}, {counted(len(pair.seeds), 'seed')}"
        if pair.gaps
        else ""
    )
    closes = pair.answer == "open" and len(pair.seeds) >= preregistration().stopping.planned
    why, closing = "; ".join(filter(None, [gap, pair.why])), lacking(pair) if closes else ""
    return {"other": _name(other), "answer": pair.answer, "why": why, "closing": closing}
