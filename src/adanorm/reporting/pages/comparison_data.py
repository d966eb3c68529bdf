"""What the report's page compares rows by: the seeds' scores and how often one row beats another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adanorm.config.titles import title
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.cell import Cell


def comparisons(
    tables: Mapping[str, Table], anchor: Callable[[Table, str, str], str]
) -> list[dict[str, Any]]:
    """Return the columns of tables, each with its rows' test scores by seed and the matrix of P(row better).

    `anchor` is where the page describes a cell's runs. Columns with runs of one row alone are left out.
    """
    found = []
    for name, table in tables.items():
        for task in table.study.columns:
            cells = {row: table.cells[row, task] for row in table.study.rows}
            scored = {row: cell for row, cell in cells.items() if cell is not None and cell.scores}
            if len(scored) < 2:
                continue
            metric = table.metric_of(task)
            rows = [
                {"title": title(row), "anchor": anchor(table, row, task), "seeds": _by_seed(cell)}
                for row, cell in scored.items()
            ]
            matrix = _matrix([cell.scores for cell in scored.values()], metric.higher_is_better)
            place = {"table": name, "task": title(task), "metric": metric.label}
            found.append({**place, "rows": rows, "better": matrix})
    return found


def _by_seed(cell: Cell) -> dict[int, float]:
    done = (result for result in cell.results if result.status == "done")
    return {result.seed: round(result.test_score(cell.metric), 4) for result in done}


def _matrix(scores: Sequence[Sequence[float]], higher_is_better: bool) -> list[list[float | None]]:
    """Return P(row better than column), None on the diagonal."""
    return [
        [
            None
            if ours is theirs
            else round(_probability_better(ours, theirs, higher_is_better=higher_is_better), 2)
            for theirs in scores
        ]
        for ours in scores
    ]


def _probability_better(ours: Sequence[float], theirs: Sequence[float], *, higher_is_better: bool) -> float:
    """Return the share of pairs of runs in which ours scores better, a tie counting half.

    It estimates P(A > B) of Bouthillier et al. 2021 (arXiv 2103.03098), section 3, without pairing of seeds.
    """
    sign = 1 if higher_is_better else -1
    wins = [1.0 if sign * (a - b) > 0 else 0.5 if a == b else 0.0 for a in ours for b in theirs]
    return sum(wins) / len(wins)
