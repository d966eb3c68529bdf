"""A scorecard as one HTML page that needs no other file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from adanorm.config.titles import title
from adanorm.scorecards.card import Card, Cost, Score, Verdict
from adanorm.scorecards.scores import SMOKE
from adanorm.scorecards.summary import (
    blind,
    ending,
    gradient_text,
    name,
    numbers,
    open_lines,
    side_text,
    verdicts_in_words,
)
from adanorm.verdicts.preregistration import preregistration

TEMPLATE = Path(__file__).with_name("page.html")
PLOT = 300.0  # width of the drawing of an interval
REACH = 4.0  # margins that it shows to either side, or as many as the interval has


def card_page(card: Card, others: Sequence[Card] = (), *, notice: str = "") -> str:
    """Return a scorecard as a page; the `others` are shown beside it, a `notice` before everything."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["coded"] = _coded
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        title=name(card.norm),
        notice=notice,
        cards=[_card(each) for each in (card, *others)],
    )


def _coded(text: str) -> Markup:
    """Return a text, escaped, with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _card(card: Card) -> dict[str, Any]:
    norms = [card.norm, *card.against]
    registered = preregistration()
    return {
        "title": name(card.norm),
        "anchor": card.identity,
        "headline": verdicts_in_words(card),
        "alike": [name(norm) for norm in card.observed.alike] if card.observed else [],
        "checks": card.checks,
        "norms": [name(norm) for norm in norms],
        "changes": [(change, found) for change, found in _changes(card, norms)],
        "costs": [_cost(cost) for cost in card.observed.costs] if card.observed else [],
        "gradients": _gradients(card, norms),
        "gradient_text": gradient_text(card) if card.gradients else "",
        "scores": [_score(found) for found in card.scores],
        "undecided": list(open_lines(card)),
        "ending": ending(card),
        "smoke": SMOKE if any(found.column.scale == "smoke" for found in card.scores) else "",
        "planned": registered.stopping.planned,
        "most": registered.stopping.most,
        "environment": _environment(card),
        "norm": card.norm,
    }


def _changes(card: Card, norms: Sequence[str]) -> list[tuple[str, list[str]]]:
    if card.observed is None:
        return []
    tolerance = card.observed.tolerance
    return [
        (change, [blind(found[norm], tolerance) for norm in norms])
        for change, found in card.observed.changes.items()
    ]


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "norm": name(cost.norm),
        "shape": f"{cost.rows:,} × {cost.features:,}",
        "forward": _ratio(cost.forward),
        "backward": _ratio(cost.backward),
        "kept": f"{cost.kept:,} B, LayerNorm {cost.kept_by_layernorm:,} B",
        "bar": min(100, round(25 * (cost.forward[1] + cost.backward[1]) / 2)),
    }


def _ratio(found: tuple[float, float, float]) -> str:
    return f"{found[1]:.2f} ({found[0]:.2f} to {found[2]:.2f})"


def _gradients(card: Card, norms: Sequence[str]) -> dict[str, Any] | None:
    if card.gradients is None:
        return None
    labels = card.gradients.labels
    return {
        "where": f"{title(card.gradients.task)} {card.gradients.scale}, {card.gradients.steps} updates",
        "columns": list(labels.values()),
        "rows": [
            (name(norm), [_number(card.gradients.norms.get(norm, {}).get(quantity)) for quantity in labels])
            for norm in norms
        ],
    }


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _score(found: Score) -> dict[str, Any]:
    return {
        "title": f"{found.title}, scale {found.column.scale}",
        "metric": f"{found.metric}{'' if found.higher_is_better else ', lower is better'}",
        "sides": [(name(side.norm), side_text(side), _seeds(side.scores)) for side in found.sides],
        "verdicts": [_verdict(verdict, found) for verdict in found.verdicts],
    }


def _seeds(scores: dict[int, float]) -> str:
    return ", ".join(f"seed {seed}: {value:.4g}" for seed, value in scores.items())


def _verdict(verdict: Verdict, found: Score) -> dict[str, Any]:
    return {
        "other": name(verdict.other),
        "answer": verdict.answer,
        "class": verdict.answer.replace(" ", "-"),
        "numbers": numbers(verdict, found),
        "remark": verdict.remark,
        "closing": verdict.closing,
        "plot": _plot(verdict) if found.column.scale != "smoke" else None,
    }


def _plot(verdict: Verdict) -> dict[str, Any] | None:
    """Return where margin, interval and gap lie in a drawing, by pixels from the left; None without them."""
    if verdict.gap is None or verdict.interval is None:
        return None
    reach = max(REACH * verdict.margin, *(1.1 * abs(end) for end in verdict.interval))

    def place(value: float) -> float:
        return round(PLOT / 2 * (1 + value / reach), 1)

    low, high = verdict.interval
    return {
        "width": PLOT,
        "zero": PLOT / 2,
        "margin": (place(-verdict.margin), place(verdict.margin)),
        "interval": (place(low), place(high)),
        "gap": place(verdict.gap),
    }


def _environment(card: Card) -> list[tuple[str, str]]:
    if card.observed is None:
        return []
    machine = card.observed.machine
    packages = ", ".join(f"{package} {version}" for package, version in machine.packages.items() if version)
    return [
        ("processor", machine.device),
        ("threads a run", str(machine.threads)),
        ("packages", packages),
        ("commit", f"{machine.commit}{', with changes' if machine.dirty else ''}"),
        ("norms, digest", card.identity),
    ]
