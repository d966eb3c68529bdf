"""The report: one HTML page, readable offline, with tables, claims, figures, missing runs and all runs."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.config.yaml_file import dotted, read_yaml
from adanorm.records import reader
from adanorm.records.folder import location
from adanorm.records.result import Result
from adanorm.reporting.tables import claims, formats
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import how_to_read, plain
from adanorm.studies.study import load_studies, study_grid
from adanorm.verdicts import sentences
from adanorm.verdicts.cell import Cell, cell
from adanorm.verdicts.claims import ClaimResult, TaskAnswer, claim_results, task_answers
from adanorm.verdicts.preregistration import drawn_claim

TEMPLATE = Path(__file__).with_name("report.html")


def report_page(
    tables: Mapping[str, Table],
    judgements: Sequence[ClaimResult],
    figures: Mapping[str, str],
    answers: Sequence[TaskAnswer] = (),
) -> str:
    """Return the report as HTML; its only other files are the figures, whose captions are in `figures`."""
    started = {name: table for name, table in tables.items() if formats.tasks_with_runs(table)}
    groups = RunGroups(started.values())
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["plain"] = plain
    environment.globals |= {
        "claims": claims,
        "formats": formats,
    }
    environment.globals |= {
        "sentences": sentences,
        "notes": notes,
        "title": title,
        "how_to_read": how_to_read,
    }
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        counts=Counter(run["status"] for group in groups.entries for run in group["runs"]),
        judgements=[(result, _figure_of(result, figures)) for result in judgements],
        answers=answers,
        figures=figures,
        groups=groups,
        tables=started,
        lacking={name: table for name, table in tables.items() if table.lacks_runs},
        style=TEMPLATE.with_suffix(".css").read_text("utf-8"),
        script=TEMPLATE.with_suffix(".js").read_text("utf-8"),
    )


def _figure_of(result: ClaimResult, figures: Mapping[str, str]) -> str | None:
    """Return the name of a claim's figure at its own scale or the paper's; None if neither exists."""
    claim = drawn_claim(result.claim)
    names = [f"evidence-{claim.id}-{scale}" for scale in (result.scale, "paper")] if claim else []
    return next(filter(figures.__contains__, names), None)


class RunGroups:
    """The runs behind the cells of tables; a cell that several tables show has one group."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self.entries: list[dict[str, Any]] = []
        self._anchors: dict[Path, str] = {}  # of a run's group, by the run's folder
        self._first_groups: dict[tuple[str, str], dict[str, Any]] = {}  # by task and scale
        for table in tables:
            for address, shown_cell in table.cells.items():
                if shown_cell is not None:
                    self._add(table, address[0], shown_cell, table.lines[address])
            for (row, _), by_task in table.tries().items():
                for candidate in (setting.candidate for setting in by_task.values()):
                    self._add(
                        table, row, cell(candidate.runs, metric=table.metric), candidate.overrides
                    )

    def of_runs(self, runs: Iterable[Experiment]) -> str | None:
        """Return the anchor of the group that has these runs; None if none has ended."""
        anchors = (self._anchors.get(run.folder()) for run in runs)
        return next(filter(None, anchors), None)

    def _add(self, table: Table, row: str, runs: Cell, overrides: Sequence[str]) -> None:
        if not runs.folders or runs.folders[0] in self._anchors:
            return
        first, task, scale = runs.folders[0], title(runs.runs[0].task.name), table.study.scale
        anchor = f"runs-{first.name.rpartition('-')[2]}"
        self._anchors |= dict.fromkeys(runs.folders, anchor)
        entries = [
            _run(*run, overrides, runs.metric)
            for run in zip(runs.folders, runs.results, strict=True)
        ]
        # Facts that all runs share are shown once.
        common = [
            fact for fact in entries[0]["facts"] if all(fact in entry["facts"] for entry in entries)
        ]
        for entry in entries:
            entry["facts"] = [fact for fact in entry["facts"] if fact not in common]
        group: dict[str, Any] = {
            "task": task,
            "norm": title(table.study.rows[row].norm),
            "scale": scale,
        }
        group |= {"anchor": anchor, "facts": common, "runs": entries}
        group["title"] = f"{task}, {title(row)}, {scale}"
        group["text"] = f"{runs.text} (test {runs.metric})"
        group["config"] = reader.record(first).text("config.yaml")
        base = self._first_groups.setdefault((task, scale), group)
        if base is not group:
            group |= {"like": base, "config": _differences(base["config"], group["config"])}
        self.entries.append(group)


def _run(folder: Path, result: Result, overrides: Sequence[str], metric: str) -> dict[str, Any]:
    environment = reader.record(folder).environment
    facts = [
        ("record", location(folder)),
        ("repeat", shlex.join(["adanorm", "run", *overrides, f"seed={result.seed}"])),
        (
            "commit",
            f"{environment.get('commit')}{', with changes' if environment.get('dirty') else ''}",
        ),
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
    """Return the settings in which `other` differs from `first`, one dotted key per line."""
    before, after = (dict(dotted(read_yaml(text) or {})) for text in (first, other))
    after |= {key: "-" for key in before if key not in after}
    return "\n".join(f"{key}: {value}" for key, value in after.items() if before.get(key) != value)


def read_tables(runs: str | None = None) -> dict[str, Table]:
    """Return the table of every study by name, from a folder of records or from results/."""
    return {
        name: Table(study, study_grid(study, runs=runs)) for name, study in load_studies().items()
    }


def build_report(runs: str | None = None) -> str:
    """Return the report as HTML, from a folder of records, or from results/ with its figures."""
    pages = sorted((PROJECT / "results" / "figures").glob("*.md")) if runs is None else []
    captions = (path.read_text("utf-8").strip().rpartition("\n\n")[2] for path in pages)
    figures = {path.stem: plain(caption) for path, caption in zip(pages, captions, strict=True)}
    answers = task_answers(claims.question(), runs=runs)
    return report_page(read_tables(runs), claim_results(runs), figures, answers)
