"""A scorecard as Markdown in lines of at most 80 columns: for the terminal, and to paste."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from adanorm.config.paths import choices
from adanorm.config.titles import title
from adanorm.scorecards.card import Card, Cost, Score, Side, Verdict, short
from adanorm.scorecards.columns import span
from adanorm.scorecards.scores import SMOKE
from adanorm.verdicts.sentences import listed

WIDTH = 80
NEARLY = 1e-2  # what is not invariant moves by a tenth and more; an eps of its own, by less


def summary(card: Card) -> str:
    """Return the scorecard as Markdown."""
    lines = [f"# Scorecard of {name(card.norm)}", "", *wrapped(headline(card)), ""]
    lines += _bullet(f"Contract: {len(card.checks)} of {len(card.checks)} checks hold.")
    if card.observed:
        lines += [line for text in blindness(card) for line in _bullet(text)]
        lines += ["", "## Cost beside torch's LayerNorm", ""]
        lines += [line for cost in _own_costs(card) for line in _bullet(cost_text(cost))]
    if card.gradients and card.norm in card.gradients.norms:
        lines += ["", "## Gradients", "", *wrapped(gradient_text(card))]
    lines += ["", "## Scores", ""]
    for found in card.scores:
        lines += _bullet(score_text(found))
        for verdict in found.verdicts:
            lines += _bullet(verdict_text(card, verdict, found), indent="  ")
    if undecided := list(open_lines(card)):
        lines += ["", "## Not decided", ""]
        lines += [line for text in undecided for line in _bullet(text)]
    lines += ["", *wrapped(ending(card)), ""]
    return "\n".join(lines)


def headline(card: Card) -> str:
    """Return what was found, in a sentence or two."""
    if not (card.observed and card.observed.alike):
        return verdicts_in_words(card)
    alike = listed(name_all(card.observed.alike))
    return f"{name(card.norm)} computes what {alike} computes. {verdicts_in_words(card)}"


def verdicts_in_words(card: Card) -> str:
    """Return the answers beside each other norm, and on which tasks."""
    parts = []
    found = [(score, verdict) for score in card.scores for verdict in score.verdicts]
    for other in card.against:
        answers: dict[str, list[str]] = {}
        for score, verdict in found:
            if verdict.other == other:
                answers.setdefault(verdict.answer, []).append(f"{score.title} {score.column.scale}")
        said = [f"{answer} on {listed(places)}" for answer, places in answers.items()]
        if said:
            parts.append(f"Beside {name(other)}: {'; '.join(said)}.")
    if any(score.column.scale == "smoke" for score in card.scores):
        parts.append(f"Scale smoke is {SMOKE}.")
    return " ".join(parts) or "No scores yet."


def blindness(card: Card) -> list[str]:
    """Return what the norm's output does not change with, and what it changes with."""
    assert card.observed is not None, "asked where something was observed"
    found: dict[str, list[str]] = {"invariant": [], "nearly": [], "not": []}
    for change, norms in card.observed.changes.items():
        found[blind(norms[card.norm], card.observed.tolerance).partition(" ")[0]].append(change)
    words = {
        "invariant": "Invariant to",
        "nearly": "But for what an eps does, invariant to",
        "not": "Not invariant to",
    }
    return [f"{words[answer]}: {listed(changes)}." for answer, changes in found.items() if changes]


def blind(moved: float, tolerance: float) -> str:
    """Return whether an output that moves so far stays the same: invariant, nearly, or not."""
    if moved <= tolerance:
        return "invariant"
    return f"nearly ({moved:.0e})" if moved <= NEARLY else "not"


def cost_text(cost: Cost) -> str:
    """Return what a norm costs at a shape, in words."""
    forward, backward = (f"{ratio[1]:.2f} ({ratio[0]:.2f} to {ratio[2]:.2f})"
                         for ratio in (cost.forward, cost.backward))  # fmt: skip
    return (
        f"({cost.rows}, {cost.features}): forward {forward} times, backward {backward} times; keeps"
        f" {cost.kept:,} bytes a row, LayerNorm {cost.kept_by_layernorm:,}"
    )


def _own_costs(card: Card) -> Iterator[Cost]:
    assert card.observed is not None, "asked where something was observed"
    yield from (cost for cost in card.observed.costs if cost.norm == card.norm)


