"""The report: one HTML page, readable offline, with claims, tables, figures and all runs."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from jinja2 import Environment

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.config.titles import title
from adanorm.config.values import dotted, read_yaml
from adanorm.files import Values
from adanorm.records import reader
from adanorm.records.environment import code_text
from adanorm.records.folder import location
from adanorm.records.result import Result
from adanorm.reporting.tables import answers as answers_page
from adanorm.reporting.tables import claims, formats
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import (
    Table,
    table_of,
)
from adanorm.reporting.text import how_to_read, plain
from adanorm.studies.study import load_studies
from adanorm.verdicts import sentences
from adanorm.verdicts.cell import Cell, cell
from adanorm.verdicts.claims import (
    ClaimResult,
    TaskAnswer,
    claim_results,
    task_answers,
)
from adanorm.verdicts.preregistration import drawn_claim

TEMPLATE = Path(__file__).with_name("report.html")


def report_page(
    tables: Mapping[str, Table],
    results: Sequence[ClaimResult],
    figures: Mapping[str, str],
    answers: Sequence[TaskAnswer] = (),
) -> str:
    """Return the report as HTML.

    Its only other files are the figures, whose captions are in `figures`.
    """
    started = {name: table for name, table in tables.items() if table.begun}
    groups = RunGroups(started.values())
    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.globals |= {
        "answers_page": answers_page,
        "claims": claims,
        "formats": formats,
        "how_to_read": how_to_read,
        "notes": notes,
        "sentences": sentences,
        "title": title,
    }
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(
        counts=groups.counts,
        judgements=[(result, _figure_of(result, figures)) for result in results],
        answers=answers,
        figures=figures,
        groups=groups,
        tables=started,
        lacking={name: table for name, table in tables.items() if table.lacks_runs},
        style=TEMPLATE.with_suffix(".css").read_text("utf-8"),
        script=TEMPLATE.with_suffix(".js").read_text("utf-8"),
    )


def _figure_of(result: ClaimResult, figures: Mapping[str, str]) -> str | None:
    """Return the name of a claim's figure, or None."""
    claim = drawn_claim(result.claim)
    name = f"evidence-{claim.id}" if claim else ""
    return name if name in figures else None


class RunGroups:
    """The runs behind the cells of tables; a cell that several tables show has one group."""

    def __init__(self, tables: Iterable[Table]) -> None:
        self.entries: list[Values] = []
        self.counts: Counter[str] = Counter()  # of runs, by status
        self._anchors: dict[Path, str] = {}  # of a run's group, by the run's folder
        self._first_groups: dict[tuple[str, str], Values] = {}  # by task and scale
        for table in tables:
            for (row, task), shown in chain(table.cells.items(), table.beside.items()):
                if shown is not None:
                    self._add(
                        table,
                        row,
                        shown,
                        table.lines[row, task],
                    )
            for (row, _), by_task in table.tries.items():
                for tried in by_task.values():
                    runs = cell(tried.candidate.runs, metric=table.metric)
                    self._add(
                        table,
                        row,
                        runs,
                        tried.candidate.overrides,
                    )

    def of_runs(self, runs: Iterable[Experiment]) -> str | None:
        """Return the anchor of the group that has these runs; None if none has ended."""
        anchors = (self._anchors.get(run.folder()) for run in runs)
        return next(filter(None, anchors), None)

    def _add(
        self,
        table: Table,
        row: str,
        runs: Cell,
        overrides: Sequence[str],
    ) -> None:
        """Add the group of a cell, unless another table has added its runs."""
        if not runs.folders or runs.folders[0] in self._anchors:
            return
        folder = runs.folders[0]
        scale = table.study.scale
        task = title(runs.runs[0].task.name, scale)
        anchor = f"runs-{folder.name.rpartition('-')[2]}"
        self._anchors |= dict.fromkeys(runs.folders, anchor)
        self.counts.update(result.status for result in runs.results)
        entries = []
        for run_folder, result in zip(runs.folders, runs.results, strict=True):
            entries.append(
                _run(
                    run_folder,
                    result,
                    overrides,
                    runs.metric,
                )
            )
        common = list(entries[0]["facts"])  # facts that all runs share are shown once
        for run in entries:
            common = [fact for fact in common if fact in run["facts"]]
        for run in entries:
            run["facts"] = [fact for fact in run["facts"] if fact not in common]
        group: Values = {
            "task": task,
            "norm": title(table.study.rows[row].norm),
            "scale": scale,
            "anchor": anchor,
            "facts": common,
            "runs": entries,
            "title": f"{task}, {title(row)}, {scale}",
            "text": f"{runs.text} (test {runs.metric})",
            "config": reader.record(folder).text("config.yaml"),
        }
        base = self._first_groups.setdefault((task, scale), group)
        if base is not group:
            group["like"] = base
            group["config"] = _differences(base["config"], group["config"])
        self.entries.append(group)


def _run(
    folder: Path,
    result: Result,
    overrides: Sequence[str],
    metric: str,
) -> Values:
    """Return what the report shows of a run."""
    environment = reader.record(folder).environment
    packages = environment.get("packages", {}).items()
    about = {
        "record": location(folder),
        "repeat": shlex.join(["adanorm", "run", *overrides, f"seed={result.seed}"]),
        "commit": code_text(environment),
        "computed on": f"{environment.get('device')}, {environment.get('precision')}",
        "packages": ", ".join(f"{name} {version}" for name, version in packages),
        "seconds": "-" if result.seconds is None else f"{result.seconds:,.0f}",
    }
    facts = [*about.items()]
    facts += [("data", f"{name} {checksum[:16]}") for name, checksum in result.data.items()]
    signatures = result.signatures or {}
    facts += [("counted", f"{name}: {text}") for name, text in signatures.items()]
    ending: str = result.status
    if result.status == "done":
        ending = f"test {metric} {result.test_score(metric):.4f}"
    return {
        "seed": result.seed,
        "status": result.status,
        "ending": ending,
        "facts": facts,
    }


def _differences(base: str, text: str) -> str:
    """Return the settings in which a configuration differs from `base`, one dotted key per line."""
    before = dict(dotted(read_yaml(base) or {}))
    after = dict(dotted(read_yaml(text) or {}))
    for key in before:
        after.setdefault(key, "-")
    changes = [f"{key}: {value}" for key, value in after.items() if before.get(key) != value]
    return "\n".join(changes)


def read_tables(runs: str | None = None) -> dict[str, Table]:
    """Return the table of every study by name, from a folder of records or from results/."""
    return {name: table_of(name, runs) for name in load_studies()}


def build_report(runs: str | None = None) -> str:
    """Return the report as HTML, from a folder of records, or from results/ with its figures."""
    figures = {}
    if runs is None:
        for page in sorted((PROJECT / "results" / "figures").glob("*.md")):
            caption = page.read_text("utf-8").strip().rpartition("\n\n")[2]
            figures[page.stem] = plain(caption)
    answers = task_answers(answers_page.question(), runs=runs)
    return report_page(
        read_tables(runs),
        claim_results(runs),
        figures,
        answers,
    )
