"""The page of a trial: its answer in one sentence, and a row per bed."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean, median

from adanorm.config.titles import counted, listed, title
from adanorm.metrics.table import METRICS
from adanorm.reporting.text import markdown_table
from adanorm.trials.power import BedNoise, share_better
from adanorm.trials.reading import Reading, Row, Setting

WORDS = {
    "better": "{norm} is better than LayerNorm{where}: {lead}, all above zero.",
    "worse": "{norm} is worse than LayerNorm{where}: {lead}, all below zero.",
    "equivalent": "{norm} is as good as LayerNorm{where} (equivalent): {lead}, and any"
    " difference is smaller than one margin.",
    "open": "Open{where}: nobody can say yet whether {norm} is better or worse than LayerNorm."
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
        return f"Nothing can be said of {norm} yet: {progress(reading)}."
    where = ""
    if not reading.is_whole:
        beds = listed([row.bed.title for row in reading.read])
        count = counted(len(reading.rows), "bed")
        where = f" so far, on {beds} ({len(reading.read)} of {count})"
    setbacks = reading.setbacks(look)
    if setbacks:
        reasons = []
        for row in setbacks:
            remark = row.pair(look).remark.replace("norm ", f"{norm} ", 1)
            reasons.append(f"{row.bed.title} ({remark})")
        word = "is worse than LayerNorm" if reading.answer == "worse" else "has no mean lead"
        return f"{norm} {word}{where}: runs broke on {listed(reasons)}."
    mean, interval = reading.mean(look), reading.interval(look)
    if mean is None or interval is None:
        return f"Open{where}: the scores of {norm} and LayerNorm do not vary."
    its = "Its" if reading.answer == "open" else "its"
    bounds = f"between {interval.low:+.2f} and {interval.high:+.2f}"
    lead = f"{its} mean lead is {mean.value:+.2f} margins, {bounds}"
    return WORDS[reading.answer].format(norm=norm, where=where, lead=lead)


def progress(reading: Reading) -> str:
    """Return how far the bed has come that is nearest to its first look."""
    first = reading.rules.looks[0]
    row = max(reading.rows.values(), key=lambda row: row.seeds)
    if not row.seeds:
        return f"no bed has {first} runs of it and of LayerNorm"
    gaps = row.pair(first).gaps
    so_far = f"; it leads by {fmean(gaps) / row.bed.margin:+.2f} margins there" if gaps else ""
    return f"{row.bed.title} has {row.seeds} of the first {first} runs of each{so_far}"


def page(
    reading: Reading,
    *,
    ended: str,
    checks: str,
    left_out: Mapping[str, str],
    memory: Mapping[str, float],
    beside: Sequence[Reading] = (),
) -> str:
    """Return the page of a trial in Markdown.

    `memory` is by bed, as a multiple of LayerNorm's. `beside` has the trials of the norm with
    other optimizers.
    """
    entrant, rules = reading.entrant, reading.rules
    rows = []
    for trial in (reading, *beside):
        for bed, row in trial.rows.items():
            if row.norm.tried or row.seeds:
                rows.append(row_text(row, memory.get(bed)))
    lines = [f"**{headline(reading)}**", "", *explained(reading), ""]
    lines += [*markdown_table(HEADER, rows), ""] if rows else []
    lines += [f"- Contract: {checks}."]
    lines += [f"- {rules.beds[bed].title} is left out: {why}." for bed, why in left_out.items()]
    missing = [row.bed.title for row in reading.rows.values() if not row.look]
    if missing:
        lines.append(f"- Not read yet: {listed(missing)}. A second start goes on.")
    lines += [f"- {line}" for line in can_show(reading)]
    seeds = entrant.seeds(2)
    which = f"it fixes the seeds, {seeds[0]}, {seeds[1]} and on"
    lines.append(f"- Ended: {ended}. Digest {entrant.digest}: {which}.")
    lines.append(
        "- `adanorm contribute FOLDER` writes the runs into one file; merged, they are an entry of"
        " docs/arena.md."
    )
    return "\n".join([*lines, ""])


def explained(reading: Reading) -> list[str]:
    """Return what a margin and the interval are."""
    margins = []
    for bed in reading.rules.beds.values():
        metric = METRICS[bed.experiment("layernorm", "adam").task.metric]
        margins.append(f"{bed.title} {bed.margin:g} ({metric.label})")
    return [
        f"A margin is the smallest difference that matters: {', '.join(margins)}. The true lead"
        " lies between the two numbers in 95 of 100 trials."
    ]


def can_show(reading: Reading) -> list[str]:
    """Return how often a trial of this size would find a norm that is half a margin better."""
    look = reading.look
    if look is None or reading.setbacks(look):
        return []
    beds = []
    for row in reading.read:
        comparison = row.pair(look).comparison
        if comparison is None:
            return []
        scale = row.bed.margin
        beds.append(BedNoise(comparison.sd / scale, comparison.example_error / scale))
    rules = reading.rules
    shares = partial(share_better, rules, beds, looks=rules.looks.index(look) + 1)
    half, full = shares(0.5), shares(1.0)
    last = share_better(rules, beds, 0.5, len(rules.looks))
    return [
        f"What this can show: after {look} runs on {counted(len(beds), 'bed')}, a norm that is"
        f" truly half a margin better is found in {half:.0%} of trials, one that is a whole margin"
        f" better in {full:.0%}; after {rules.looks[-1]} runs, half a margin in {last:.0%}. A norm"
        f" that is no better is called better in at most {rules.level:.0%}."
    ]


def row_text(row: Row, memory: float | None = None) -> list[str]:
    """Return the cells of a bed's row."""
    optimizer = "" if row.optimizer == "adam" else f", {row.optimizer.capitalize()}"
    cells = [f"{row.bed.title}{optimizer}", f"{row.seeds}"]
    comparison = row.pair(row.look).comparison if row.look else None
    if comparison is not None:
        digits = comparison.digits
        interval = comparison.interval.text(digits)
        cells += [f"{comparison.gap:+.{digits}f} ({interval})", comparison.sign, comparison.size]
    else:
        cells += ["-" if row.look is None else row.pair(row.look).remark, "-", "-"]
    sides = row.norm, row.reference
    tries = [len(side.tried) for side in sides]
    parameter = row.entrant.parameter[0] if row.entrant.parameter else ""
    chosen = [setting_text(side.chosen, parameter) for side in sides]
    cells += [f"{tries[0]} ({tries[1]})", f"{chosen[0]} ({chosen[1]})", speed_text(row.speed)]
    cells.append("-" if row.seconds is None else f"× {row.seconds:.2f}")
    cells.append("-" if memory is None else f"× {memory:.2f}")
    return cells


def speed_text(shares: Sequence[float]) -> str:
    """Return the median share of LayerNorm's updates, and how many runs reach its loss."""
    if not shares:
        return "-"
    reached = sum(map(math.isfinite, shares))
    middle = median(shares)
    share = f"× {middle:.2f}" if math.isfinite(middle) else "most never"
    return f"{share} ({reached} of {len(shares)} reach it)"


def setting_text(setting: Setting | None, parameter: str) -> str:
    """Return a setting as text, such as `lr 0.001, C 1.5`; `-` for none."""
    if setting is None:
        return "-"
    rate, params = setting
    value = dict(params).get(parameter)
    return f"lr {rate:g}" if value is None else f"lr {rate:g}, {parameter} {value:g}"
