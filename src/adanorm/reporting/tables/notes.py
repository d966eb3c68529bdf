"""What the reader of a table must know, a paragraph each."""

from __future__ import annotations

import re
from functools import cache

from adanorm.config.paths import CONF, choices
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.arithmetic import arithmetic
from adanorm.records.baselines import best_baseline
from adanorm.records.published import UNCONFIRMED, published
from adanorm.reporting.names import task_metric, title
from adanorm.reporting.tables.rule_notes import rule_notes
from adanorm.reporting.tables.table import Table
from adanorm.reporting.verdicts.prediction import Shift, column_shift, error_rates
from adanorm.reporting.verdicts.preregistration import preregistration
from adanorm.reporting.verdicts.selection import luck_of_choice

MARKS = ("assumed", "recollected")  # of settings that the paper does not state, in conf/task
SHIFTS = (0, 1, 2, 3)  # standard deviations, of which error rates are printed


def notes(table: Table) -> list[str]:
    """Return what a reader of the table must know."""
    study = table.study
    found = [
        "Test score at the best validation step, mean ± standard deviation over all seeds on record (planned:"
        f" {', '.join(map(str, study.seeds))}); `-`: not run. Scale: {study.scale}."
    ]
    if any(table.metric_of(task) == METRICS["bleu"] for task in study.columns):
        found.append(
            "BLEU: on the corpus's own words, without smoothing, as multi-bleu and fairseq-score count it"
            " (sacrebleu: tok:none, smooth:none). `adanorm tables NAME metric=sacrebleu` prints"
            " that of running text, `metric=compound_bleu` that with compounds split."
        )
    if any(table.best(task) for task in study.columns):
        found.append(
            "**Bold**: better than every other norm of the column, by tests whose variance is their own and"
            " the column's, corrected for their number (Holm-Šidák), at 0.05."
        )
    if any(table.baseline(task) for task in study.columns):
        found.append(
            "*Trivial baseline*: the best of what needs no training (`adanorm baselines`). A run that is no"
            " better *did not learn*: it supports no claim about quality."
        )
    found += [*_settings(table), *_choice(table), *_splits(table), *_axes(table), *_arithmetics(table)]
    found += rule_notes(table)
    undefined = {row.undefined: None for row in study.rows.values() if row.undefined}
    found += [f"*undefined*: {reason}." for reason in undefined]
    if not table.comparable:
        why = "its numbers are not comparable."
        found.append(f"Not the paper's data or settings: {study.quote or why}")
    else:
        found += _verdicts(table)
    if any(UNCONFIRMED in table.paper(norm, task) for norm, task in table.cells):
        verdict = ", and no verdict is given against it" if table.comparable else ""
        found.append(
            f"{UNCONFIRMED} from a recollection of the paper; no public source confirms the row{verdict}."
        )
    return found


def _settings(table: Table) -> list[str]:
    counts = {
        mark: {task: _marked(task, mark) for task in table.study.columns if task in choices("task")}
        for mark in MARKS
    }
    said = {
        mark: ", ".join(f"{title(task)} {count}" for task, count in found.items() if count)
        for mark, found in counts.items()
    }
    if not any(said.values()):
        return []
    parts = [f"Settings that the paper leaves open, marked *assumed* in `conf/task/`: {said['assumed']}."]
    if said["recollected"]:
        parts.append(f"Settings that no public source confirms, marked *recollected*: {said['recollected']}.")
    return [" ".join(parts)]


@cache
def _marked(task: str, mark: str) -> int:
    """Return how many lines of a task's configuration, and of what it inherits, carry a mark."""
    files = [CONF / "task" / f"{task}.yaml"]
    files += [CONF / "task" / f"{name}.yaml" for name in _SHARED.findall(files[0].read_text("utf-8"))]
    marked = re.compile(rf"#.*\b{mark}\b")
    lines = (
        line for file in files for line in file.read_text("utf-8").splitlines() if not line.startswith("#")
    )
    return sum(bool(marked.search(line)) for line in lines)


_SHARED = re.compile(r"^  - (shared/\S+)", re.MULTILINE)


def _choice(table: Table) -> list[str]:
    """Return what a study with a budget chooses by, and what the choice wins by luck."""
    study = table.study
    if not study.tries:
        return []
    own = "; ".join(
        f"{title(label)}: {', '.join(row.budget)}" for label, row in study.rows.items() if row.budget
    )
    tried = f"The same budget for every cell: {', '.join(study.budget)}"
    if own:
        tried = f"As many settings are tried in every cell ({own})"
    found = (
        f"{tried}. Shown is the best by mean validation score over the seeds, in brackets which; test"
        " scores had no part in it."
    )
    wins = {task: _luck(table, task) for task in table.study.columns}
    said = [
        f"{title(task)} {luck[0]:+.2f} (chosen on test scores it would win {luck[1]:+.2f})"
        for task, luck in wins.items()
        if luck is not None
    ]
    if not said:
        return [found]
    return [
        f"{found} If no setting matters, the best of {study.tries} wins by luck alone: {', '.join(said)}."
    ]