def gradient_text(card: Card) -> str:
    """Return by what the norm multiplies the variance of the gradient, beside the others."""
    assert card.gradients is not None, "asked where something was observed"
    said = []
    for norm, found in card.gradients.norms.items():
        before, after = (found.get(f"variance_{place}") for place in ("before", "after"))
        if before is not None and after:
            said.append(f"{name(norm)} by {before / after:.3g}")
    where = f"{title(card.gradients.task)} {card.gradients.scale}, {card.gradients.steps} updates"
    return f"On its way back through a norm ({where}) the gradient's variance is multiplied: {listed(said)}."


def score_text(found: Score) -> str:
    """Return a column's scores in words."""
    direction = "" if found.higher_is_better else ", lower is better"
    sides = "; ".join(f"{name(side.norm)} {side_text(side)}" for side in found.sides)
    return f"**{found.title}, scale {found.column.scale}** ({found.metric}{direction}): {sides}"


def side_text(side: Side) -> str:
    """Return a norm's mean over seeds, its standard deviation, and what has no score."""
    scores = list(side.scores.values())
    parts = []
    if scores:
        spread = f" ± {stdev(scores):.{_digits(fmean(scores))}f}" if len(scores) > 1 else ""
        parts.append(f"{fmean(scores):.{_digits(fmean(scores))}f}{spread} ({len(scores)})")
    for word, number in (
        ("diverged", side.diverged),
        ("learned nothing", side.unlearned),
        ("failed", side.failed),
    ):
        parts += [f"{number} {word}"] if number else []
    return ", ".join(parts) or "no runs"


def _digits(value: float) -> int:
    return 2 if abs(value) >= 10 else 3


def verdict_text(card: Card, verdict: Verdict, found: Score) -> str:
    """Return a verdict in words: the answer, the gap and its interval."""
    detail = "; ".join(filter(None, [numbers(verdict, found), verdict.remark]))
    return f"beside {name(verdict.other)}: **{verdict.answer}**{f' ({detail})' if detail else ''}"


def numbers(verdict: Verdict, found: Score) -> str:
    """Return the gap, its interval and its margin; nothing without shared seeds."""
    if verdict.gap is None:
        return ""
    digits = max(2, 1 - math.floor(math.log10(verdict.margin)))
    seeds = f"{verdict.seeds} {'seed' if verdict.seeds == 1 else 'seeds'}"
    if verdict.interval is None or found.column.scale == "smoke":
        return f"{verdict.gap + 0.0:+.{digits}f}, {seeds}"
    low, high = verdict.interval
    return (
        f"{verdict.gap + 0.0:+.{digits}f}, interval {low + 0.0:+.{digits}f} to {high + 0.0:+.{digits}f},"
        f" {seeds}, margin {verdict.margin:g}"
    )


def open_lines(card: Card) -> Iterator[str]:
    """Yield what could not be decided and what that would cost."""
    for found in card.scores:
        for verdict in found.verdicts:
            if verdict.closing:
                where = f"{found.title} {found.column.scale}, beside {name(verdict.other)}"
                yield f"{where}: it would take {verdict.closing}."
    yield from (f"Not run: {line}." for line in (*card.lacking, *card.left_out))


def ending(card: Card) -> str:
    """Return what was spent of the budget, on what, and why it ended."""
    place = card.observed.machine.device if card.observed else "this machine"
    budget, spent = span(card.budget), span(card.spent)
    return (
        f"Budget {budget}, spent {spent} on {place}: {card.ended}."
        f" Norms: {listed([card.norm, *card.against])}; digest {card.identity}."
    )


def name(norm: str) -> str:
    """Return what a norm is called in a text; one from outside by its whole path if ours has that name."""
    own = short(norm)
    taken = ":" in norm and own.lower() in {title(other).lower() for other in choices("norm")}
    return norm if taken else title(own)


def name_all(norms: Sequence[str]) -> list[str]:
    """Return what norms are called."""
    return [name(norm) for norm in norms]


def wrapped(text: str) -> list[str]:
    """Return a paragraph in lines."""
    return textwrap.wrap(text, WIDTH, break_on_hyphens=False)


def _bullet(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{indent}- ", subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
