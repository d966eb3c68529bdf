"""The page of a trial: its answer in one sentence, and a row per bed."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from types import MappingProxyType

from adanorm.config.titles import counted, listed, title
from adanorm.metrics.table import METRICS
from adanorm.reporting.text import markdown_table
from adanorm.trials.power import BedNoise, share_better
from adanorm.trials.reading import Reading, Row, Setting
from adanorm.trials.rules import REFERENCE

WORDS = {
    "better": "{norm} is better than LayerNorm{where}: {lead}, all above zero.",
    "worse": "{norm} is worse than LayerNorm{where}: {lead}, all below zero.",
    "equivalent": "{norm} is as good as LayerNorm{where} (equivalent): {lead}, and any"
    " difference is smaller than one margin.",
    "open": "Open{where}: nobody can say yet whether {norm} is better or worse than LayerNorm;"
    " {lead}, on both sides of zero.",
}
HEADER = (
    "Bed", "Runs each", "Lead over LayerNorm", "Sign", "Size", "Tries (LayerNorm's)",
    "Chosen (LayerNorm's)", "Updates to LayerNorm's loss", "Time per update", "Memory per update",
)  # fmt: skip


def headline(reading: Reading) -> str:
    """Return the answer of a trial in one sentence, for somebody who knows no statistics."""
    norm, look = title(reading.entrant.name), reading.decided_at
    if look is None:
        return f"No answer on {norm} yet: {progress(reading)}."
    where = ""
    if len(reading.read) < len(reading.rows):
        beds = listed([row.bed.title for row in reading.read])
        count = counted(len(reading.rows), "bed")
        where = f" so far, on {beds} ({len(reading.read)} of {count})"
    mean = reading.verdict.mean
    if mean is not None:
        interval = reading.verdict.decisive
        bounds = f"between {interval.low:+.2f} and {interval.high:+.2f}"
        lead = f"its mean lead is {mean:+.2f} margins, {bounds}"
        return WORDS[reading.answer].format(norm=norm, where=where, lead=lead)
    reasons = []
    for row in reading.setbacks(look):
        remark = row.pair(look).remark.replace("norm ", f"{norm} ", 1)
        reasons.append(f"{row.bed.title} ({remark})")
    if not reasons:
        return f"Open{where}: the scores of {norm} and LayerNorm do not vary."
    word = "is worse than LayerNorm" if reading.answer == "worse" else "has no mean lead"
    return f"{norm} {word}{where}: runs broke on {listed(reasons)}."


def progress(reading: Reading) -> str:
    """Return how far the bed has come that is nearest to its first look."""
    first = reading.rules.looks[0]
    row = max(reading.rows.values(), key=lambda row: row.seeds)
    if row.seeds:
        so_far = f"{row.bed.title} has {row.seeds} of the first {first} runs of each"
        gaps = row.pair(first).gaps
        if not gaps:
            return so_far
        return f"{so_far}; it leads by {fmean(gaps) / row.bed.margin:+.2f} margins there"
    most = len(reading.rules.rates)
    row = max(reading.rows.values(), key=lambda row: len(row.norm.tried) + len(row.reference.tried))
    tries = [min(most, len(side.tried)) for side in row.sides]
    return (
        f"on {row.bed.title}, {tries[0]} of its {most} tries and {tries[1]} of LayerNorm's have"
        f" ended, and {first} runs of each follow them"
    )


def page(
    reading: Reading,
    *,
    remarks: Sequence[str] = (),
    left_out: Mapping[str, str] = MappingProxyType({}),
    memory: Mapping[str, float] = MappingProxyType({}),
    beside: Sequence[Reading] = (),
) -> str:
    """Return the page of a trial in Markdown.

    `memory` is by bed, as a multiple of LayerNorm's. `beside` has the trials of the norm with
    other optimizers.
    """
    rows = []
    for trial in (reading, *beside):
        for bed, row in trial.rows.items():
            if row.norm.tried or row.seeds:
                rows.append(row_text(row, memory.get(bed)))
    lines = [f"**{headline(reading)}**", "", explained(reading), ""]
    if rows:
        lines += [*markdown_table(HEADER, rows), ""]
    lines += [f"- {remark}" for remark in remarks]
    rules = reading.rules
    for bed, reason in left_out.items():
        lines.append(f"- {rules.beds[bed].title} is left out: {reason}.")
    unread = [row.bed.title for row in reading.rows.values() if not row.look]
    if unread:
        lines.append(f"- Not read yet: {listed(unread)}. A second start goes on.")
    power = can_show(reading)
    if power:
        lines.append(f"- {power}")
    first, second = reading.entrant.seeds(2)
    lines += [
        f"- Digest {reading.entrant.digest}: it fixes the seeds, {first}, {second} and on.",
        "- `adanorm contribute FOLDER` writes the runs into one file; merged, they are an entry of"
        " docs/arena.md.",
        "",
    ]
    return "\n".join(lines)


def explained(reading: Reading) -> str:
    """Return what a margin and the interval are."""
    margins = []
    for bed in reading.rules.beds.values():
        metric = METRICS[bed.experiment(REFERENCE, "adam").task.metric]
        margins.append(f"{bed.title} {bed.margin:g} ({metric.label})")
    share = 90 if reading.answer == "equivalent" else 95
    return (
        f"A margin is the smallest difference that matters: {', '.join(margins)}. In at least"
        f" {share} of 100 trials the true lead lies between the two numbers."
    )


def can_show(reading: Reading) -> str | None:
    """Return how often a trial of this size would find a norm that is half a margin better."""
    look, rules = reading.look, reading.rules
    if look is None:
        return None
    beds = []
    for row in reading.read:
        comparison = row.pair(look).comparison
        if comparison is None:
            return None
        scale = row.bed.margin
        beds.append(BedNoise(comparison.sd / scale, comparison.example_error / scale))
    so_far = rules.looks.index(look) + 1
    half = share_better(rules, beds, 0.5, so_far)
    full = share_better(rules, beds, 1.0, so_far)
    later = ""
    if so_far < len(rules.looks):
        last = share_better(rules, beds, 0.5, len(rules.looks))
        later = f"; after {rules.looks[-1]} runs, half a margin in {last:.0%}"
    return (
        f"What this can show: after {look} runs on {counted(len(beds), 'bed')}, a norm that is"
        f" truly half a margin better is found in {half:.0%} of trials, one that is a whole margin"
        f" better in {full:.0%}{later}. A norm that is no better is called better in at most"
        f" {rules.level:.0%}."
    )


def row_text(row: Row, memory: float | None = None) -> list[str]:
    """Return the cells of a bed's row."""
    name = row.bed.title
    if row.optimizer != "adam":
        name += f", {row.optimizer.capitalize()}"
    parameter = row.entrant.parameter[0] if row.entrant.parameter else ""
    tries = [f"{len(side.tried)}" for side in row.sides]
    chosen = [setting_text(side.chosen, parameter) for side in row.sides]
    return [
        name,
        f"{row.seeds}",
        *lead_text(row),
        beside_text(*tries),
        beside_text(*chosen),
        speed_text(row.speed),
        multiple_text(row.seconds),
        multiple_text(memory),
    ]


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
    return [lead, comparison.sign, comparison.size]


def beside_text(norm: str, reference: str) -> str:
    """Return what the norm has, with what LayerNorm has in brackets."""
    return f"{norm} ({reference})"


def multiple_text(value: float | None) -> str:
    """Return a multiple of LayerNorm's cost as text."""
    return "-" if value is None else f"× {value:.2f}"


def speed_text(shares: Sequence[float]) -> str:
    """Return the median share of LayerNorm's updates, and how many runs reach its loss."""
    if not shares:
        return "-"
    reached = sum(map(math.isfinite, shares))
    middle = median(shares)
    share = multiple_text(middle) if math.isfinite(middle) else "most never"
    return f"{share} ({reached} of {len(shares)} reach it)"


def setting_text(setting: Setting | None, parameter: str) -> str:
    """Return a setting as text, such as `lr 0.001, C 1.5`; `-` for none."""
    if setting is None:
        return "-"
    rate, params = setting
    value = dict(params).get(parameter)
    return f"lr {rate:g}" if value is None else f"lr {rate:g}, {parameter} {value:g}"
