"""The league of a file of scores for programs, as JSON (verdict.schema.json), and as a figure, in SVG."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from adanorm.config.titles import mean_and_deviation
from adanorm.files import Values
from adanorm.stats.comparison import ASSUMPTIONS, Comparison, digits_for
from adanorm.stats.conjunction import League, Two
from adanorm.stats.designs import Moments
from adanorm.stats.sequential import Levels, Looks

SCHEMA = 1  # version of verdict.schema.json
TESTS = {
    "paired": "Student's t of the differences",
    "independent": "Welch's t",
    "partly paired": "partially overlapping t (Derrick et al. 2017)",
}
HEADING = "95 and 90 % intervals; band: within the margin"
LEFT, RIGHT, ROW = 200, 480, 22  # of the figure, in pixels


class FileLeague(NamedTuple):
    """The league of a task of a file, and why some pairs are left out of it.

    The scores of `league` are times `sign`, so that larger is better.
    """

    task: str
    base: str
    margin: float
    sign: int
    league: League
    left_out: Mapping[Two, str]

    def with_base(self, name: str) -> Comparison | None:
        """Return the comparison of a name with the base; None if it is left out."""
        return self.league.comparison(name, self.base)


def seeds_to_show(
    pair: Comparison | None, keys: Mapping[str, str], looks: Looks | None
) -> dict[str, int | None]:
    """Return how many seeds of each name show the difference of detect=, and equivalence.

    By the noise of the pair, or by deviation= for independent groups. None: more than 2,000.
    """
    effect = float(keys["detect"])
    if keys["deviation"] or pair is None:
        variance = float(keys["deviation"]) ** 2
        moments = Moments((variance, variance), (2, 2))
        pair = Comparison(0.0, 1.0, 2.0, 2, effect, Levels(0.05, 0.1), moments=moments)
    return {
        "difference": pair.seeds_to_show(effect, "difference", looks),
        "equivalence": pair.seeds_to_show(float(keys["margin"] or effect), "equivalence", looks),
    }


def as_json(leagues: Sequence[FileLeague], keys: Mapping[str, str], looks: Looks | None) -> Values:
    """Return the answers on every pair of every task as values for JSON, by verdict.schema.json."""
    tasks = []
    for entry in leagues:
        ranked = entry.league
        names = []
        for name, by_seed in ranked.scores.items():
            scores = [entry.sign * score for score in by_seed.values()]
            mean, deviation = mean_and_deviation(scores)
            facts = {"name": name, "mean": mean, "deviation": deviation, "scores": len(scores)}
            names.append(facts | {"groups": ranked.letters[name]})
        pairs = []
        for first, second in ranked.pairs:
            two = (second, first) if first == entry.base else (first, second)
            pair = ranked.comparison(*two)
            if pair is not None:
                pairs.append(_pair(entry, *two, pair))
                if keys["detect"]:
                    pairs[-1]["seeds_needed"] = seeds_to_show(pair, keys, ranked.looks)
        left_out = []
        for (first, second), reason in entry.left_out.items():
            left_out.append({"first": first, "second": second, "reason": reason})
        facts = {"task": entry.task, "against": entry.base, "names": names}
        tasks.append(facts | {"pairs": pairs, "left_out": left_out})
    plan: Any = keys["plan"] or None
    if looks:
        plan = {"looks": [*looks.after], "spending": looks.spending}
    return {
        "schema": SCHEMA,
        "better": keys["better"],
        "margin": leagues[0].margin,
        "level": 0.05,
        "plan": plan,
        "assumptions": [*ASSUMPTIONS],
        "tasks": tasks,
        "gate": None,
    }


def _pair(entry: FileLeague, first: str, second: str, pair: Comparison) -> Values:
    moments = pair.moments
    sizes = moments.sizes if moments else (pair.seeds, pair.seeds)
    shared = moments.shared if moments else pair.seeds
    return {
        "first": first,
        "second": second,
        "answer": pair.answer,
        "sign": pair.sign,
        "size": pair.size,
        "effect": pair.gap + 0.0,
        "interval": [bound + 0.0 for bound in pair.interval],
        "margin_interval": [bound + 0.0 for bound in pair.margin_interval],
        "p": pair.p,
        "corrected_p": pair.family_p,
        "df": pair.df,
        "method": pair.design,
        "test": TESTS[pair.design],
        "seeds": {"first": sizes[0], "second": sizes[1], "shared": shared},
        "levels": {"difference": pair.levels.difference, "equivalence": pair.levels.equivalence},
        "examples": pair.examples,
        "example_error": pair.example_error,
        "chance": entry.league.chance(first, second),
        "luck": entry.league.luck(first, second),
        "seeds_needed": None,
    }


def as_svg(leagues: Sequence[FileLeague]) -> str:
    """Return a figure: each name's lead over the base, both intervals, its groups and the margin."""
    parts = []
    top = 0.0
    for entry in leagues:
        drawn, height = _panel(entry, top)
        parts += drawn
        top += height
    width = LEFT + RIGHT + 80
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top:.0f}" width="{width}"'
    )
    style = 'font-family="sans-serif" font-size="12" stroke="none" fill="#222"'
    background = f'<rect width="{width}" height="{top:.0f}" fill="#fff"/>'
    return "\n".join([f"{start} {style}>", background, *parts, "</svg>", ""])


