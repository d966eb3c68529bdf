"""A study's cells, the paper's numbers, differences between rows, and where runs come from."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from adanorm.config.experiment import Experiment
from adanorm.config.titles import METRICS, Metric, counted, task_metric, title
from adanorm.records import reader
from adanorm.records.baselines import Baseline, best_anchor, best_baseline
from adanorm.records.lines import once
from adanorm.records.published import (
    UNCONFIRMED,
    Published,
    published,
)
from adanorm.reporting.text import markdown
from adanorm.stats.conjunction import significantly_best
from adanorm.stats.variance import Spread, TaskVariance
from adanorm.studies.study import (
    Candidate,
    Study,
    StudyGrid,
    load_study,
    study_grid,
)
from adanorm.verdicts.cell import Cell, cell
from adanorm.verdicts.evidence import evidence, fresh_cell, fresh_plan
from adanorm.verdicts.pair import Pair, published_gap
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.preregistration import (
    first_plan,
    preregistration,
)
from adanorm.verdicts.quantities import Quantity
from adanorm.verdicts.repetition import elsewhere
from adanorm.verdicts.tried import Tried

Address: TypeAlias = tuple[str, str]  # a row and a task, or a row and a setting


class Table:
    """The cells of a study by (row, task); a row's name is its label, or else its norm.

    A cell has the seeds of the newest plan, and `beside` those of the first plan. A study with a rule
    reads its own seeds, and `beside` has fresh ones.

    If the study has a budget of settings, a cell shows the best by validation, named in `chosen`.
    `metric`, such as another kind of BLEU, replaces the task's own metric where runs have it.
    Raises ValueError if no run has it.
    """

    def __init__(
        self,
        study: Study,
        grid: StudyGrid,
        *,
        metric: str | None = None,
    ) -> None:
        self.study = study
        self.grid = grid
        self.metric = metric
        self.comparable = study.scale == "paper" and not study.varies and metric is None
        # The paper's numbers may be shown but not compared with ours.
        self.shows_paper = self.comparable or (study.quote is not None and metric is None)
        self.reads_newest = study.rule is None
        self.cells: dict[Address, Cell | None] = dict.fromkeys(grid)
        self.beside: dict[Address, Cell] = {}
        self.tried: dict[Address, list[Tried]] = {}
        self.chosen: dict[Address, str] = {}
        self.lines: dict[Address, Sequence[str]] = {}  # overrides of a cell, without seed
        self.folder: str | None = None  # of the records
        for address, plan in grid.items():
            if not plan.candidates:
                continue
            shown = plan.candidates[0]
            self.folder = shown.runs[0].runs
            if study.tries:
                self.tried[address] = [*map(Tried, plan.candidates)]
                shown = max(self.tried[address], key=Tried.rank).candidate
            self._show(address, shown)
        self.columns = {task: TaskColumn(self, task) for task in study.columns}
        if metric and all(cell is None or cell.metric != metric for cell in self.cells.values()):
            raise ValueError(f"no run of {study.title!r} has the metric {metric!r}")

    def _show(self, address: Address, candidate: Candidate) -> None:
        """Set the cell of an address to the runs of one of its settings."""
        shown = cell(candidate.runs, metric=self.metric)
        fresh = None if self.metric else fresh_cell(candidate.runs[0])
        if fresh is not None and self.reads_newest:
            self.beside[address] = shown
            shown = replace(fresh, paper=shown.paper)
        elif fresh is not None:
            self.beside[address] = fresh
        self.cells[address] = shown
        self.lines[address] = candidate.overrides
        if candidate.setting is None or not shown.results:
            return
        key, _, value = candidate.setting.partition("=")
        self.chosen[address] = f"{key.rpartition('.')[2]}={value}"
        tried = self.tried[address]
        ended = sum(setting.has_ended for setting in tried)
        if ended < len(tried):
            self.chosen[address] += f", of {ended}/{len(tried)} done"

    @property
    def begun(self) -> "list[TaskColumn]":
        """The columns that have an ended run."""
        return [column for column in self.columns.values() if column.begun]

    @property
    def lacks_runs(self) -> bool:
        """Whether any cell with planned runs has fewer results than the study has seeds."""
        planned = len(self.study.seeds)
        return any(cell and len(cell.results) < planned for cell in self.cells.values())

    @cached_property
    def tries(self) -> dict[Address, dict[str, Tried]]:
        """The tried settings that have ended runs: by (row, setting), then by task."""
        tries: dict[Address, dict[str, Tried]] = {}
        begun = set()
        for row, task in product(self.study.rows, self.study.columns):
            for tried in self.tried.get((row, task), ()):
                setting = tried.candidate.setting
                if setting is not None:
                    tries.setdefault((row, setting), {})[task] = tried
                    if any(tried.results):
                        begun.add((row, setting))
        return {address: by_task for address, by_task in tries.items() if address in begun}

    def is_shown(self, row: str, task: str, tried: Tried) -> bool:
        """Return whether a cell shows the test score of this setting of the budget."""
        return bool(tried.valid) and self.lines.get((row, task)) == tried.candidate.overrides

    def ours(self, row: str, task: str) -> str:
        """Return the text of a cell; `-` if no run has ended."""
        if self.study.rows[row].undefined:
            return "undefined"
        cell = self.cells[row, task]
        column = self.columns[task]
        if cell is None:
            return "-"
        text = cell.text
        if self.reads_newest and (row, task) in self.beside:
            text = _with_seeds(cell)
        marks = []
        label = METRICS[cell.metric].label
        if label != column.metric.label:
            marks.append(label)
        if (row, task) in self.chosen:
            marks.append(self.chosen[row, task])
        if column.axes.get(row) == "channels" and len({*column.axes.values()}) > 1:
            marks.append("over channels")
        precisions = {run.precision for run in self.grid[row, task].runs} - {"fp32"}
        if precisions:
            marks.append(", ".join(sorted(precisions)))
        elsewhere_made = made_elsewhere(cell.folders)
        if elsewhere_made:
            marks.append(elsewhere_made)
        marks += on_gpu(cell)
        return " ".join([text, *(f"[{mark}]" for mark in marks)])

    @property
    def label_beside(self) -> str:
        """Which seeds the cells beside have."""
        return "first plan" if self.reads_newest else "fresh seeds"

    def text_beside(self, row: str, task: str) -> str:
        """Return the text of the cell beside, with its seeds and its verdict; empty without runs."""
        cell = self.beside.get((row, task))
        if cell is None or not cell.results:
            return ""
        text = with_gpu(_with_seeds(cell), cell)
        if self.reads_newest and self.is_compared(row, task):
            text += f": {cell.verdict(self.columns[task].first_spread)}"
        return text

    def is_compared(self, row: str, task: str) -> bool:
        """Return whether a cell is compared with the paper's number."""
        about = self.study.rows[row]
        is_changed = task in self.study.column_overrides or task in about.column_overrides
        return self.comparable and about.compared and not is_changed

    def published(self, row: str, task: str) -> Published | None:
        """Return the paper's number where it is shown: only beside scores in the same metric."""
        is_shown = self.is_compared(row, task) if self.comparable else self.shows_paper
        cell = self.cells[row, task]
        number = published(task, self.study.rows[row].norm)
        if number and cell and METRICS[cell.metric].label != number.metric:
            return None
        return number if is_shown else None

    def paper(self, row: str, task: str) -> str:
        """Return the paper's number as text, marked if no public source confirms it."""
        number = self.published(row, task)
        if number is None:
            return ""
        return number.text if number.confirmed else number.text + UNCONFIRMED

    def verdict(self, row: str, task: str) -> str:
        """Return a cell's verdict on the paper's number; empty if the two are not compared."""
        if not self.is_compared(row, task):
            return ""
        cell = self.cells[row, task]
        return cell.verdict(self.columns[task].spread) if cell else "not run"

    def means(self, row: str, task: str, *quantities: Quantity) -> list[float]:
        """Return the means of quantities over the runs of a cell that have them all, or []."""
        cell = self.cells[row, task]
        if cell is None:
            return []
        by_quantity = [cell.values(quantity) for quantity in quantities]
        seeds = set.intersection(*map(set, by_quantity))
        if not seeds:
            return []
        return [fmean(map(values.__getitem__, seeds)) for values in by_quantity]

    def improvement(self, before: str, after: str, task: str) -> tuple[str, str]:
        """Return by how much row `after` is better than `before`, as text: ours, the paper's."""
        theirs = "-"
        rows = before, after
        cells = [self.cells[row, task] for row in rows]
        beside = [self.beside.get((row, task)) for row in rows]
        if self.reads_newest and None in beside:  # only the first plan has both
            cells = [first or cell for first, cell in zip(beside, cells, strict=True)]
        ours = self._lead(*cells)
        norms = [self.study.rows[row].norm for row in (after, before)]
        if gap := published_gap(task, *norms):
            numbers = [published(task, norm) for norm in norms]
            digits = max(len(number.text.partition(".")[2]) for number in numbers if number)
            theirs = f"{gap.value + 0:+.{digits}f}"
        return ours or "-", theirs

    def improvement_beside(self, before: str, after: str, task: str) -> str:
        """Return by how much row `after` is better in the cells beside, as text; empty without."""
        return self._lead(self.beside.get((before, task)), self.beside.get((after, task)))

    def _lead(self, first: Cell | None, second: Cell | None) -> str:
        """Return by how much the second cell's mean is better, as text; empty without scores."""
        if not (first and second and first.scores and second.scores):
            return ""
        metric = METRICS[first.metric]
        mean = fmean(first.scores)
        lead = metric.sign * (fmean(second.scores) - mean)
        return f"{lead + 0:+.{metric.decimals(mean)}f}"


