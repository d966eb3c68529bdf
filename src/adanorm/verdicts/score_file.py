"""Scores of any origin from a CSV file: by task, name and seed, with a score per test example if any."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from adanorm.config.errors import NUMBER, check_known
from adanorm.stats.comparison import NO_SEED, SMALLEST, Score
from adanorm.stats.sequential import Numbers

NEEDED = ("name", "score")
COLUMNS = ("name", "seed", "score", "task", "example", "cluster")
LARGEST_FILE = 1 << 21  # bytes
LARGEST_BY_EXAMPLE = 1 << 24
LONGEST, LARGEST_SCORE = 40, 1e12  # characters of a name; an absolute score or a margin


@dataclass
class TaskScores:
    """The scores of a task, by name and seed, and the first row of each; the header is row 1.

    A score is a number, or an array of one number per test example or cluster of examples. Without
    a column seed, the numbers of seeds are from NO_SEED on.
    """

    scores: dict[str, dict[int, Score]] = field(default_factory=dict)
    rows: dict[str, dict[int, int]] = field(default_factory=dict)


def column_names(text: str) -> dict[str, str]:
    """Return the file's column for each of ours, from a text such as `name:config.norm,score:acc`.

    Raises ValueError for an unknown column of ours, or one that is named twice.
    """
    names = {}
    for entry in filter(None, text.split(",")):
        ours, colon, theirs = entry.partition(":")
        check_known("column", [ours], COLUMNS)
        if not colon or not theirs.strip() or ours in names:
            raise ValueError(f"columns={text}: write each once, as in name:config.norm")
        names[ours] = theirs.strip().casefold()
    return names


def read_scores(path: Path, columns: Mapping[str, str]) -> dict[str, TaskScores]:
    """Return the scores of a CSV file by task, '' without a column task.

    `columns` has the file's names of some columns (`column_names`). Raises ValueError for a wrong
    row, and names the row.
    """
    rows, fields = _fields(path, columns)
    for column, texts in fields.items():
        _check_column(path, column, texts, rows)
    if not rows:
        raise ValueError(f"{path}: has no row of scores")
    tasks = fields.get("task", [""] * len(rows))
    seeds = [*map(int, fields["seed"])] if "seed" in fields else [NO_SEED + row for row in rows]
    scores = map(float, fields["score"])
    runs = zip(rows, tasks, fields["name"], seeds, scores, strict=True)
    by_task = {task: TaskScores() for task in dict.fromkeys(tasks)}
    if "example" in fields or "cluster" in fields:
        examples = fields.get("example", [*map(str, rows)])
        clusters = fields.get("cluster", examples)
        entries = zip(clusters, examples, strict=True)
        _add_examples(path, by_task, runs, entries, are_named="example" in fields)
        return by_task
    for row, task, name, seed, score in runs:
        table = by_task[task]
        first_row = table.rows.setdefault(name, {}).setdefault(seed, row)
        if first_row != row:
            twice = f"{seed} of {name} occurs twice, first in row {first_row}"
            raise ValueError(f"{path}, row {row}, column seed: {twice}")
        table.scores.setdefault(name, {})[seed] = score
    return by_task


def _check_column(path: Path, column: str, texts: Sequence[str], rows: Sequence[int]) -> None:
    """Raise ValueError, with its row, for the first field that is no name, seed or score."""
    is_right, expected = CHECKS.get(column, (_is_name, f"must have 1 to {LONGEST} characters"))
    if all(map(is_right, {*texts})):
        return
    for row, text in zip(rows, texts, strict=True):
        if not is_right(text):
            raise ValueError(f"{path}, row {row}, column {column}: {text[:40]!r} {expected}")


def _is_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text) <= LONGEST


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def _is_score(text: str) -> bool:
    number = NUMBER.fullmatch(text)
    if not number:
        return False
    is_zero = not number[1].strip("0.")
    return is_zero or SMALLEST <= abs(float(text)) <= LARGEST_SCORE


CHECKS = {
    "seed": (_is_seed, "is not a whole number"),
    "score": (
        _is_score,
        f"is not a number such as 75.8: 0, or {SMALLEST:g} to {LARGEST_SCORE:g} in size",
    ),
}


def _add_examples(
    path: Path,
    by_task: Mapping[str, TaskScores],
    runs: Iterable[tuple[int, str, str, int, float]],
    examples: Iterable[tuple[str, str]],
    *,
    are_named: bool,
) -> None:
    """Add arrays of scores per example or cluster; ValueError unless all runs have the same ones."""
    cells: dict[tuple[str, str, int], dict[tuple[str, str], float]] = {}
    for (row, task, name, seed, score), entry in zip(runs, examples, strict=True):
        by_task[task].rows.setdefault(name, {}).setdefault(seed, row)
        cell = cells.setdefault((task, name, seed), {})
        if entry in cell:
            raise ValueError(f"{path}, row {row}, column example: {entry[1]} occurs twice")
        cell[entry] = score
    first: dict[str, object] = {}
    for (task, name, seed), cell in cells.items():
        where = f"{path}, row {by_task[task].rows[name][seed]}"
        by_cluster: dict[str, list[float]] = {}
        for cluster, example in sorted(cell):
            by_cluster.setdefault(cluster, []).append(cell[cluster, example])
        sizes = {cluster: len(scores) for cluster, scores in by_cluster.items()}
        scored = cell.keys() if are_named else sizes
        if scored != first.setdefault(task, scored):
            raise ValueError(f"{where}: {name} has other examples than the first run")
        if len(sizes) < 2:
            raise ValueError(f"{where}: noise of examples needs two of them or more")
        scores = _per_cluster([*by_cluster.values()])
        by_task[task].scores.setdefault(name, {})[seed] = scores


def _per_cluster(clusters: list[list[float]]) -> Numbers:
    """Return one number per cluster, whose mean is the mean over all examples.

    The clusters' linearized contributions: their variance is that of a mean with clustered errors
    (Miller 2024, section 2.2).
    """
    sizes = np.array([*map(len, clusters)])
    means = np.array([*map(np.mean, clusters)])
    mean = float(sizes @ means) / sizes.sum()
    return np.asarray(mean + len(sizes) * sizes * (means - mean) / sizes.sum())


def _fields(path: Path, columns: Mapping[str, str]) -> tuple[list[int], dict[str, list[str]]]:
    """Return the numbers of the rows below the header, and the fields of each of our columns."""
    with path.open("rb") as file:
        content = file.read(LARGEST_BY_EXAMPLE + 1)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, row {row}: not UTF-8") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows = []
    records = []
    row = 0
    try:
        header = [name.strip().casefold() for name in next(reader, [])]
        positions = _positions(path, header, columns)
        by_example = {"example", "cluster"} & {*positions}
        limit = LARGEST_BY_EXAMPLE if by_example else LARGEST_FILE
        if len(content) > limit:
            raise ValueError(f"{path}: has more than {limit:,} bytes")
        row = reader.line_num
        for record in reader:
            row = reader.line_num
            if record:
                rows.append(row)
                records.append(record)
                if len(record) != len(header):
                    raise ValueError(f"{path}, row {row}: not the {len(header)} fields of row 1")
    except csv.Error as error:
        raise ValueError(f"{path}, row {row + 1}: {error}") from None
    fields = {}
    for name, position in positions.items():
        fields[name] = [record[position].strip() for record in records]
    return rows, fields


def _positions(path: Path, header: list[str], columns: Mapping[str, str]) -> dict[str, int]:
    """Return where each of our columns is in a row; ValueError if a needed one is not there once."""
    positions = {}
    for ours in COLUMNS:
        theirs = columns.get(ours, ours)
        count = header.count(theirs)
        if count != 1 and (count or ours in NEEDED or ours in columns):
            raise ValueError(
                f"{path}, row 1: needs one column {theirs!r}, has {','.join(header)[:80]!r}"
            )
        if count:
            positions[ours] = header.index(theirs)
    if "seed" not in positions and {"example", "cluster"} & {*positions}:
        raise ValueError(
            f"{path}, row 1: scores per example need a column 'seed', one for each run"
        )
    return positions
