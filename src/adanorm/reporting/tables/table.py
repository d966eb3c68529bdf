"""A study's cells in their grid, with the paper's numbers and the differences between rows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from adanorm.metrics.table import METRICS, Metric
from adanorm.records.published import Published, published
from adanorm.reporting.cell import Cell, best, cell
from adanorm.reporting.names import task_metric
from adanorm.reporting.statistics import significantly_best
from adanorm.studies.grid import StudyGrid
from adanorm.studies.study import Study

UNCONFIRMED = "†"


class Table:
    """The cells of a study, by (row, task); a row is named by its norm unless it has a label.

    Of a budget's overrides a cell shows the best by validation, and `chosen` says which it is.
    With a metric, that one is shown where runs have it, such as another kind of BLEU. Raises
    ValueError where none has it.
    """

    def __init__(self, study: Study, grid: StudyGrid, *, metric: str | None = None) -> None:
        self.study, self.grid, self.metric = study, grid, metric
        self.comparable = study.scale == "paper" and not study.varies and metric is None
        # The paper's numbers may be shown without being compared with.
        self.shows_paper = self.comparable or (study.quote is not None and metric is None)
        self.cells: dict[tuple[str, str], Cell | None] = {}
        self.chosen: dict[tuple[str, str], str] = {}
        self.lines: dict[tuple[str, str], Sequence[str]] = {}  # what makes a cell's runs, but for the seed
        for place, plan in grid.items():
            self.cells[place] = None
            if plan.candidates:
                candidate, ended = best(plan.candidates)
                found = self.cells[place] = cell(candidate.runs, metric=metric)
                self.lines[place] = candidate.overrides
                if candidate.setting is not None and found.results:
                    count = len(plan.candidates)
                    of = f", of {ended}/{count} done" if ended < count else ""
                    key, _, value = candidate.setting.partition("=")
                    self.chosen[place] = f"{key.rpartition('.')[2]}={value}{of}"
        if metric is not None and all(c is None or c.metric != metric for c in self.cells.values()):
            raise ValueError(f"no run of {study.title!r} has the metric {metric!r}")

    def metric_of(self, task: str) -> Metric:
        """Return the metric shown of a task: the table's own where its runs have it, else the task's."""
        shown = {cell.metric for (_, column), cell in self.cells.items() if cell and column == task}
        return METRICS[self.metric] if self.metric in shown else task_metric(task)

    def ours(self, norm: str, task: str) -> str:
        """Return the text of a cell; `-` where no run has ended."""
        if self.study.rows[norm].undefined:
            return "undefined"
        found = self.cells[norm, task]
        chosen = f" [{self.chosen[norm, task]}]" if (norm, task) in self.chosen else ""
        return found.text + chosen if found else "-"

    def published(self, norm: str, task: str) -> Published | None:
        """Return the paper's number where it is shown."""
        return published(task, self.study.rows[norm].norm) if self.shows_paper else None

    def paper(self, norm: str, task: str) -> str:
        """Return the paper's number, marked where no public source confirms it."""
        number = self.published(norm, task)
        return "" if number is None else number.text + ("" if number.confirmed else UNCONFIRMED)

    def verdict(self, norm: str, task: str) -> str:
        """Return the verdict of a cell; none at another scale than the paper's."""
        found = self.cells[norm, task]
        return (found.verdict if found else "not run") if self.comparable else ""

    def best(self, task: str) -> str | None:
        """Return the norm that is significantly better on a task than every other; None where none is."""
        found = {norm: self.cells[norm, task] for norm in self.study.rows}
        if any(c is None or len(c.scores) < len(c.results) or not c.scores for c in found.values()):
            return None
        scores = {norm: c.by_seed for norm, c in found.items() if c is not None}
        return significantly_best(scores, lower_is_better=not self.metric_of(task).higher_is_better)

    def improvement(self, before: str, after: str, task: str) -> tuple[str, str]:
        """Return by how much `after` is better than `before`: ours, then the paper's."""
        cells = self.cells[before, task], self.cells[after, task]
        means = [fmean(c.scores) for c in cells if c is not None and c.scores]
        paper = [published(task, self.study.rows[norm].norm) for norm in (before, after)]
        values = [number.value for number in paper if number is not None and number.value is not None]
        metric = self.metric_of(task)
        sign = 1 if metric.higher_is_better else -1
        digits = max((len(n.text.partition(".")[2]) for n in paper if n is not None and n.value), default=2)
        ours = (
            f"{sign * (means[1] - means[0]) + 0:+.{metric.decimals(means[0])}f}" if len(means) == 2 else "-"
        )
        theirs = f"{sign * (values[1] - values[0]) + 0:+.{digits}f}" if len(values) == 2 else "-"
        return ours, theirs if self.shows_paper else ""
