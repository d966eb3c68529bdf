"""Scores of any origin from a CSV file: by task, name and seed, with a score per test example if any."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from adanorm.config.errors import check_known
from adanorm.stats.comparison import NO_SEED, Score
from adanorm.stats.sequential import Numbers

NEEDED = ("name", "score")
COLUMNS = ("name", "seed", "score", "task", "example", "cluster")
TEXTS = ("task", "name", "example", "cluster")
LARGEST_FILE = 1 << 21  # bytes
LARGEST_BY_EXAMPLE = 1 << 24
LONGEST, LARGEST_SCORE = 40, 1e12  # characters of a name; an absolute score
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)


@dataclass
class TaskScores:
    """The scores of a task, by name and seed, and the first row of each; the header is row 1.

    A score is a number, or an array of one number per test example or cluster of examples. Without
    a column seed, the numbers of seeds are from NO_SEED on.
    """

    scores: dict[str, dict[int, Score]] = field(default_factory=dict)
    rows: dict[tuple[str, int], int] = field(default_factory=dict)


def column_names(text: str) -> dict[str, str]:
    """Return the file's column for each of ours, from a text such as `name:config.norm,score:acc`.

    Raises ValueError for an unknown column of ours, or one that is named twice.
    """
    names: dict[str, str] = {}
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
    by_task: dict[str, TaskScores] = {}
    cells: dict[tuple[str, str, int], dict[tuple[str, str], float]] = {}
    for row, fields in _rows(path, columns):
        _check_row(f"{path}, row {row}, column", fields)
        task, name = fields.get("task", ""), fields["name"]
        seed = int(fields["seed"]) if "seed" in fields else NO_SEED + row
        table = by_task.setdefault(task, TaskScores())
        first_row = table.rows.setdefault((name, seed), row)
        score = float(fields["score"])
        if "example" not in fields and "cluster" not in fields:
            if first_row != row:
                twice = f"{seed} of {name} occurs twice, first in row {first_row}"
                raise ValueError(f"{path}, row {row}, column seed: {twice}")
            table.scores.setdefault(name, {})[seed] = score
            continue
        cell = cells.setdefault((task, name, seed), {})
        cluster = fields.get("cluster", fields.get("example", ""))
        example = fields.get("example", str(row))
        if (cluster, example) in cell:
            raise ValueError(f"{path}, row {row}, column example: {example} occurs twice")
        cell[cluster, example] = score
    if not by_task:
        raise ValueError(f"{path}: has no row of scores")
    _add_examples(path, by_task, cells)
    return by_task


def _check_row(field: str, fields: Mapping[str, str]) -> None:
    """Raise ValueError for a field that is no name, seed or score."""
    for column in TEXTS:
        text = fields.get(column, "a")
        if not (text.isprintable() and 0 < len(text) <= LONGEST):
            raise ValueError(f"{field} {column}: {text[:40]!r} must have 1 to {LONGEST} characters")
    seed, score = fields.get("seed", "0"), fields["score"]
    if not (seed.isascii() and seed.isdecimal() and len(seed) <= 18):
        raise ValueError(f"{field} seed: {seed[:40]!r} is not a whole number")
    if not NUMBER.fullmatch(score) or abs(float(score)) > LARGEST_SCORE:
        raise ValueError(f"{field} score: {score[:40]!r} is not a number such as 75.8")


def _add_examples(
    path: Path,
    by_task: Mapping[str, TaskScores],
    cells: Mapping[tuple[str, str, int], Mapping[tuple[str, str], float]],
) -> None:
    """Add arrays of scores per example or cluster; ValueError unless all runs have the same ones."""
    sizes_of: dict[str, dict[str, int]] = {}
    for (task, name, seed), cell in cells.items():
        by_cluster: dict[str, list[float]] = {}
        for cluster, example in sorted(cell):
            by_cluster.setdefault(cluster, []).append(cell[cluster, example])
        sizes = {cluster: len(scores) for cluster, scores in by_cluster.items()}
        if sizes != sizes_of.setdefault(task, sizes):
            row = by_task[task].rows[name, seed]
            raise ValueError(f"{path}, row {row}: {name} has other examples than the first run")
        if len(sizes) < 2:
            row = by_task[task].rows[name, seed]
            raise ValueError(f"{path}, row {row}: noise of examples needs two of them or more")
        scores = _per_cluster([*by_cluster.values()])
        by_task[task].scores.setdefault(name, {})[seed] = scores


def _per_cluster(clusters: list[list[float]]) -> Numbers:
    """Return one number per cluster, whose mean is the mean over all examples.

    The clusters' linearized contributions: their variance is that of a mean with clustered errors
    (Miller 2024, section 2.2).
    """
    sizes = np.array([len(cluster) for cluster in clusters])
    means = np.array([np.mean(cluster) for cluster in clusters])
    mean = float(sizes @ means) / sizes.sum()
    return np.asarray(mean + len(sizes) * sizes * (means - mean) / sizes.sum())


def _rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows below the header by their number, each with our columns' fields."""
    with path.open("rb") as file:
        content = file.read(LARGEST_BY_EXAMPLE + 1)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, row {row}: not UTF-8") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    row = 0
    try:
        header = [name.strip().casefold() for name in next(reader, [])]
        positions = _positions(path, header, columns)
        by_example = {"example", "cluster"} & {*positions}
        limit = LARGEST_BY_EXAMPLE if by_example else LARGEST_FILE
        if len(content) > limit:
            raise ValueError(f"{path}: has more than {limit:,} bytes")
        row = reader.line_num
        for fields in reader:
            row = reader.line_num
            if not fields:
                continue
            if len(fields) != len(header):
                raise ValueError(f"{path}, row {row}: not the {len(header)} fields of row 1")
            yield row, {name: fields[index].strip() for name, index in positions.items()}
    except csv.Error as error:
        raise ValueError(f"{path}, row {row + 1}: {error}") from None


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
