"""Compare scores of any origin, from a CSV file with the columns name, seed, score and optionally task.

Every two names of a task are compared over the seeds that both have: the difference with its
interval, its sign, and whether it lies within the margin. p is corrected over all pairs of the task
(Holm). Names that share a letter are not told apart. Commas, semicolons or tabs separate fields;
other columns are ignored.
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from adanorm.cli.command import Arguments, Key, Usage, hanging
from adanorm.config.errors import check_known
from adanorm.config.titles import counted
from adanorm.metrics.table import mean_text
from adanorm.reporting.tables.league import outlook
from adanorm.reporting.text import p_text, seeds
from adanorm.stats.conjunction import League, league
from adanorm.stats.variance import Scores
from adanorm.verdicts.task_league import league_by_plan, plan_for_scores, plan_names

NEEDED = ("name", "seed", "score")
LARGEST, MOST_NAMES, LONGEST, MOST = (
    1 << 21,
    50,
    40,
    1e9,
)  # bytes, names, characters of one, a score
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
Rows: TypeAlias = dict[
    tuple[str, str, int], int
]  # the row of each task, name and seed; the header is row 1

USAGE = Usage(
    name="FILE",
    keys={
        "margin": Key("required: the smallest difference that matters, in the unit of the scores"),
        "better": Key("higher or lower", default="higher"),
        "against": Key(
            "the name that the others are compared with (default: the first of the file)"
        ),
        "task": Key("one task of the file (default: all)"),
        "plan": Key(
            "first, fresh or small: a plan of this suite with looks (default: read all scores once)"
        ),
    },
    examples=("scores.csv margin=0.5", "losses.csv margin=0.01 better=lower against=layernorm"),
)


def main(arguments: Arguments) -> None:
    """Print the answers and the league of every task of a file."""
    keys, (file,) = arguments.keys, arguments.names
    margin, task = keys["margin"], keys["task"]
    if not NUMBER.fullmatch(margin) or not 0 < float(margin) < MOST:
        raise ValueError(
            f"margin={margin}: must be a number above 0, the smallest difference that matters"
        )
    check_known(
        "better",
        [keys["better"]],
        ("higher", "lower"),
    )
    check_known(
        "plan",
        filter(None, [keys["plan"]]),
        plan_names(),
    )
    by_task, rows = read_scores(Path(file))
    if task and "" in by_task:
        raise ValueError(f"task={task}: {file} has no column task")
    check_known("task", filter(None, [task]), by_task)
    tasks = [name for name in by_task if task in ("", name)]
    for lines in [
        _lines(
            file,
            name,
            by_task[name],
            rows,
            keys,
        )
        for name in tasks
    ]:  # all are checked first
        print("\n".join(lines))


def read_scores(path: Path) -> tuple[dict[str, dict[str, dict[int, float]]], Rows]:
    """Return a CSV file's scores by task, name and seed, and the row of each.

    ValueError for a wrong row.
    """
    by_task: dict[str, dict[str, dict[int, float]]] = {}
    rows: Rows = {}
    for row, fields in _rows(path):
        field, (name, seed, score) = (
            f"{path}, row {row}, column",
            (fields[column] for column in NEEDED),
        )
        for column, text in fields.items():
            if column in ("task", "name") and not (text.isprintable() and 0 < len(text) <= LONGEST):
                raise ValueError(
                    f"{field} {column}: {text[:40]!r} must have 1 to {LONGEST} characters"
                )
        if not (seed.isascii() and seed.isdecimal() and len(seed) <= 20):
            raise ValueError(f"{field} seed: {seed[:40]!r} is not a whole number")
        if not NUMBER.fullmatch(score) or abs(float(score)) > MOST:
            raise ValueError(f"{field} score: {score[:40]!r} is not a number such as 75.8")
        task = fields.get("task", "")
        if (first_row := rows.setdefault((task, name, int(seed)), row)) != row:
            raise ValueError(
                f"{field} seed: {seed} of {name} occurs twice, first in row {first_row}"
            )
        by_task.setdefault(task, {}).setdefault(name, {})[int(seed)] = float(score)
    if not by_task:
        raise ValueError(f"{path}: has no row of scores")
    return by_task, rows


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows below the header by their number, each with its fields by column."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"{path}: has more than {LARGEST:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = (
            content.count(
                b"\n",
                0,
                error.start,
            )
            + 1
        )
        raise ValueError(f"{path}, row {row}: not UTF-8") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(
        io.StringIO(text, newline=""),
        delimiter=separator,
        strict=True,
    )
    try:
        columns = reader.fieldnames = [name.strip().casefold() for name in reader.fieldnames or []]
        for name in NEEDED:
            if columns.count(name) != 1:
                raise ValueError(
                    f"{path}, row 1: needs one column {name!r}, has {','.join(columns)[:80]!r}"
                )
        for fields in reader:
            if None in fields or None in fields.values():
                raise ValueError(
                    f"{path}, row {reader.line_num}: not the {len(columns)} fields of row 1"
                )
            yield reader.line_num, {column: field.strip() for column, field in fields.items()}
    except csv.Error as error:
        raise ValueError(f"{path}, row {reader.line_num + 1}: {error}") from None


def _lines(file: str, task: str, scores: Scores, rows: Rows, keys: Mapping[str, str]) -> list[str]:
    """Return the lines on the scores of a task.

    Raises ValueError if two names cannot be compared.
    """
    first_rows = {}
    for name, by_seed in scores.items():
        first_rows[name] = min(rows[task, name, seed] for seed in by_seed)
    if not 2 <= len(scores) <= MOST_NAMES:
        reason = f"{counted(len(scores), 'name')}, and 2 to {MOST_NAMES} can be compared"
        raise ValueError(f"{file}, row {max(first_rows.values())}, column name: {reason}")
    base, better = keys["against"] or next(iter(scores)), keys["better"]
    check_known(f"name of {task or file}", [base], scores)
    if keys["plan"]:
        plan = plan_for_scores(keys["plan"], float(keys["margin"]))
        for name, by_seed in scores.items():
            for seed in by_seed:
                if not plan.first <= seed <= plan.last:
                    reads = f"plan={plan.name} reads seeds {plan.first} to {plan.last}"
                    row = rows[task, name, seed]
                    raise ValueError(f"{file}, row {row}, column seed: {seed}: {reads}")
    table = _league(scores, keys)
    for names, pair in table.pairs.items():
        if pair is None:
            row = max(first_rows[name] for name in names)
            raise ValueError(f"{file}, row {row}, column {_lacking(table, *names)}")
    corrected = f"p corrected for {counted(len(table.pairs), 'pair')} (Holm)"
    lines = hanging("", f"{task or file}: {better} is better, margin {keys['margin']}, {corrected}")
    lines += _table(table, scores)
    for name in table.scores:
        if name != base:
            lines += _answer(table, name, base)
    lines += hanging("", outlook(table))
    all_seeds = set[int]().union(*scores.values())
    for name, by_seed in scores.items():
        missing = all_seeds - {*by_seed}
        if missing:
            lines += hanging("", f"{name} lacks {seeds([missing])}, which its pairs leave out.")
    return lines


def _league(scores: Scores, keys: Mapping[str, str]) -> League:
    """Return the league of scores, by a plan if the command line names one."""
    sign, margin = (1 if keys["better"] == "higher" else -1), float(keys["margin"])
    signed = {}
    for name, by_seed in scores.items():
        signed[name] = {seed: sign * score for seed, score in by_seed.items()}
    if keys["plan"]:
        return league_by_plan(signed, plan_for_scores(keys["plan"], margin))
    return league(signed, margin)


def _table(table: League, scores: Scores) -> list[str]:
    """Return one line per name, the best first: its scores, seeds and groups."""
    digits = max(pair.digits for pair in table.pairs.values() if pair)
    rows = [("name", "mean ± deviation", "seeds", "group")]
    for name in table.scores:
        mean = mean_text([*scores[name].values()], digits)
        rows.append((name, mean, str(len(scores[name])), table.letters[name]))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{text:{width}}"
            for text, width in zip(
                row,
                widths,
                strict=True,
            )
        ]
        lines += hanging("  ", "  ".join(cells).rstrip())
    return lines


def _lacking(table: League, first: str, second: str) -> str:
    """Return the column in which two names have nothing to compare, and why."""
    shared = table.scores[first].keys() & table.scores[second].keys()
    fewest = table.looks.after[0] if table.looks else 2
    if len(shared) < fewest:
        return f"seed: {first} and {second} share {counted(len(shared), 'seed')}, and need {fewest}"
    reason = "differ by the same with every shared seed: equal gaps show no noise"
    return f"score: {first} and {second} {reason}"


def _answer(table: League, name: str, base: str) -> list[str]:
    """Return lines on a name beside the base: sign, size and answer, each with what decides it."""
    pair = table.comparison(name, base)
    assert pair is not None, "checked for every pair"
    digits = pair.digits
    chance = f"P({name} > {base}) = {table.chance(name, base):.2f}"
    sign = f"{pair.sign}, {pair.gap:+.{digits}f}, 95 % {pair.interval.text(digits)}"
    ps = f"p {p_text(pair.p)}, corrected {p_text(pair.family_p)}"
    return [
        *hanging("", f"{name} over {base}: {counted(pair.seeds, 'seed')}, {chance}"),
        *hanging("  sign: ", f"{sign}, {ps}"),
        *hanging("  size: ", f"{pair.size}, 90 % {pair.margin_interval.text(digits)}"),
        f"  answer: {pair.answer}",
    ]