class TaskColumn:
    """The cells of one task in a table, and what is the same for all of them."""

    def __init__(self, table: Table, task: str) -> None:
        self.table = table
        self.task = task
        # By row, only of cells with planned runs:
        self.first_runs: dict[str, Experiment] = {}
        self.cells: dict[str, Cell] = {}
        for row in table.study.rows:
            cell = table.cells[row, task]
            if cell is not None:
                self.cells[row] = cell
                self.first_runs[row] = table.grid[row, task].runs[0]
        self.begun = any(cell.results for cell in self.cells.values())

    @cached_property
    def run(self) -> Experiment | None:
        """The first run, with which all others share task and data; None if none is planned."""
        return next(iter(self.first_runs.values()), None)

    @cached_property
    def axes(self) -> dict[str, str]:
        """Over which axes each row's norm is, where its model leaves a choice; otherwise ''."""
        runs = self.first_runs.items()
        return {row: getattr(run.model, "norm_axes", "") for row, run in runs}

    @cached_property
    def metric(self) -> Metric:
        """The metric of the cells, or the task's own if there are none."""
        names = [cell.metric for cell in self.cells.values()]
        if not names:
            return task_metric(self.task)
        asked = self.table.metric
        return METRICS[asked if asked in names else names[0]]

    @property
    def name(self) -> str:
        """The title of the task, or of its corpus at the study's scale."""
        return title(self.task, self.table.study.scale)

    @cached_property
    def title(self) -> str:
        """The name, and the settings of the column's runs that no row names."""
        study = self.table.study
        changes = study.column_overrides.get(self.task, ())
        return ", ".join([self.name, *study.overrides, *changes])

    @property
    def label(self) -> str:
        """The title with the metric of the test scores."""
        return f"{self.title} ({self.metric.label})"

    @property
    def validation_label(self) -> str:
        """The title with the metric of the validation scores."""
        assert self.run is not None, "only columns with runs have this label"
        return f"{self.title} ({METRICS[self.run.task.selection_metric].label})"

    @cached_property
    def first_spread(self) -> Spread | None:
        """The spread over seeds of the first plan's records of the task's norms at this scale."""
        return self._spread(first_plan(self.task, self.table.study.scale))

    @cached_property
    def spread(self) -> Spread | None:
        """The spread over the seeds that the cells have, of all records of the task's norms."""
        is_newest = self.table.reads_newest and any(
            task == self.task for _, task in self.table.beside
        )
        plan = fresh_plan(self.run) if is_newest and self.run else None
        return self._spread(plan) if plan else self.first_spread

    def _spread(self, plan: Plan) -> Spread | None:
        return evidence(plan, runs=self.table.folder).variance.within

    @cached_property
    def variance(self) -> TaskVariance:
        """The variance over seeds, from cells whose runs all learned; larger is better."""
        scores = {row: cell.by_seed for row, cell in self.cells.items() if not cell.setback}
        return TaskVariance(scores, preregistration().prior_df_at_most)

    @cached_property
    def best(self) -> str | None:
        """The row that is significantly better than every other row; None if none is."""
        cells = self.cells.values()
        has_setback = any(len(cell.by_seed) < len(cell.results) for cell in cells)
        if has_setback or len(cells) < len(self.table.study.rows):
            return None
        return significantly_best(self.variance, preregistration().level)

    @cached_property
    def baseline(self) -> Baseline | None:
        """The best trivial baseline on the data; None if none is recorded."""
        return self._best(best_baseline)

    @property
    def baseline_text(self) -> str:
        """The score and the name of the best trivial baseline; empty if none is recorded."""
        return self._text(self.baseline)

    @property
    def anchor_text(self) -> str:
        """The score and the name of the best outside model; empty if none is recorded."""
        return self._text(self._best(best_anchor))

    def _best(self, best: Callable[[Experiment, str], Baseline | None]) -> Baseline | None:
        if self.run is None:
            return None
        return best(self.run, self.table.metric or self.run.task.metric)

    def _text(self, baseline: Baseline | None) -> str:
        if baseline is None:
            return ""
        return f"{self.metric.text(baseline.score)} ({baseline.name})"


