"""One HTML page without network: tables, claims, figures, what is missing, and the runs behind it all."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.config.yaml_file import dotted, read_yaml
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.records.result import STATUSES, Result
from adanorm.reporting.pages.answers import answers
from adanorm.reporting.tables import formats
from adanorm.reporting.tables.claims import CLAIM_COLUMNS, CLAIMS_NOTE, claim_row, over_tasks, registered_note
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.reproducibility import COLUMNS, NOTE, reproducibility_row
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_studies
from adanorm.verdicts.cell import Cell, Tried, cell
from adanorm.verdicts.claims import ClaimResult, claim_results
from adanorm.verdicts.reproducibility import ColumnAgreement, agreements
from adanorm.verdicts.sentences import claim_closing, claim_sentence

TEMPLATE = Path(__file__).with_name("report.html")
OF_CLAIMS = ("claim-", "evidence-")  # figures that stand beside the claims
CURVE_POINTS = 40


class Figure(NamedTuple):
    """A figure that the page links: its file, from the page's own folder, and its caption."""

    name: str
    address: str
    caption: str


def report_page(
    tables: Mapping[str, Table],
    judgements: Sequence[ClaimResult],
    figures: Sequence[Figure] = (),
    columns: Sequence[ColumnAgreement] = (),
) -> str:
    """Return the report as HTML that needs no other file than the figures, which it links."""
    groups = RunGroups()
    # What has no runs stands under what is missing alone.
    begun = {
        name: table for name, table in tables.items() if any(c and c.results for c in table.cells.values())
    }
    studies = [_table(name, table, groups) for name, table in begun.items()]
    claims = _claims(judgements, groups)
    counts = Counter(run["status"] for group in groups.entries for run in group["runs"])
    environment = Environment(autoescape=True, trim_blocks=False)
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        counts={status: counts[status] for status in STATUSES},
        answers=_answers(judgements),
        claims=claims,
        claims_note=CLAIMS_NOTE.replace("*", ""),
        claim_columns=CLAIM_COLUMNS,
        registered=registered_note().replace("*", "").replace("`", ""),
        reproducibility=[reproducibility_row(column) for column in columns],
        reproducibility_columns=COLUMNS,
        reproducibility_note=NOTE.replace("*", ""),
        tables=studies,
        validation=formats.VALIDATION,
        tries=formats.TRIES,
        tries_note=formats.TRIES_NOTE.replace("*", ""),
        level_note=formats.LEVEL_NOTE,
        figures=[figure for figure in figures if not figure.name.startswith(OF_CLAIMS)],
        claim_figures=[figure for figure in figures if figure.name.startswith(OF_CLAIMS)],
        missing=[entry for name, table in tables.items() for entry in _missing(name, table)],
        groups=groups.entries,
        filters=_filters([*studies, *claims]),
        style=TEMPLATE.with_suffix(".css").read_text("utf-8"),
        script=TEMPLATE.with_suffix(".js").read_text("utf-8"),
    )


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
        shown_cell = table.cells[norm, task]
        assert shown_cell is not None, "cells with runs have an anchor"
        return self._group(table, norm, shown_cell, table.lines[norm, task])

    def of_try(self, table: Table, norm: str, tried: Tried) -> str:
        """Return the anchor of the runs of a setting that was tried, one of them at least ended."""
        runs, line = tried.candidate.runs, tried.candidate.overrides
        return self._group(table, norm, cell(runs, metric=table.metric), line)

    def _group(self, table: Table, norm: str, of: Cell, line: Sequence[str]) -> str:
        first = str(of.folders[0])
        if first not in self._anchors:
            anchor = f"runs-{of.folders[0].name.rpartition('-')[2]}"
            self._anchors |= {str(folder): anchor for folder in of.folders}
            task = of.task
            criterion = table.grid[norm, task].runs[0].task.selection_metric
            runs = [
                _run(folder, result, line, criterion, of.metric)
                for folder, result in zip(of.folders, of.results, strict=True)
            ]
            # What all have in common stands once.
            common = [fact for fact in runs[0]["facts"] if all(fact in run["facts"] for run in runs)]
            for run in runs:
                run["facts"] = [fact for fact in run["facts"] if fact not in common]
            name = f"{title(task)}, {title(norm)}, {table.study.scale}"
            config = _text(of.folders[0] / "config.yaml")
            whole = self._wholes.setdefault((task, table.study.scale), _Whole(anchor, name, config))
            self.entries.append(
                {
                    "anchor": anchor,
                    "title": name,
                    "task": title(task),
                    "norm": title(table.study.rows[norm].norm),
                    "scale": table.study.scale,
                    "text": f"{of.text} (test {of.metric})",
                    "facts": common,
                    "runs": runs,
                    "like": None if whole.anchor == anchor else whole,
                    "config": config if whole.anchor == anchor else _differences(whole.text, config),
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
    """Return the points of a run's validation curve in a box of 100 x 30, and what it shows."""
    name = f"valid_{criterion}"
    rows = [json.loads(line) for line in _text(folder / "metrics.jsonl").splitlines()]
    values = [row[name] for row in rows if name in row]
    if len(values) < 2:
        return "", ""
    step = max(1, len(values) // CURVE_POINTS)
    values = [*values[:-1:step], values[-1]]
    low, high = min(values), max(values)
    scale = 28 / (high - low) if high > low else 0
    points = (f"{100 * i / (len(values) - 1):.1f},{29 - scale * (y - low):.1f}" for i, y in enumerate(values))
    label = f"validation {criterion}, {len(rows)} evaluations, {low:.3f} to {high:.3f}"
    return " ".join(points), label


def _differences(first: str, other: str) -> str:
    """Return the settings in which another configuration differs from the first, one dotted line each."""
    before, after = (dict(dotted(read_yaml(text) or {})) for text in (first, other))
    lines = [f"{key}: {value}" for key, value in after.items() if before.get(key) != value]
    return "\n".join([*lines, *(f"{key}: -" for key in before if key not in after)])


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""


def _answers(judgements: Sequence[ClaimResult]) -> dict[str, Any] | None:
    """Return the short answer to the question, and a line a task: its answer and what follows."""
    if not judgements:
        return None
    said = answers(judgements)
    return {"short": said.short, "tasks": [task.split("**") for task in said.tasks]}


def _table(name: str, table: Table, groups: RunGroups) -> dict[str, Any]:
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
        rows.append({"title": title(norm), "norm": title(study.rows[norm].norm), "cells": cells})
    return {
        "name": name,
        "title": study.title,
        "scale": study.scale,
        "tasks": [title(task) for task in study.columns],
        "columns": [f"{title(task)} ({table.metric_of(task).label})" for task in study.columns],
        "rows": rows,
        "validated": [formats.validation_label(table, task) for task in tasks],
        "validation": formats.validation_rows(table, tasks) if tasks else [],
        "tries": _tries(table, groups),
        "baselines": [formats.baseline_text(table, task) for task in study.columns],
        "notes": [note.replace("*", "").replace("`", "") for note in notes(table)],
    }


def _tries(table: Table, groups: RunGroups) -> dict[str, Any]:
    """Return the settings of a budget that were tried, a row each, with validation scores by task."""
    tasks, rows = formats.tasks_with_runs(table), []
    for (norm, setting), of in table.tries().items():
        cells = [
            {
                "text": of[task].text,
                "best": bool(of[task].valid) and table.is_shown(norm, task, of[task].candidate),
                "anchor": groups.of_try(table, norm, of[task]) if any(of[task].results) else None,
            }
            for task in tasks
        ]
        rows.append({"title": title(norm), "setting": setting, "cells": cells})
    return {"columns": [formats.validation_label(table, task) for task in tasks], "rows": rows}


def _claims(judgements: Sequence[ClaimResult], groups: RunGroups) -> list[dict[str, Any]]:
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


def _filters(parts: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return what a reader may choose to see alone: the tasks, norms and scales of tables and claims."""
    found = {
        "task": (task for part in parts for task in part.get("tasks", ())),
        "norm": (row["norm"] for part in parts if "tasks" in part for row in part["rows"]),
        "scale": (part["scale"] for part in parts),
    }
    return {key: list(dict.fromkeys(values)) for key, values in found.items()}


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


class Records(NamedTuple):
    """What is read of a folder of records: the tables by study, and what its runs say of the claims."""

    tables: dict[str, Table]
    judgements: list[ClaimResult]


def read_records(runs: str | None = None) -> Records:
    """Return the tables and claims of a folder of records, or of results/."""
    tables = {name: Table(study, study_grid(study, runs=runs)) for name, study in load_studies().items()}
    return Records(tables, claim_results(runs))


def build_report(runs: str | None = None) -> str:
    """Return the report over the records of a folder, or of results/ with its figures."""
    tables, judgements = read_records(runs)
    captions = (path.with_suffix(".md") for path in sorted((PROJECT / "results" / "figures").glob("*.svg")))
    figures = [
        Figure(
            path.stem, f"../figures/{path.stem}.svg", path.read_text("utf-8").strip().rpartition("\n\n")[2]
        )
        for path in captions
    ]
    return report_page(tables, judgements, figures if runs is None else (), agreements(runs))
