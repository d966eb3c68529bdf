"""One self-contained HTML page: tables, claims, figures, what is missing, and the runs behind it all."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment

from adanorm.config.paths import PROJECT
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.records.result import STATUSES, Result
from adanorm.reporting.names import title
from adanorm.reporting.tables import formats
from adanorm.reporting.tables.claims import CLAIM_COLUMNS, CLAIMS_NOTE, claim_row, over_tasks, registered_note
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.reproducibility import COLUMNS, NOTE, reproducibility_row
from adanorm.reporting.tables.table import Table
from adanorm.reporting.verdicts.claims import ClaimResult, claim_results
from adanorm.reporting.verdicts.reproducibility import ColumnAgreement, agreements
from adanorm.reporting.verdicts.sentences import claim_closing, claim_sentence
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_studies

TEMPLATE = Path(__file__).with_name("report.html")
CURVE_POINTS = 60
OF_CLAIMS = ("claim-", "evidence-")  # figures that stand beside the claims


@dataclass(frozen=True)
class Figure:
    """A drawing for the page; `svg` is its text."""

    name: str
    svg: str
    caption: str


def drawn(folder: Path) -> list[Figure]:
    """Return the figures that `make figures` left in a folder, by name."""
    captions = {path: path.with_suffix(".md").read_text("utf-8") for path in sorted(folder.glob("*.svg"))}
    return [
        Figure(path.stem, path.read_text("utf-8"), text.strip().rpartition("\n\n")[2])
        for path, text in captions.items()
    ]


def report_page(
    tables: Mapping[str, Table],
    judgements: Sequence[ClaimResult],
    figures: Sequence[Figure] = (),
    columns: Sequence[ColumnAgreement] = (),
) -> str:
    """Return the report as HTML that needs no other file, from tables by study name and claims."""
    groups = _Groups()
    # What has no runs stands under what is missing alone.
    begun = {
        name: table for name, table in tables.items() if any(c and c.results for c in table.cells.values())
    }
    shown = [_table(name, table, groups) for name, table in begun.items()]
    claims = _claims(judgements, groups)
    counts = Counter(run["status"] for group in groups.entries for run in group["runs"])
    environment = Environment(autoescape=True, trim_blocks=False)
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        counts={status: counts[status] for status in STATUSES},
        claims=claims,
        claims_note=CLAIMS_NOTE.replace("*", ""),
        claim_columns=CLAIM_COLUMNS,
        registered=registered_note().replace("*", "").replace("`", ""),
        reproducibility=[reproducibility_row(column) for column in columns],
        reproducibility_columns=COLUMNS,
        reproducibility_note=NOTE.replace("*", ""),
        tables=shown,
        validation=formats.VALIDATION,
        level_note=formats.LEVEL_NOTE,
        figures=[figure for figure in figures if not figure.name.startswith(OF_CLAIMS)],
        claim_figures=[figure for figure in figures if figure.name.startswith(OF_CLAIMS)],
        missing=[entry for name, table in tables.items() for entry in _missing(name, table)],
        groups=groups.entries,
    )


class _Groups:
    """The runs of each cell, once however many tables show it."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._anchors: dict[str, str] = {}  # a run's folder to its group

    def anchor(self, table: Table, norm: str, task: str) -> str:
        """Return the anchor of a cell's runs, described now if no table had them before."""
        found = table.cells[norm, task]
        assert found is not None, "cells with runs have an anchor"
        first = str(found.folders[0])
        if first not in self._anchors:
            anchor = f"runs-{found.folders[0].name.rpartition('-')[2]}"
            self._anchors |= {str(folder): anchor for folder in found.folders}
            criterion = table.grid[norm, task].runs[0].task.selection_metric
            self.entries.append(
                {
                    "anchor": anchor,
                    "title": f"{title(task)}, {title(norm)}, {table.study.scale}",
                    "text": f"{found.text} (test {found.metric})",
                    "runs": [
                        _run(folder, result, table.lines[norm, task], criterion, found.metric)
                        for folder, result in zip(found.folders, found.results, strict=True)
                    ],
                    "config": _text(found.folders[0] / "config.yaml"),
                }
            )
        return self._anchors[first]

    def of_folder(self, folder: str) -> str | None:
        """Return the anchor of a run's group by the run's folder, if a table shows it."""
        return self._anchors.get(folder)


