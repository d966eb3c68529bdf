"""The runs behind a page's numbers, a group a cell: what computed them, their curves, how to repeat them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from adanorm.config.titles import title
from adanorm.config.yaml_file import dotted, read_yaml
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.records.result import Result
from adanorm.reporting.figures.svg_path import Segment, written
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.cell import Cell, Tried, cell

CURVE_POINTS = 40


class _Whole(NamedTuple):
    """The first group of a task at a scale, whose configuration stands whole."""

    anchor: str
    title: str
    text: str


class RunGroups:
    """The runs of each cell, once however many tables show it."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._anchors: dict[str, str] = {}  # a run's folder to its group
        self._wholes: dict[tuple[str, str], _Whole] = {}  # by task and scale

    def anchor(self, table: Table, norm: str, task: str) -> str:
        """Return the anchor of a cell's runs, described now if no table had them before."""
        found = table.cells[norm, task]
        assert found is not None, "cells with runs have an anchor"
        return self._group(table, norm, found, table.lines[norm, task])

    def of_try(self, table: Table, norm: str, tried: Tried) -> str:
        """Return the anchor of the runs of a setting that was tried, one of them at least ended."""
        runs, line = tried.candidate.runs, tried.candidate.overrides
        return self._group(table, norm, cell(runs, metric=table.metric), line)

    def _group(self, table: Table, norm: str, found: Cell, line: Sequence[str]) -> str:
        first = str(found.folders[0])
        if first not in self._anchors:
            anchor = f"runs-{found.folders[0].name.rpartition('-')[2]}"
            self._anchors |= {str(folder): anchor for folder in found.folders}
            task = found.task
            criterion = table.grid[norm, task].runs[0].task.selection_metric
            runs = [
                _run(folder, result, line, criterion, found.metric)
                for folder, result in zip(found.folders, found.results, strict=True)
            ]
            # What all have in common stands once.
            common = [fact for fact in runs[0]["facts"] if all(fact in run["facts"] for run in runs)]
            for run in runs:
                run["facts"] = [fact for fact in run["facts"] if fact not in common]
            name = f"{title(task)}, {title(norm)}, {table.study.scale}"
            written = _text(found.folders[0] / "config.yaml")
            whole = self._wholes.setdefault((task, table.study.scale), _Whole(anchor, name, written))
            self.entries.append(
                {
                    "anchor": anchor,
                    "title": name,
                    "task": title(task),
                    "norm": title(table.study.rows[norm].norm),
                    "scale": table.study.scale,
                    "text": f"{found.text} (test {found.metric})",
                    "facts": common,
                    "runs": runs,
                    "like": None if whole.anchor == anchor else whole,
                    "config": written if whole.anchor == anchor else _differences(whole.text, written),
                }
            )
        return self._anchors[first]

    def of_folder(self, folder: str) -> str | None:
        """Return the anchor of a run's group by the run's folder, if a table shows it."""
        return self._anchors.get(folder)


def _run(folder: Path, result: Result, line: Sequence[str], criterion: str, metric: str) -> dict[str, Any]:
    environment = reader.environment(folder)
    facts = [
        ("record", shown(folder)),
        ("repeat", shlex.join(["adanorm", "run", *line, f"seed={result.seed}"])),
        ("commit", f"{environment.get('commit')}{', with changes' if environment.get('dirty') else ''}"),
        ("computed on", f"{environment.get('device')}, {environment.get('precision')}"),
        ("packages", ", ".join(f"{k} {v}" for k, v in environment.get("packages", {}).items())),
        ("seconds", f"{result.seconds:,.0f}" if result.seconds is not None else "-"),
        *(("data", f"{name} {checksum[:16]}") for name, checksum in result.data.items()),
        *(("counted", f"{name}: {text}") for name, text in (result.signatures or {}).items()),
    ]
    done = result.status == "done"
    ending = f"test {metric} {result.test_score(metric):.4f}" if done else result.status
    curve, label = _curve(folder, criterion)
    return {
        "seed": result.seed,
        "status": result.status,
        "ending": ending,
        "facts": facts,
        "curve": curve,
        "curve_label": label,
    }


def _curve(folder: Path, criterion: str) -> tuple[str, str]:
    """Return the path of a run's validation curve in a box of 100 x 30, and what it shows."""
    name = f"valid_{criterion}"
    rows = [json.loads(line) for line in _text(folder / "metrics.jsonl").splitlines()]
    values = [row[name] for row in rows if name in row]
    if len(values) < 2:
        return "", ""
    step = max(1, len(values) // CURVE_POINTS)
    values = [*values[:-1:step], values[-1]]
    low, high = min(values), max(values)
    scale = 28 / (high - low) if high > low else 0
    points = [
        (100 * place / (len(values) - 1), 29 - scale * (value - low)) for place, value in enumerate(values)
    ]
    line = [Segment("L" if place else "M", (point,)) for place, point in enumerate(points)]
    label = f"validation {criterion}, {len(rows)} evaluations, {low:.3f} to {high:.3f}"
    return written(line), label


def _differences(first: str, other: str) -> str:
    """Return the settings of another configuration that are not the first one's, a line each, dotted."""
    before, after = (dict(dotted(read_yaml(text) or {})) for text in (first, other))
    lines = [f"{key}: {value}" for key, value in after.items() if before.get(key) != value]
    return "\n".join([*lines, *(f"{key}: -" for key in before if key not in after)])


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""