def is_league(path: Path) -> bool:
    """Return whether a file is a figure that `as_svg` has drawn."""
    return HEADING.encode() in path.read_bytes()


def _panel(entry: FileLeague, top: float) -> tuple[list[str], float]:
    """Return the parts of a task's panel that begins at `top`, and its height in pixels."""
    names = [*entry.league.scores]
    margin = entry.margin
    pairs = {name: entry.with_base(name) for name in names if name != entry.base}
    bounds = [-margin, margin]
    for pair in pairs.values():
        if pair:
            bounds += [*pair.interval]
    low = min(bounds)
    high = max(bounds)
    digits = digits_for(margin)

    def at(value: float) -> str:
        return f"{LEFT + RIGHT * (value - low) / (high - low):.1f}"

    bottom = top + 40 + ROW * len(names)
    band = float(at(margin)) - float(at(-margin))
    heading = f"{entry.task}: lead" if entry.task else "lead"
    heading = f"{heading} over {entry.base}, {HEADING}"
    drawn = [
        f'<text x="8" y="{top + 18:.0f}" font-weight="bold">{escape(heading, quote=False)}</text>',
        f'<rect x="{at(-margin)}" y="{top + 28:.0f}" width="{band:.1f}"'
        f' height="{bottom - top - 28:.0f}" fill="#e4eef8"/>',
        _line(at(0.0), at(0.0), top + 28, bottom, 1),
    ]
    for row, name in enumerate(names):
        y = top + 44 + ROW * row
        drawn.append(f'<text x="8" y="{y + 4:.0f}">{escape(name[:28], quote=False)}</text>')
        letters = entry.league.letters[name]
        drawn.append(f'<text x="{LEFT + RIGHT + 12}" y="{y + 4:.0f}">{letters}</text>')
        pair = pairs.get(name)
        lead = 0.0
        if pair:
            lead = pair.gap
            for interval, line_width in ((pair.interval, 1), (pair.margin_interval, 4)):
                drawn.append(_line(at(interval.low), at(interval.high), y, y, line_width))
        if pair or name == entry.base:
            drawn.append(f'<circle cx="{at(lead)}" cy="{y:.0f}" r="4"/>')
    for value in (low, 0.0, high):
        text = f"{value:+z.{digits}f}"
        drawn.append(
            f'<text x="{at(value)}" y="{bottom + 16:.0f}" text-anchor="middle">{text}</text>'
        )
    return drawn, bottom + 28 - top


def _line(x: str, end: str, y: float, y_end: float, width: int) -> str:
    ends = f'x1="{x}" x2="{end}" y1="{y:.0f}" y2="{y_end:.0f}"'
    return f'<line {ends} stroke="#222" stroke-width="{width}"/>'
