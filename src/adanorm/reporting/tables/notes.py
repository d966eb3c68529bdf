"""What the reader of a table must know, a paragraph each."""

from __future__ import annotations

from collections.abc import Iterable

from adanorm.config.titles import title
from adanorm.metrics.table import METRICS
from adanorm.records.arithmetic import arithmetic
from adanorm.records.baselines import best_baseline
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.rule_notes import rule_notes
from adanorm.reporting.tables.setting_notes import setting_notes
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.prediction import error_rates
from adanorm.verdicts.preregistration import preregistration

SHIFTS = (0, 1, 2, 3)  # standard deviations, of which error rates are printed


def notes(table: Table) -> list[str]:
    """Return what a reader of the table must know."""
    study = table.study
    found = [
        "Test score at the best validation step, mean ± standard deviation over all seeds on record (planned:"
        f" {', '.join(map(str, study.seeds))}); `-`: not run. Scale: {study.scale}.",
        *_averages(table),
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
            " the column's, corrected for their number (Holm 1979), at 0.05."
        )
    if any(table.baseline(task) for task in study.columns):
        found.append(
            "*Trivial baseline*: the best of what needs no training (`adanorm baselines`). A run that is no"
            " better *did not learn*: it supports no claim about quality."
        )
    found += setting_notes(table)
    found += [*_splits(table), *_axes(table), *_arithmetics(table)]
    found += rule_notes(table)
    undefined = {row.undefined: None for row in study.rows.values() if row.undefined}
    found += [f"*undefined*: {reason}." for reason in undefined]
    for task, changes in study.column_overrides.items():
        own = "".join(
            f", {title(label)} {', '.join(row.column_overrides[task])}"
            for label, row in study.rows.items()
            if task in row.column_overrides
        )
        found.append(
            f"{title(task)} has {', '.join(changes)}{own} here, and no number of the paper's beside it."
        )
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


def _averages(table: Table) -> list[str]:
    """Return which cells with runs have the score of averaged weights in place of the best step's."""
    rows: dict[tuple[str, str], list[str]] = {}
    for (row, task), plan in table.grid.items():
        entry = table.cells[row, task]
        average = plan.runs[0].training.average if entry and entry.results else None
        if average is not None:
            rows.setdefault((task, f"{average.of} {average.count}"), []).append(title(row))
    return [
        f"{title(task)}: the test score is that of the mean of the weights of the {over} evaluations, of"
        f" {', '.join(of)}."
        for (task, over), of in rows.items()
    ]


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
                f"{computed}: {', '.join(f'{row} {_in_spans(of)}' for row, of in rows.items())}"
                for computed, rows in seeds.items()
            ]
            found.append(
                f"{title(task)} has runs that were not computed alike, which moves a score as another seed"
                f" does ({'; '.join(said)})."
            )
    return found


def _in_spans(seeds: Iterable[int]) -> str:
    """Return seeds in order, three or more neighbors as the first and the last: `1, 3 to 28`."""
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][-1] + 1:
            spans[-1].append(seed)
        else:
            spans.append([seed])
    return ", ".join(
        f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans
    )


def _verdicts(table: Table) -> list[str]:
    """Return what the verdicts on the paper's numbers mean, how often they err."""
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
    return found