def _luck(table: Table, task: str) -> tuple[float, float] | None:
    """Return what the best of the budget's settings wins on a task if none matters, in test score."""
    valid, test = [], []
    for (_, column), plan in table.grid.items():
        for candidate in plan.candidates if column == task else ():
            target = candidate.runs[0].task
            results = [reader.result(run.folder()) for run in candidate.runs]
            done = [r for r in results if r is not None and r.status == "done" and r.valid]
            signs = (METRICS[name].higher_is_better for name in (target.selection_metric, target.metric))
            by_valid, by_test = (1 if higher else -1 for higher in signs)
            valid.append([by_valid * r.valid_score(target.selection_metric) for r in done])
            test.append([by_test * r.test_score(target.metric) for r in done])
    return luck_of_choice(valid, test, tried=table.study.tries, seeds=len(table.study.seeds))


def _splits(table: Table) -> list[str]:
    """Return how hard the two parts of a text are, where bits per character are shown."""
    found = []
    for task in table.study.columns:
        run = next((plan.runs[0] for (_, t), plan in table.grid.items() if t == task and plan.runs), None)
        if run is None or run.task.metric != "bpc":
            continue
        parts = {split: best_baseline(run, "bpc", split) for split in ("test", "valid")}
        if parts["test"] and parts["valid"]:
            found.append(
                f"{title(task)}: bits per character of the test part, on which the {parts['test'].name} has"
                f" {parts['test'].score:.2f}; on the validation part it has {parts['valid'].score:.2f}, so"
                " that scores of the two parts are no measure of each other."
            )
    return found


def _axes(table: Table) -> list[str]:
    """Return what the norms of a column are over, where they differ in it."""
    found = []
    for task in table.study.columns:
        axes: dict[str, list[str]] = {}
        for (row, column), kind in table.axes.items():
            if column == task:
                axes.setdefault(kind, []).append(title(table.study.rows[row].norm))
        if len(axes) > 1:
            of = {
                "channels": "over the channels",
                "all": "over all units of a layer",
                "width": "over rows of pixels",
            }
            said = [f"{', '.join(dict.fromkeys(norms))} {of.get(kind, kind)}" for kind, norms in axes.items()]
            kinds = {2: "two", 3: "three"}[len(axes)]
            found.append(f"{title(task)} has norms of {kinds} kinds in one column: {'; '.join(said)}.")
    return found


def _arithmetics(table: Table) -> list[str]:
    """Return what computed the runs of a column, where not all of them were computed alike."""
    found = []
    for task in table.study.columns:
        seeds: dict[str, dict[str, list[int]]] = {}
        for (row, column), entry in table.cells.items():
            for folder, result in zip(entry.folders, entry.results, strict=True) if entry else ():
                if column == task and (computed := arithmetic(folder)) is not None:
                    seeds.setdefault(computed, {}).setdefault(title(row), []).append(result.seed)
        if len(seeds) > 1:
            said = [
                f"{computed}: "
                + ", ".join(f"{row} {', '.join(map(str, sorted(of)))}" for row, of in rows.items())
                for computed, rows in seeds.items()
            ]
            found.append(
                f"{title(task)} has runs that were not computed alike, which moves a score as another seed"
                f" does ({'; '.join(said)})."
            )
    return found


def _verdicts(table: Table) -> list[str]:
    """Return what the verdicts on the paper's numbers mean, how often they err, and the columns' tests."""
    found = [
        "Verdict on the paper's number, with its percentile in the distribution of one more run (Student's t,"
        " the standard deviation pooled over the norms of the task): *consistent*: within the central 80 %;"
        " *differs*: outside the central 95 %; *inconclusive*: between."
    ]
    begun = [task for task in table.study.columns if table.evidence(task).variance.within is not None]
    if begun:
        spread = table.evidence(begun[0]).variance.within
        assert spread is not None, "of a column with runs"
        count = preregistration().stopping.planned
        rates = [error_rates(count, spread.df, shift) for shift in SHIFTS]
        by_shift = [
            f"{shift} s {100 * r['consistent']:.0f}/{100 * r['inconclusive']:.0f}/{100 * r['differs']:.0f} %"
            for shift, r in zip(SHIFTS, rates, strict=True)
        ]
        found.append(
            f"How often the verdict falls, consistent/inconclusive/differs, at {count} seeds of each norm, if"
            f" the paper's mean lies so many standard deviations from ours: {', '.join(by_shift)}."
        )
    shifts = {task: _shift(table, task) for task in begun}
    said = [
        f"{title(task)} {shift.mean:+.2f} over {shift.norms} norms (p {shift.p_apart:.2f} if the paper's runs"
        f" were independent{_if_shared(shift)})"
        for task, shift in shifts.items()
        if shift is not None
    ]
    return (
        [*found, f"Whole columns against the paper's confirmed numbers: {'; '.join(said)}."]
        if said
        else found
    )


def _if_shared(shift: Shift) -> str:
    return "" if shift.p_shared is None else f", {shift.p_shared:.2f} if they shared a seed"


def _shift(table: Table, task: str) -> Shift | None:
    """Return how far our column lies from the paper's, in the metric's own direction."""
    sign = 1 if task_metric(task).higher_is_better else -1
    numbers = {norm: published(task, norm) for norm in preregistration().norms}
    confirmed = {
        norm: sign * n.value
        for norm, n in numbers.items()
        if n is not None and n.confirmed and n.value is not None
    }
    shift = column_shift(table.evidence(task).variance.scores, confirmed)
    return shift and shift._replace(mean=sign * shift.mean)
