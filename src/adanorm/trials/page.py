"""The page of a trial: its answer in one sentence, and a row per bed."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from textwrap import fill
from types import MappingProxyType

from adanorm.config.titles import counted, listed, task_metric
from adanorm.reporting.text import markdown_table
from adanorm.trials.power import BedNoise, share_better
from adanorm.trials.reading import Reading, Row
from adanorm.trials.rules import Setting

WORDS = {
    "better": "{norm} is better than LayerNorm{where}: {lead}, all above zero.",
    "worse": "{norm} is worse than LayerNorm{where}: {lead}, all below zero.",
    "equivalent": "{norm} is as good as LayerNorm{where} (equivalent): {lead}, and any"
    " difference is smaller than one margin.",
    "open": "Open{where}: nobody can say yet whether {norm} is better or worse than LayerNorm;"
    " {lead}, on both sides of zero.",
}
LEADS = ("Bed", "Runs each", "Lead over LayerNorm", "Sign", "Size")
COSTS = ("Bed", "Tries", "Chosen", "Updates to its loss", "Time", "Memory")
HOW_TO_READ = (
    "Tries and chosen settings: LayerNorm's are in brackets. Updates: the norm's until it reaches"
    " LayerNorm's lowest validation loss, as a multiple of LayerNorm's own (- where half of the runs"
    " or more never do); in brackets, how many runs reach it. Time and memory: those of an update,"
    " as multiples of LayerNorm's."
)


def headline(reading: Reading, missing: str = "nothing has run") -> str:
    """Return the answer of a trial in one sentence, for somebody who knows no statistics.

    `missing` says what the first answer takes.
    """
    norm, verdict = reading.entrant.title, reading.verdict
    if verdict is None:
        return f"No answer on {norm} yet: {missing}."
    where = ""
    if len(reading.read) < len(reading.rows):
        beds = listed([row.bed.title for row in reading.read])
        count = counted(len(reading.rows), "bed")
        where = f" so far, on {beds} ({len(reading.read)} of {count})"
    if verdict.mean is not None:
        interval = verdict.decisive
        bounds = f"between {interval.low:+.2f} and {interval.high:+.2f}"
        lead = f"its mean lead is {verdict.mean:+.2f} margins, {bounds}"
        return WORDS[verdict.answer].format(norm=norm, where=where, lead=lead)
    reasons = []
    for bed, pair in reading.setbacks.items():
        remark = pair.remark.replace("norm ", f"{norm} ", 1)
        reasons.append(f"{reading.rows[bed].bed.title} ({remark})")
    if not reasons:
        return f"Open{where}: the scores of {norm} and LayerNorm do not vary."
    word = "is worse than LayerNorm" if verdict.answer == "worse" else "has no mean lead"
    return f"{norm} {word}{where}: runs broke on {listed(reasons)}."


def page(
    reading: Reading,
    *,
    missing: str = "",
    remarks: Sequence[str] = (),
    left_out: Mapping[str, str] = MappingProxyType({}),
    memory: Mapping[str, float] = MappingProxyType({}),
    beside: Sequence[Reading] = (),
) -> str:
    """Return the page of a trial in Markdown.

    `memory` is by bed, as a multiple of LayerNorm's. `beside` has the trials of the norm with
    other optimizers.
    """
    leads, costs = [], []
    for trial in (reading, *beside):
        for bed, row in trial.rows.items():
            if row.norm.tried or row.seeds:
                leads.append([bed_text(row), f"{row.look or row.seeds}", *lead_text(row)])
                costs.append([bed_text(row), *cost_text(row, memory.get(bed))])
    lines = [f"**{headline(reading, missing)}**", "", filled(explained(reading)), ""]
    if leads:
        lines += [*markdown_table(LEADS, leads), "", *markdown_table(COSTS, costs), ""]
        lines += [filled(HOW_TO_READ), ""]
    items = [*remarks]
    for bed, reason in left_out.items():
        items.append(f"{reading.rows[bed].bed.title} is left out: {reason}.")
    unread = []
    for bed, row in reading.rows.items():
        if bed not in left_out and not row.look:
            unread.append(row.bed.title)
    if unread:
        items.append(f"Not read yet: {listed(unread)}. The same command goes on with them.")
    power = can_show(reading)
    if power:
        items.append(power)
    first, second = reading.entrant.seeds(2)
    items += [
        f"The seeds {first}, {second} and so on follow from the norm's digest,"
        f" {reading.entrant.digest}: nobody chooses them.",
        "`adanorm contribute FOLDER` writes the runs into one file; merged, they are an entry of"
        " docs/arena.md.",
    ]
    lines += [filled(f"- {item}") for item in items]
    return "\n".join([*lines, ""])


def explained(reading: Reading) -> str:
    """Return what a margin is, and what the interval of the answer is."""
    margins = []
    for row in reading.rows.values():
        metric = task_metric(row.bed.task)
        margins.append(f"{row.bed.title} {row.bed.margin:g} ({metric.label})")
    text = f"A margin is the smallest difference that matters: {', '.join(margins)}."
    if reading.verdict is None or reading.verdict.mean is None:
        return text
    share = 90 if reading.answer == "equivalent" else 95
    return f"{text} In at least {share} of 100 trials the true lead lies between the two numbers."


def can_show(reading: Reading) -> str | None:
    """Return how often a trial of this size would find a norm that is half a margin better."""
    look, rules = reading.look, reading.rules
    beds = []
    for pair in reading.pairs.values():
        comparison = pair.comparison
        if comparison is None:
            return None
        margin = comparison.margin
        beds.append(BedNoise(comparison.sd / margin, comparison.example_error / margin))
    if look is None:
        return None
    half = share_better(rules, beds, 0.5, look)
    full = share_better(rules, beds, 1.0, look)
    last = rules.looks[-1]
    later = ""
    if look < last:
        later = f"; after {last} runs, half a margin in {share_better(rules, beds, 0.5, last):.0%}"
    return (
        f"What this can show: after {look} runs on {counted(len(beds), 'bed')}, a norm that is"
        f" truly half a margin better is found in {half:.0%} of trials, one that is a whole margin"
        f" better in {full:.0%}{later}. A norm that is no better is called better in at most"
        f" {rules.level:.0%}."
    )


def bed_text(row: Row) -> str:
    """Return the title of a bed, with the optimizer if it is not Adam."""
    if row.optimizer == "adam":
        return row.bed.title
    return f"{row.bed.title}, {row.optimizer.capitalize()}"


def lead_text(row: Row) -> list[str]:
    """Return the lead on a bed at its last look, its sign and its size."""
    if row.look is None:
        return ["-", "-", "-"]
    pair = row.pair(row.look)
    comparison = pair.comparison
    if comparison is None:
        return [pair.remark, "-", "-"]
    digits = comparison.digits
    lead = f"{comparison.gap:+.{digits}f} ({comparison.interval.text(digits)})"
    sign = "open" if comparison.sign == "not told apart" else comparison.sign
    size = comparison.size if comparison.size == "within the margin" else "open"
    return [lead, sign, size]


def cost_text(row: Row, memory: float | None) -> list[str]:
    """Return what the norm has tried and chosen on a bed, its speed, time and memory."""
    ours, theirs = (setting_text(side.chosen, row.entrant.tries) for side in row.sides)
    costs = [multiple_text(row.time), multiple_text(memory)]
    return [tries_text(row), f"{ours} ({theirs})", speed_text(row.speed), *costs]


def tries_text(row: Row) -> str:
    """Return how many settings the norm has tried, and in brackets how many LayerNorm has."""
    return f"{len(row.norm.tried)} ({len(row.reference.tried)})"


def multiple_text(value: float | None) -> str:
    """Return a multiple of LayerNorm's cost as text."""
    return "-" if value is None else f"× {value:.2f}"


def speed_text(shares: Sequence[float]) -> str:
    """Return the median share of LayerNorm's updates, and how many runs reach its loss."""
    if not shares:
        return "-"
    reached = sum(map(math.isfinite, shares))
    middle = median(shares)
    share = multiple_text(middle) if math.isfinite(middle) else "-"
    return f"{share} ({reached} of {len(shares)})"


def filled(text: str) -> str:
    """Return a paragraph, or an item of a list, in lines of a terminal's width."""
    indent = "  " if text.startswith("- ") else ""
    return fill(text, 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def setting_text(setting: Setting | None, parameter: str) -> str:
    """Return a setting as text, such as `lr 0.001, C 1.5`; `-` for none."""
    if setting is None:
        return "-"
    rate = f"lr {setting.rate:g}"
    return rate if setting.value is None else f"{rate}, {parameter} {setting.value:g}"