def _table(name: str, table: Table, groups: _Groups) -> dict[str, Any]:
    study, tasks = table.study, formats.validated_tasks(table)
    best = {task: table.best(task) for task in study.columns}
    rows = []
    for norm in study.rows:
        cells = []
        for task in study.columns:
            found = table.cells[norm, task]
            has_runs = found is not None and bool(found.results)
            verdict = table.verdict(norm, task) if has_runs else ""
            cells.append(
                {
                    "text": table.ours(norm, task),
                    "best": best[task] == norm,
                    "anchor": groups.anchor(table, norm, task) if has_runs else None,
                    "paper": table.paper(norm, task),
                    "verdict": verdict,
                    "class": verdict.partition(" ")[0].rstrip(":"),
                }
            )
        rows.append({"title": title(norm), "cells": cells})
    return {
        "name": name,
        "title": study.title,
        "columns": [f"{title(task)} ({table.metric_of(task).label})" for task in study.columns],
        "rows": rows,
        "validated": [formats.validation_label(table, task) for task in tasks],
        "validation": formats.validation_rows(table, tasks) if tasks else [],
        "baselines": [formats.baseline_text(table, task) for task in study.columns],
        "notes": [note.replace("*", "").replace("`", "") for note in notes(table)],
    }


def _run(folder: Path, result: Result, line: Sequence[str], criterion: str, metric: str) -> dict[str, Any]:
    environment = reader.environment(folder)
    facts = [
        ("record", shown(folder)),
        ("repeat", shlex.join(["adanorm", "run", *line, f"seed={result.seed}"])),
        ("commit", f"{environment.get('commit')}{', with changes' if environment.get('dirty') else ''}"),
        ("computed on", f"{environment.get('device')}, {environment.get('precision')}"),
        ("packages", ", ".join(f"{k} {v}" for k, v in environment.get("packages", {}).items())),
        ("seconds", f"{result.seconds:,.0f}" if result.seconds is not None else "-"),
        *(("data", f"{name} {checksum}") for name, checksum in result.data.items()),
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
        f"{100 * place / (len(values) - 1):.1f},{29 - scale * (value - low):.1f}"
        for place, value in enumerate(values)
    ]
    label = f"validation {criterion}, {len(rows)} evaluations, {low:.3f} to {high:.3f}"
    return "M" + "L".join(points), label


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _claims(judgements: Sequence[ClaimResult], groups: _Groups) -> list[dict[str, Any]]:
    """Return what each scale says of each claim: its verdict in words, and a row a task."""
    found = []
    for judged in judgements:
        rows = []
        for task in judged.run:
            assert task.pair is not None, "of tasks with runs"
            sides = [side.runs[0].folder() for side in task.pair.sides]
            anchors = (groups.of_folder(str(folder)) for folder in sides)
            rows.append((claim_row(task), list(dict.fromkeys(a for a in anchors if a))))
        found.append(
            {
                "anchor": f"claim-{judged.claim.id}-{judged.scale}",
                "text": judged.claim.text,
                "source": judged.claim.source,
                "scale": judged.scale,
                "verdict": judged.verdict,
                "class": judged.verdict.replace(" ", "-"),
                "sentence": claim_sentence(judged),
                "closing": claim_closing(judged),
                "over_tasks": over_tasks(judged) if judged.run else "",
                "rows": rows,
            }
        )
    return found


def _missing(name: str, table: Table) -> list[dict[str, Any]]:
    """Return what a study lacks, if anything."""
    rows = table.study.rows
    wanted = [
        found
        for (row, task), found in table.cells.items()
        if not rows[row].undefined and task in (rows[row].only or table.study.columns)
    ]
    lacking = sum(found is None or len(found.results) < len(table.study.seeds) for found in wanted)
    if not lacking:
        return []
    facts = {"lacking": lacking, "wanted": len(wanted), "command": f"make study STUDY={name}"}
    return [{"title": table.study.title, **facts}]


def build_report(runs: str | None = None) -> str:
    """Return the report over the records of a folder, or of results/ with its figures."""
    tables = {name: Table(study, study_grid(study, runs=runs)) for name, study in load_studies().items()}
    figures = PROJECT / "results" / "figures"
    return report_page(tables, claim_results(runs), drawn(figures) if runs is None else (), agreements(runs))
