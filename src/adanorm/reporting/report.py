"""One HTML page without network: tables, claims, figures, what is missing, and the runs behind it all."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.config.yaml_file import dotted, read_yaml
from adanorm.records import reader
from adanorm.records.folder import where
from adanorm.records.result import STATUSES, Result
from adanorm.reporting import answers as answers_in_words
from adanorm.reporting.answers import question
from adanorm.reporting.tables import claims, formats, reproducibility
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import plain
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_studies
from adanorm.verdicts import sentences
from adanorm.verdicts.cell import Cell, cell
from adanorm.verdicts.claims import ClaimResult, claim_results
from adanorm.verdicts.plan_answers import TaskAnswer, task_answers
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.reproducibility import Agreement, agreements

TEMPLATE = Path(__file__).with_name("report.html")


def report_page(
    tables: Mapping[str, Table],
    judgements: Sequence[ClaimResult],
    figures: Mapping[str, str] | None = None,
    columns: Sequence[Agreement] = (),
    answers: Sequence[TaskAnswer] = (),
) -> str:
    """Return the report as HTML that needs no other file than the figures, which it links.

    `figures` are captions by the figures' names.
    """
    # What has no runs stands under what is missing alone.
    begun = {
        name: table for name, table in tables.items() if any(c and c.results for c in table.cells.values())
    }
    groups = RunGroups(begun.values())
    counts = Counter(run["status"] for group in groups.entries for run in group["runs"])
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = plain
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        counts={status: counts[status] for status in STATUSES},
        answers=answers,
        in_words=answers_in_words,
        judgements=[(result, _figure_of(result, figures or {})) for result in judgements],
        claims=claims,
        sentences=sentences,
        columns=columns,
        reproducibility=reproducibility,
        tables=begun,
        formats=formats,
        notes=notes,
        title=title,
        groups=groups,
        figures=figures or {},
        missing=[(name, table, counted) for name, table in tables.items() if (counted := _missing(table))],
        filters=_filters(begun.values(), judgements),
        style=TEMPLATE.with_suffix(".css").read_text("utf-8"),
        script=TEMPLATE.with_suffix(".js").read_text("utf-8"),
    )


def _figure_of(result: ClaimResult, figures: Mapping[str, str]) -> str | None:
    """Return the name of a claim's figure, of its scale or else the paper's; one pair of norms has one."""
    norms = result.claim.norms(result.claim.tasks[0])
    alike = [
        claim.id
        for claim in preregistration().claims
        if claim.quantity == result.claim.quantity == "test" and claim.norms(claim.tasks[0]) == norms
    ]
    names = (f"evidence-{claim}-{scale}" for scale in (result.scale, "paper") for claim in alike)
    return next((name for name in names if name in figures), None)


class RunGroups:
    """The runs behind the cells of tables, one group per cell, however many tables show it."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self.entries: list[dict[str, Any]] = []
        self._anchors: dict[Path, str] = {}  # a run's folder to its group
        self._wholes: dict[tuple[str, str], dict[str, Any]] = {}  # by task and scale, the first group
        for table in tables:
            for (row, task), of_row in table.cells.items():
                if of_row is not None:
                    self._add(table, row, of_row, table.lines[row, task])
            for (row, _), by_task in table.tries().items():
                for tried in by_task.values():
                    candidate = tried.candidate
                    self._add(table, row, cell(candidate.runs, metric=table.metric), candidate.overrides)

    def anchor(self, folders: Iterable[Path]) -> str | None:
        """Return the anchor of the group of some runs, by their folders; None where none has ended."""
        return next((self._anchors[folder] for folder in folders if folder in self._anchors), None)

    def of_runs(self, runs: Iterable[Experiment]) -> str | None:
        """Return the anchor of the group of some runs; None where none has ended."""
        return self.anchor(run.folder() for run in runs)

    def _add(self, table: Table, row: str, runs: Cell, line: Sequence[str]) -> None:
        if not runs.folders or runs.folders[0] in self._anchors:
            return
        anchor, task = f"runs-{runs.folders[0].name.rpartition('-')[2]}", runs.task
        self._anchors |= dict.fromkeys(runs.folders, anchor)
        folders = zip(runs.folders, runs.results, strict=True)
        entries = [_run(folder, result, line, runs.metric) for folder, result in folders]
        # What all have in common stands once.
        common = [fact for fact in entries[0]["facts"] if all(fact in entry["facts"] for entry in entries)]
        for entry in entries:
            entry["facts"] = [fact for fact in entry["facts"] if fact not in common]
        group: dict[str, Any] = {
            "anchor": anchor,
            "title": f"{title(task)}, {title(row)}, {table.study.scale}",
            "task": title(task),
            "norm": title(table.study.rows[row].norm),
            "scale": table.study.scale,
            "text": f"{runs.text} (test {runs.metric})",
            "facts": common,
            "runs": entries,
            "config": reader.record(runs.folders[0]).text("config.yaml"),
        }
        whole = self._wholes.setdefault((task, table.study.scale), group)
        if whole is not group:
            group |= {"like": whole, "config": _differences(whole["config"], group["config"])}
        self.entries.append(group)


def _run(folder: Path, result: Result, line: Sequence[str], metric: str) -> dict[str, Any]:
    environment = reader.record(folder).environment
    facts = [
        ("record", where(folder)),
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
    return {"seed": result.seed, "status": result.status, "ending": ending, "facts": facts}


def _differences(first: str, other: str) -> str:
    """Return the settings in which another configuration differs from the first, one dotted line each."""
    before, after = (dict(dotted(read_yaml(text) or {})) for text in (first, other))
    lines = [f"{key}: {value}" for key, value in after.items() if before.get(key) != value]
    return "\n".join([*lines, *(f"{key}: -" for key in before if key not in after)])


def _filters(tables: Iterable[Table], judgements: Sequence[ClaimResult]) -> dict[str, list[str]]:
    """Return what a reader may choose to see alone: the tasks, norms and scales of tables and claims."""
    studies = [table.study for table in tables]
    values = {
        "task": [title(task) for study in studies for task in study.columns],
        "norm": [title(row.norm) for study in studies for row in study.rows.values()],
        "scale": [study.scale for study in studies] + [judgement.scale for judgement in judgements],
    }
    return {key: list(dict.fromkeys(names)) for key, names in values.items()}


def _missing(table: Table) -> str:
    """Return how many cells of a study lack runs, of all; empty where none does."""
    rows = table.study.rows
    wanted = [
        cell
        for (row, task), cell in table.cells.items()
        if not rows[row].undefined and task in (rows[row].only or table.study.columns)
    ]
    lacking = sum(cell is None or len(cell.results) < len(table.study.seeds) for cell in wanted)
    return f"{lacking} of {len(wanted)}" if lacking else ""


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
    drawn = sorted((PROJECT / "results" / "figures").glob("*.md")) if runs is None else []
    captions = (path.read_text("utf-8").strip().rpartition("\n\n")[2] for path in drawn)
    figures = {path.stem: plain(caption) for path, caption in zip(drawn, captions, strict=True)}
    return report_page(tables, judgements, figures, agreements(runs), task_answers(question(), runs=runs))