def table_of(name: str, runs: str | None = None, metric: str | None = None) -> Table:
    """Return the table of the study of this name; `runs` is the records' folder."""
    return _table_of(
        name,
        runs,
        metric,
    )


@once
def _table_of(name: str, runs: str | None, metric: str | None) -> Table:
    study = load_study(name)
    return Table(
        study,
        study_grid(study, runs=runs),
        metric=metric,
    )


@once
def origins(record: reader.Record) -> list[str]:
    """Return the other places where a run was made, in words; most runs have none."""
    texts = []
    if record.contribution:
        texts.append(f"contributed, {record.environment.get('device')}, {record.contribution}")
    for repeated in reader.contributed(record.folder):
        if repeated is not record:
            texts.append(f"repeated elsewhere, {elsewhere(record, repeated)}")
    return texts


def on_gpu(cell: Cell, seeds: Collection[int] = ()) -> list[str]:
    """Return how many runs of a cell were made on a GPU, in words; empty if none was.

    Only runs with these seeds count, if any are named.
    """
    folders = [run.folder() for run in cell.runs if not seeds or run.seed in seeds]
    count = sum("cuda" in reader.record(folder).environment for folder in folders)
    if not count:
        return []
    return ["GPU" if count == len(folders) else f"{count} on GPU"]


