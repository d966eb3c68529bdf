"""One self-contained HTML page: tables, claims, figures, what is missing, and the runs behind it all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment

from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.records.result import STATUSES
from adanorm.reporting.pages.answers import answers
from adanorm.reporting.pages.comparison_data import comparisons
from adanorm.reporting.pages.drawings import Figure, drawn, in_one_page
from adanorm.reporting.pages.run_groups import RunGroups
from adanorm.reporting.tables import formats
from adanorm.reporting.tables.claims import CLAIM_COLUMNS, CLAIMS_NOTE, claim_row, over_tasks, registered_note
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.reproducibility import COLUMNS, NOTE, reproducibility_row
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_studies
from adanorm.verdicts.claims import ClaimResult, claim_results
from adanorm.verdicts.reproducibility import ColumnAgreement, agreements
from adanorm.verdicts.sentences import claim_closing, claim_sentence

TEMPLATE = Path(__file__).with_name("report.html")
OF_CLAIMS = ("claim-", "evidence-")  # figures that stand beside the claims


def report_page(
    tables: Mapping[str, Table],
    judgements: Sequence[ClaimResult],
    figures: Sequence[Figure] = (),
    columns: Sequence[ColumnAgreement] = (),
) -> str:
    """Return the report as HTML that needs no other file, from tables by study name and claims."""
    groups = RunGroups()
    # What has no runs stands under what is missing alone.
    begun = {
        name: table for name, table in tables.items() if any(c and c.results for c in table.cells.values())
    }
    shown = [_table(name, table, groups) for name, table in begun.items()]
    compared = comparisons(begun, groups.anchor)
    claims = _claims(judgements, groups)
    figures, figure_style = in_one_page(figures)
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
        tables=shown,
        validation=formats.VALIDATION,
        tries=formats.TRIES,
        tries_note=formats.TRIES_NOTE.replace("*", ""),
        level_note=formats.LEVEL_NOTE,
        figures=[figure for figure in figures if not figure.name.startswith(OF_CLAIMS)],
        claim_figures=[figure for figure in figures if figure.name.startswith(OF_CLAIMS)],
        missing=[entry for name, table in tables.items() for entry in _missing(name, table)],
        groups=groups.entries,
        comparisons=json.dumps(compared, ensure_ascii=True).replace("<", "\\u003c") if compared else "",
        filters=_filters([*shown, *claims]),
        style=TEMPLATE.with_suffix(".css").read_text("utf-8"),
        figure_style=figure_style,
        script=TEMPLATE.with_suffix(".js").read_text("utf-8"),
    )


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
    figures = PROJECT / "results" / "figures"
    return report_page(tables, judgements, drawn(figures) if runs is None else (), agreements(runs))
