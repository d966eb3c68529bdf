"""The grid of a study's cells, the paper's numbers, differences between rows, and where runs come from."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean

from adanorm.config.experiment import Experiment
from adanorm.config.titles import task_metric, title
from adanorm.metrics.table import METRICS, Metric
from adanorm.records import reader
from adanorm.records.baselines import Baseline, best_baseline
from adanorm.records.published import UNCONFIRMED, Published, published
from adanorm.reporting.text import markdown
from adanorm.stats.conjunction import significantly_best
from adanorm.stats.variance import TaskVariance
from adanorm.studies.study import Study, StudyGrid
from adanorm.verdicts.cell import Cell, Evidence, Quantity, Tried, cell, evidence, value_of
from adanorm.verdicts.pair import published_gap
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.repetition import elsewhere


class Table:
    """The cells of a study by (row, task); a row's name is its label, or else its norm.

    If the study has a budget of settings, a cell shows the best by validation, named in `chosen`.
    `metric`, such as another kind of BLEU, replaces the task's own metric where runs have it.
    Raises ValueError if no run has it.
    """

    def __init__(self, study: Study, grid: StudyGrid, *, metric: str | None = None) -> None:
        self.study, self.grid, self.metric = study, grid, metric
        for name in ("baseline", "best", "evidence", "means", "tries", "variance"):
            setattr(self, name, cache(getattr(self, name)))  # used by many cells and every format
        self.comparable = study.scale == "paper" and not study.varies and metric is None
        self.folder = next(
            (plan.runs[0].runs for plan in grid.values() if plan.runs), None
        )  # of the records
        # The paper's numbers may be shown but not compared with ours.
        self.shows_paper = self.comparable or (study.quote is not None and metric is None)
        self.cells: dict[tuple[str, str], Cell | None] = dict.fromkeys(grid)
        self.tried = {address: [*map(Tried, plan.candidates)] for address, plan in grid.items()}
        self.chosen: dict[tuple[str, str], str] = {}
        self.lines: dict[
            tuple[str, str], Sequence[str]
        ] = {}  # the overrides of a cell's runs, without seed
        for address, tried in self.tried.items():
            if tried:
                candidate, ended = (
                    max(tried, key=Tried.rank).candidate,
                    sum(one.has_ended for one in tried),
                )
                runs = self.cells[address] = cell(candidate.runs, metric=metric)
                self.lines[address] = candidate.overrides
                if candidate.setting is not None and runs.results:
                    of = f", of {ended}/{len(tried)} done" if ended < len(tried) else ""
                    key, _, value = candidate.setting.partition("=")
                    self.chosen[address] = f"{key.rpartition('.')[2]}={value}{of}"
        if metric is not None and all(c is None or c.metric != metric for c in self.cells.values()):
            raise ValueError(f"no run of {study.title!r} has the metric {metric!r}")

    @property
    def lacks_runs(self) -> bool:
        """Whether any cell with planned runs has fewer results than the study has seeds."""
        return any(
            cell and len(cell.results) < len(self.study.seeds) for cell in self.cells.values()
        )

    def column(self, task: str) -> dict[str, Cell]:
        """Return by row the cells of a column that have planned runs."""
        return {row: cell for (row, column), cell in self.cells.items() if column == task and cell}

    def first_run(self, task: str) -> Experiment | None:
        """Return the first run of a column, whose runs share task and data; None if it has no runs."""
        return next(
            (p.runs[0] for (_, column), p in self.grid.items() if column == task and p.runs), None
        )

    def tries(self) -> dict[tuple[str, str], dict[str, Tried]]:
        """Return the tried settings that have ended runs: by (row, setting), then by task."""
        tries: dict[tuple[str, str], dict[str, Tried]] = {}
        for row, task in product(self.study.rows, self.study.columns if self.study.tries else ()):
            for one in self.tried[row, task]:
                tries.setdefault((row, str(one.candidate.setting)), {})[task] = one
        return {
            address: of
            for address, of in tries.items()
            if any(any(one.results) for one in of.values())
        }

    def is_shown(self, norm: str, task: str, tried: Tried) -> bool:
        """Return whether a cell shows the test score of this setting of the budget."""
        return bool(tried.valid) and self.lines.get((norm, task)) == tried.candidate.overrides

    def metric_of(self, task: str) -> Metric:
        """Return the metric of a column's cells, or the task's own if it has no cells."""
        names = [cell.metric for cell in self.column(task).values()]
        return (
            METRICS[self.metric if self.metric in names else names[0]]
            if names
            else task_metric(task)
        )

    def column_title(self, task: str) -> str:
        """Return a column's title: its task, and the settings of its runs that no row names."""
        of_column = self.study.column_overrides.get(task, ())
        return ", ".join([title(task), *self.study.overrides, *of_column])

    def ours(self, norm: str, task: str) -> str:
        """Return the text of a cell; `-` if no run has ended."""
        if self.study.rows[norm].undefined:
            return "undefined"
        cell = self.cells[norm, task]
        if cell is None:
            return "-"
        chosen = f" [{self.chosen[norm, task]}]" if (norm, task) in self.chosen else ""
        metric = METRICS[cell.metric].label
        other_metric = "" if metric == self.metric_of(task).label else f" [{metric}]"
        precisions = {run.precision for run in self.grid[norm, task].runs} - {"fp32"}
        precision = f" [{', '.join(sorted(precisions))}]" if precisions else ""
        return (
            cell.text
            + other_metric
            + chosen
            + self._over(norm, task)
            + precision
            + mark(cell.folders)
        )

    def _over(self, norm: str, task: str) -> str:
        """Return ` [over channels]` for a norm over channels if its column also has norms over other axes."""
        models = {
            row: p.runs[0].model
            for (row, column), p in self.grid.items()
            if column == task and p.runs
        }
        kinds = {row: getattr(model, "norm_axes", "") for row, model in models.items()}
        is_over_channels = kinds.get(norm) == "channels" and len({*kinds.values()}) > 1
        return " [over channels]" if is_over_channels else ""

    def is_compared(self, norm: str, task: str) -> bool:
        """Return whether a cell is compared with the paper's number."""
        row = self.study.rows[norm]
        is_own = task not in self.study.column_overrides and task not in row.column_overrides
        return self.comparable and is_own and row.compared

    def published(self, norm: str, task: str) -> Published | None:
        """Return the paper's number where it is shown, which is only beside scores in the same metric."""
        is_shown = self.is_compared(norm, task) if self.comparable else self.shows_paper
        cell, number = self.cells[norm, task], published(task, self.study.rows[norm].norm)
        is_alike = number is None or cell is None or METRICS[cell.metric].label == number.metric
        return number if is_shown and is_alike else None

    def paper(self, norm: str, task: str) -> str:
        """Return the paper's number as text, marked if no public source confirms it."""
        number = self.published(norm, task)
        return "" if number is None else number.text + ("" if number.confirmed else UNCONFIRMED)

    def verdict(self, norm: str, task: str) -> str:
        """Return a cell's verdict on the paper's number; empty if the two are not compared."""
        if not self.is_compared(norm, task):
            return ""
        cell = self.cells[norm, task]
        return cell.verdict(self.evidence(task).variance.within) if cell else "not run"

    def evidence(self, task: str) -> Evidence:
        """Return the evidence on a task under the registered norms, from the table's folder of records."""
        return evidence(task, self.study.scale, runs=self.folder)

    def variance(self, task: str) -> TaskVariance:
        """Return the variance over seeds of a column, from cells whose runs all learned; larger is better."""
        scores = {row: cell.by_seed for row, cell in self.column(task).items() if not cell.setback}
        return TaskVariance(scores, preregistration().prior_df_at_most)

    def best(self, task: str) -> str | None:
        """Return the row that is significantly better on a task than every other row; None if none is."""
        cells = [self.cells[norm, task] for norm in self.study.rows]
        if any(cell is None or len(cell.by_seed) < len(cell.results) for cell in cells):
            return None
        return significantly_best(self.variance(task), preregistration().level)

    def baseline(self, task: str) -> Baseline | None:
        """Return the best trivial baseline on a column's data; None if none is recorded."""
        run = self.first_run(task)
        return best_baseline(run, self.metric or run.task.metric) if run else None

    def means(self, norm: str, task: str, *quantities: Quantity) -> list[float]:
        """Return the means of quantities over those runs of a cell that have them all; empty if none has."""
        rows, cell = [], self.cells[norm, task]
        for run, result in zip(cell.runs, cell.results, strict=True) if cell else ():
            values = [value_of(run, result, one) for one in quantities if result.status == "done"]
            present = [value for value in values if value is not None]
            rows += [present] if len(present) == len(quantities) else []
        return [fmean(of_one) for of_one in zip(*rows, strict=True)]

    def improvement(self, before: str, after: str, task: str) -> tuple[str, str]:
        """Return by how much row `after` is better than row `before`, as text: ours, then the paper's."""
        cells = [self.cells[row, task] for row in (before, after)]
        means = [fmean(cell.scores) for cell in cells if cell and cell.scores]
        metric, ours, theirs = self.metric_of(task), "-", "-"
        if len(means) == 2:
            ours = f"{metric.sign * (means[1] - means[0]) + 0:+.{metric.decimals(means[0])}f}"
        norms = [self.study.rows[row].norm for row in (after, before)]
        if gap := published_gap(task, *norms):
            numbers = [number.text for norm in norms if (number := published(task, norm))]
            theirs = f"{gap.value + 0:+.{max(len(text.partition('.')[2]) for text in numbers)}f}"
        return ours, theirs


def origins(one: reader.Record) -> list[str]:
    """Return the other places where a run was made, in words; most runs have none."""
    texts = (
        [f"contributed, {one.environment['device']}, {one.contribution}"]
        if one.contribution
        else []
    )
    others = [other for other in reader.contributed(one.folder) if other is not one]
    return texts + [f"repeated elsewhere, {elsewhere(one, other)}" for other in others]


def mark(folders: Iterable[Path]) -> str:
    """Return in brackets how many runs of a cell were contributed, and how many repeated elsewhere."""
    texts = (text for folder in folders for text in origins(reader.record(folder)))
    kinds = Counter(text.partition(",")[0] for text in texts)
    return (
        f" [{', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}]"
        if kinds
        else ""
    )


def origin_note(records: Iterable[reader.Record]) -> list[str]:
    """Return a note in Markdown on the records made elsewhere; empty if there are none."""
    texts = [
        f"{' '.join(map(title, one.folder.parts[-3:-1]))} seed {one.identity['seed']} {text}"
        for one in records
        for text in origins(one)
    ]
    return (
        [markdown(f"Made elsewhere: {'; '.join(texts)}. All others: committed here.")]
        if texts
        else []
    )
