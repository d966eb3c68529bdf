"""The page of a trial: its answer in one sentence, and a row per bed."""

from collections.abc import Mapping, Sequence
from functools import partial

from adanorm.config.titles import counted, title
from adanorm.metrics.table import METRICS
from adanorm.reporting.text import markdown_table
from adanorm.trials.entrant import Entrant
from adanorm.trials.power import BedNoise, share_better
from adanorm.trials.reading import Reading, Row, Setting
from adanorm.trials.rules import Rules
from adanorm.verdicts.sentences import listed

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
        first = reading.rules.looks[0]
        return f"Nothing can be said of {norm} yet: no bed has {first} runs of it and of LayerNorm."
    where = where_text(reading)
    if setbacks := reading.setbacks(look):
        reasons = []
        for name, pair in setbacks.items():
            bed = reading.rules.beds[name].title
            reasons.append(f"{bed} ({pair.remark.replace('norm ', f'{norm} ', 1)})")
        word = "is worse than LayerNorm" if reading.answer == "worse" else "has no mean lead"
        return f"{norm} {word}{where}: runs broke on {listed(reasons)}."
    mean, interval = reading.mean(look), reading.interval(look)
    if mean is None or interval is None:
        return f"Open{where}: the scores of {norm} and LayerNorm do not vary."
    start = "Its mean lead" if reading.answer == "open" else "its mean lead"
    lead = f"{start} is {mean.value:+.2f} margins, between {interval.low:+.2f} and {interval.high:+.2f}"
    return WORDS[reading.answer].format(norm=norm, where=where, lead=lead)


def where_text(reading: Reading) -> str:
    """Return which beds an answer rests on if not on all, such as ` on RT, 1 of 3 beds`."""
    beds = [row.bed.title for row in reading.rows.values() if row.look]
    if reading.is_whole:
        return ""
    return f" so far, on {listed(beds)} ({len(beds)} of {counted(len(reading.rows), 'bed')})"


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
    for other in (reading, *beside):
        runs_of = [(bed, row) for bed, row in other.rows.items() if row.norm.tried or row.seeds]
        rows += [row_text(row, memory.get(bed)) for bed, row in runs_of]
    lines = [f"**{headline(reading)}**", "", *explained(reading), ""]
    lines += [*markdown_table(HEADER, rows), ""] if rows else []
    lines += [f"- Contract: {checks}."]
    lines += [f"- {rules.beds[bed].title} is left out: {why}." for bed, why in left_out.items()]
    missing = [row.bed.title for row in reading.rows.values() if not row.look]
    if missing:
        lines.append(f"- Without a first look: {listed(missing)}. A second start goes on.")
    lines += [f"- {line}" for line in can_show(reading)]
    lines.append(f"- Ended: {ended}. {seeds_text(entrant, rules)}")
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
        f"A margin is the smallest difference that matters: {', '.join(margins)}. The true lead lies"
        " between the two numbers in 95 of 100 trials."
    ]


def can_show(reading: Reading) -> list[str]:
    """Return how often a trial of this size would find a norm that is half a margin better."""
    look = reading.look
    rows = [row for row in reading.rows.values() if row.look]
    if look is None or reading.setbacks(look):
        return []
    beds = []
    for row in rows:
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
        f"What this can show: after {look} runs on {counted(len(beds), 'bed')}, a norm that is truly"
        f" half a margin better is found in {half:.0%} of trials, one that is a whole margin better in"
        f" {full:.0%}; after {rules.looks[-1]} runs, half a margin in {last:.0%}. A norm that is no"
        f" better is called better in at most {rules.level:.0%}."
    ]


def seeds_text(entrant: Entrant, rules: Rules) -> str:
    """Return the digest of a norm and the seeds that follow from it."""
    seeds = entrant.seeds(rules.looks[-1])
    return f"Digest {entrant.digest}: it fixes the seeds, {seeds[0]}, {seeds[1]} and on."


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
    ours, theirs = row.tries
    chosen = [setting_text(side.chosen) for side in (row.norm, row.reference)]
    cells += [f"{ours} ({theirs})", f"{chosen[0]} ({chosen[1]})"]
    share, reached, count = row.speed
    speed = "-" if not count else f"never in {count - reached} of {count}"
    cells.append(speed if share is None else f"× {share:.2f} ({reached} of {count} reach it)")
    cells.append("-" if row.seconds is None else f"× {row.seconds:.2f}")
    cells.append("-" if memory is None else f"× {memory:.2f}")
    return cells


def setting_text(setting: Setting | None) -> str:
    """Return a setting as text, such as `lr 0.001, C 1.5`; `-` for none."""
    if setting is None:
        return "-"
    rate, params = setting
    return ", ".join([f"lr {rate:g}", *(f"{name} {value}" for name, value in params)])
