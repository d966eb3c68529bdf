"""Text for each kind of file; names come from users' YAML, so every printed name is escaped."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from adanorm.config.titles import counted, listed
from adanorm.stats.conjunction import League

LATEX = str.maketrans({
    "\\": r"\textbackslash{}",
    "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "±": r"$\pm$",
    "†": r"$^\dagger$", "·": r"\quad",
})  # fmt: skip


def markdown(text: str) -> str:
    """Return a text escaped for Markdown: it starts no mark-up, HTML, link or table column."""
    return re.sub(
        r"[\\`*|]|(?<=\])[(\[]",
        r"\\\g<0>",
        text,
    ).replace("<", "&lt;")


def plain(text: str) -> str:
    """Return a Markdown text without escapes, emphasis and code marks.

    The reverse of `markdown`.
    """
    return re.sub(
        r"\\(.)|[*`]",
        r"\1",
        text,
    ).replace("&lt;", "<")


def latex(text: str) -> str:
    """Return a text escaped for LaTeX."""
    return text.translate(LATEX)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table; the fields must be Markdown already."""
    return [f"| {' | '.join(fields)} |" for fields in (header, ["---"] * len(header), *rows)]


def table_block(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table as one block of a page."""
    return "\n".join(markdown_table(header, rows))


def page(blocks: Iterable[str]) -> str:
    """Return a page of Markdown; an empty line parts its blocks."""
    return "\n\n".join(blocks) + "\n"


@cache
def how_to_read(part: str) -> str:
    """Return a section of how-to-read.md, such as `Claims`, as one paragraph of Markdown."""
    page = Path(__file__).with_name("how-to-read.md").read_text("utf-8")
    return " ".join(page.partition(f"## {part}\n")[2].partition("\n## ")[0].split())


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV; no field can be taken for a formula by a spreadsheet."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(
        [header, *(map(_no_formula, row) for row in rows)]
    )
    return file.getvalue()


def p_text(p: float | None) -> str:
    """Return a p as text, `< .001` if it is smaller than that, `-` if there is none."""
    if p is None:
        return "-"
    return "< .001" if p < 0.001 else f"{p:.3f}"


def _no_formula(field: object) -> str:
    text = str(field)
    is_number = re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", text)
    return (
        f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) and not is_number else text
    )


def seeds(by_row: Iterable[Iterable[int]]) -> str:
    """Return the seeds of several rows in words, such as `3 to 29 of the seeds 1 to 29`."""
    rows = [row for row in map(set, by_row) if row]
    every = sorted(set().union(*rows))
    if not every:
        return "no seeds"
    names = ", ".join(map(str, every))
    first = every[0]
    last = every[-1]
    if len(every) > 2 and len(every) == last - first + 1:
        names = f"{first} to {last}"
    counts = sorted(map(len, rows))
    if counts[0] == len(every):
        return f"seed {names}" if len(every) == 1 else f"seeds {names}"
    fewest_and_most = dict.fromkeys([counts[0], counts[-1]])
    return f"{' to '.join(map(str, fewest_and_most))} of the seeds {names}"


def outlook(league: League, label: Callable[[str], str] = str) -> str:
    """Return how many pairs are told apart, and which the next look or seed would add."""
    told_apart = f"{len(league.told_apart)} of {counted(len(league.pairs), 'pair')}"
    if len(league.told_apart) == len(league.pairs):
        return f"Told apart: {told_apart}."
    when = "the next look" if league.looks else "one more seed of each"
    pairs = [f"{label(first)} from {label(second)}" for first, second in league.next_told_apart]
    names = listed(pairs) or "no more"
    return f"Told apart: {told_apart}; {when}, with these means and deviations, would tell apart {names}."