def _with_seeds(cell: Cell) -> str:
    return f"{cell.text} ({counted(len(cell.scores), 'seed')})"


def with_gpu(text: str, cell: Cell) -> str:
    """Return a text about a cell, marked if some of its runs were made on a GPU."""
    return " ".join([text, *(f"[{mark}]" for mark in on_gpu(cell))])


def seeds_text(seeds: int, pair: Pair) -> str:
    """Return the number of seeds compared, and which of their runs were made on a GPU."""
    marks = []
    for norm, side in zip(pair.norms, pair.sides, strict=True):
        marks += [f"{title(norm)}: {mark}" for mark in on_gpu(side, pair.seeds[:seeds])]
    return f"{seeds} [{', '.join(marks)}]" if marks else str(seeds)


def made_elsewhere(folders: Iterable[Path]) -> str:
    """Return how many runs of a cell were contributed, and how many repeated elsewhere."""
    texts = [text for folder in folders for text in origins(reader.record(folder))]
    kinds = Counter(text.partition(",")[0] for text in texts)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def origin_note(
    records: Iterable[reader.Record],
) -> list[str]:
    """Return a note in Markdown on the records made elsewhere; empty if there are none."""
    texts = []
    for record in records:
        task, norm = record.folder.parts[-3:-1]
        name = f"{title(task)} {title(norm)} seed"
        texts += [f"{name} {record.identity['seed']} {text}" for text in origins(record)]
    if not texts:
        return []
    return [markdown(f"Made elsewhere: {'; '.join(texts)}. All others: committed here.")]
