"""Compare anybody's scores, from a CSV file with the columns name, seed and score, and perhaps task.

Every two names of a task are compared over the seeds that both have: interval, sign, size within the margin
or not, p corrected over all pairs of the task (Holm). Names that share a letter are not told apart. Other
columns are not read; fields are separated by commas, semicolons or tabs.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from adanorm.cli.command import WIDTH, Arguments, Key, Usage, hanging
from adanorm.config.errors import check_known
from adanorm.config.titles import counted
from adanorm.reporting.tables.claims import shown_p
from adanorm.reporting.tables.league import mean_text, outlook
from adanorm.reporting.text import seeds
from adanorm.verdicts.all_pairs import Better, League, league
from adanorm.verdicts.comparison import Comparison
from adanorm.verdicts.task_league import league_by_plan, plan_names

LARGEST, MOST_ROWS, MOST_NAMES, LONGEST = 1 << 24, 100_000, 50, 200  # bytes, rows, names, characters of one
LARGEST_SCORE = 1e12
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

USAGE = Usage(
    name="FILE",
    fewest=1,
    most=1,
    keys={
        "margin": Key("the smallest difference that matters, in the unit of the scores; needed"),
        "better": Key("higher or lower", default="higher"),
        "against": Key("the name that the others are compared with (default: the first of the file)"),
        "task": Key("one task of the file (default: every one)"),
        "plan": Key("read the scores as the tables of this suite do: first, fresh or small (default: once)"),
    },
    examples=("scores.csv margin=0.5", "losses.csv margin=0.01 better=lower against=layernorm"),
)


class Entry(NamedTuple):
    """A score and the row of the file that has it; the header is row 1."""

    row: int
    score: float


Entries: TypeAlias = dict[str, dict[int, Entry]]  # name -> seed -> score


def main(arguments: Arguments) -> None:
    """Print the answers and the league of every task of a file."""
    given, (file,) = arguments.keys, arguments.names
    margin, task = given["margin"], given["task"]
    if not NUMBER.fullmatch(margin) or not 0 < float(margin) < LARGEST_SCORE:
        raise ValueError(f"margin={margin}: must be a number above 0, the smallest difference that matters")
    check_known("better", [given["better"]], ("higher", "lower"))
    check_known("plan", filter(None, [given["plan"]]), plan_names())
    by_task = read_scores(Path(file))
    if task and "" in by_task:
        raise ValueError(f"task={task}: {file} has no column task")
    check_known("task", filter(None, [task]), by_task)
    chosen = {name: entries for name, entries in by_task.items() if task in ("", name)}
    for lines in [_lines(file, *of_task, given) for of_task in chosen.items()]:  # all are checked first
        print("\n".join(lines))


def read_scores(path: Path) -> dict[str, Entries]:
    """Return the scores of a CSV file by task; raises ValueError naming the row and column that is wrong."""
    by_task: dict[str, Entries] = {}
    for row, fields in _rows(path):
        where = f"{path}, row {row}, column"
        for column, text in fields.items():
            if column in ("task", "name") and not (text.isprintable() and 0 < len(text) <= LONGEST):
                raise ValueError(f"{where} {column}: {text[:40]!r} is no name of 1 to {LONGEST} characters")
        seed, score = fields["seed"], fields["score"]
        if not (seed.isascii() and seed.isdecimal() and len(seed) <= 20):
            raise ValueError(f"{where} seed: {seed[:40]!r} is no whole number")
        if not NUMBER.fullmatch(score) or abs(float(score)) > LARGEST_SCORE:
            raise ValueError(f"{where} score: {score[:40]!r} is no number such as 75.8")
        of_name = by_task.setdefault(fields.get("task", ""), {}).setdefault(fields["name"], {})
        known = of_name.setdefault(int(seed), Entry(row, float(score))).row
        if known != row:
            raise ValueError(f"{where} seed: {seed} of {fields['name']} is there twice, first in row {known}")
    if not by_task:
        raise ValueError(f"{path}: has no row of scores")
    return by_task


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows below the header by their number, each with its fields by column."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path}: has more than {LARGEST:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, row {row}: not UTF-8") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    row, header = 0, list[str]()
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        for row, fields in enumerate(reader, 1):
            where, stripped = f"{path}, row {row}", [*map(str.strip, fields)]
            if row > MOST_ROWS:
                raise ValueError(f"{where}: more than {MOST_ROWS:,} rows")
            if not any(stripped):
                continue
            if not header:
                header = [*map(str.casefold, stripped)]
                if lacking := [column for column in ("name", "seed", "score") if header.count(column) != 1]:
                    named = ", ".join(header)[:LONGEST]
                    raise ValueError(f"{where}: needs one column {lacking[0]}, and has {named!r}")
            elif len(fields) != len(header):
                raise ValueError(f"{where}: {counted(len(fields), 'field')} below {len(header)} columns")
            else:
                yield row, dict(zip(header, stripped, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path}, row {row + 1}: {error}") from None


def _lines(file: str, task: str, entries: Entries, given: Mapping[str, str]) -> list[str]:
    """Return what the scores of a task say; raises ValueError where two names cannot be compared."""
    rows = {name: next(iter(of.values())).row for name, of in entries.items()}
    if not 2 <= len(entries) <= MOST_NAMES:
        what = f"{counted(len(entries), 'name')}, where 2 to {MOST_NAMES} are compared"
        raise ValueError(f"{file}, row {max(rows.values())}, column name: {what}")
    scores = {name: {seed: entry.score for seed, entry in of.items()} for name, of in entries.items()}
    base = given["against"] or next(iter(scores))
    check_known("name", [base], scores)
    better: Better = "higher" if given["better"] == "higher" else "lower"
    made = partial(league_by_plan, plan=given["plan"]) if given["plan"] else league
    table = made(scores, float(given["margin"]), better=better)
    for two, one in table.pairs.items():
        if one is None:
            raise ValueError(f"{file}, row {max(rows[n] for n in two)}, column {_lacking(table, *two)}")
    known = {name: one for name in table.scores if name != base and (one := table.comparison(name, base))}
    about = (
        f"{better} is better, margin {given['margin']}, p corrected for {counted(len(table.pairs), 'pair')}"
    )
    lines = [*hanging("", f"{task or file}: {about} (Holm)"), *_standings(table, known)]
    for name, one in known.items():
        lines += _answer(one, f"{name} over {base}", f"P({name} > {base}) = {table.chance(name, base):.2f}")
    every = set[int]().union(*scores.values())
    lacking = {name: every - {*of} for name, of in scores.items()}
    notes = [f"{name} lacks {seeds([of])}, which its pairs leave out." for name, of in lacking.items() if of]
    return [*lines, *(line for note in [outlook(table), *notes] for line in hanging("", note))]


def _lacking(table: League, first: str, second: str) -> str:
    """Return in which column two names have nothing to compare, and why."""
    shared = table.scores[first].keys() & table.scores[second].keys()
    fewest = table.looks.after[0] if table.looks else 2
    if len(shared) < fewest:
        return f"seed: {first} and {second} share {counted(len(shared), 'seed')}; {fewest} are compared"
    return f"score: {first} and {second} differ by the same with every shared seed: equal gaps tell no noise"


def _standings(table: League, known: Mapping[str, Comparison]) -> list[str]:
    """Return one row for each name: mean and deviation, seeds, letters; a long name has a line of its own."""
    digits = next(iter(known.values())).digits
    texts = {name: mean_text(of, digits) for name, of in table.scores.items()}
    longest = max(map(len, texts.values()))
    width, lines = min(max(map(len, texts)), WIDTH - longest - 20), list[str]()
    for name, text in texts.items():
        lines += hanging("  ", name) if len(name) > width else []
        label = "" if len(name) > width else name
        start = f"  {label:<{width}}  {text:>{longest}}  {len(table.scores[name]):>5}  "
        lines += hanging(start, table.letters[name])
    return lines


def _answer(one: Comparison, names: str, chance: str) -> list[str]:
    """Return the answer on two names in its parts, each with what decides it."""
    digits, ps = one.digits, f"p {shown_p(one.p)}, corrected {shown_p(one.family_p)}"
    return [
        *hanging("", f"{names}: {counted(one.seeds, 'seed')}, {chance}"),
        *hanging("  sign: ", f"{one.sign}, {one.gap:+.{digits}f}, 95 % {one.interval.text(digits)}, {ps}"),
        *hanging("  size: ", f"{one.size}, 90 % {one.margin_interval.text(digits)}"),
        f"  answer: {one.answer}",
    ]
