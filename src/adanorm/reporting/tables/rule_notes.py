"""What a study's own rule says of its runs, a paragraph a family of comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from adanorm.config.titles import quantity_title, title
from adanorm.records import reader
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.rule import Compares, Conclusion, Rule
from adanorm.studies.study import Study, load_study
from adanorm.verdicts.evidence import grouped
from adanorm.verdicts.margins import rule_margin
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.rule import Column, Decision, decide, improvement, not_worse
from adanorm.verdicts.variance import Scores


def rule_notes(table: Table) -> list[str]:
    """Return what the study's rule is and what it says of every comparison; nothing without a rule."""
    rule = table.study.rule
    if rule is None:
        return []
    quantities = dict.fromkeys(map(rule.quantity_of, rule.families))
    columns = {quantity: _columns(table, rule, quantity) for quantity in quantities}
    pairs = "on the seeds that both share, with its 95 % interval (Student's paired t)"
    if rule.folds_overlap is not None:
        pairs = (
            "fold by fold, with a 95 % interval (Student's paired t, a variance for training data that folds"
            f" share, {rule.folds_overlap:g} tested examples an example trained on: Nadeau & Bengio 2003)"
        )
    lead = (
        "Rule, written before the runs (what was known then stands with it, in the study's YAML): a row's"
        f" lead over another {pairs}; *better* or *worse* where p, corrected over the comparisons of a family"
        f" (Holm 1979), is below {preregistration().level:g}"
        f"{' and the lead is beyond the margin' if rule.beyond_margin else ''}; *equivalent* where the"
        f" interval lies within the margin ({_margins(columns)}); else *open*."
        f"{_OF_LOSSES if rule.quantities else ''}"
    )
    found: dict[str, list[Decision]] = {}
    for name, family in rule.families.items():
        alone = rule.model_copy(update={"families": {name: family}})
        found |= decide(alone, columns[rule.quantity_of(name)])
    every = [decision for decisions in found.values() for decision in decisions]
    if all(d.read is None and not d.not_compared for d in every):
        return [f"{lead} No runs yet that it could be applied to."]
    paragraphs = [_family(name, decisions, rule) for name, decisions in found.items()]
    paragraphs += [_replicated(*pair, columns["test"]) for pair in rule.not_worse]
    return [lead, *paragraphs, *(_concluded(each, every) for each in rule.conclusions)]


_OF_LOSSES = " A lead in a loss, in nats, is by how much it is the lower."


def _columns(table: Table, rule: Rule, quantity: Compares) -> list[Column]:
    """Return the columns of the study and of those that the rule takes with it, its planned seeds alone."""
    folder = next((plan.runs[0].runs for plan in table.grid.values() if plan.runs), None)
    others = [load_study(name) for name in rule.with_columns_of]
    tables = [table, *(Table(study, study_grid(study, runs=folder)) for study in others)]
    found = []
    for each in tables:
        planned = {*each.study.seeds}
        for task in each.study.columns:
            every = each.variance(task).scores if quantity == "test" else _losses(each, task, quantity)
            scores: Scores = {
                row: {seed: score for seed, score in of.items() if seed in planned}
                for row, of in every.items()
            }
            margin, kept_out = rule_margin(rule, task, quantity), _not_compared(each, task)
            if rule.folds_overlap is not None:  # a norm that lost a fold is not compared by the others
                kept_out = {each.study.rows[row].norm: setback for row, setback in kept_out.items()}
                scores = {n: of for n, of in _by_fold(each.study, scores).items() if n not in kept_out}
            overlap = rule.folds_overlap or 0.0
            found.append(Column(task, each.study.scale, scores, margin, overlap, kept_out))
    return found


def _losses(table: Table, task: str, quantity: Compares) -> Scores:
    """Return a column's losses by row and seed, negated: larger is better; of rows whose runs all learned."""
    found = {}
    for (row, column), plan in table.grid.items():
        results = ((run, reader.result(run.folder())) for run in (plan.runs if column == task else ()))
        side = grouped(((run, result) for run, result in results if result is not None), quantity)
        if side.scores and side.all_learned:
            found[row] = side.scores
    return found


def _not_compared(table: Table, task: str) -> dict[str, str]:
    """Return what became of the runs of a column's rows of which one diverged or did not learn."""
    cells = {row: cell for (row, column), cell in table.cells.items() if column == task and cell is not None}
    return {row: cell.setback for row, cell in cells.items() if not cell.all_learned}


def _by_fold(study: Study, scores: Scores) -> Scores:
    """Return the scores of a study of folds by norm and fold, a fold's being the mean over its seeds."""
    found: dict[str, dict[int, float]] = {}
    for label, by_seed in scores.items():
        row = study.rows[label]
        if by_seed and row.at is not None:
            found.setdefault(row.norm, {})[int(row.at)] = fmean(by_seed.values())
    return found


def _margins(columns: Mapping[Compares, Sequence[Column]]) -> str:
    said = []
    for quantity, of in columns.items():
        what = "" if quantity == "test" else f" of the {quantity_title(quantity)}"
        said += [f"{title(column.task)} {column.margin:g}{what}" for column in of]
    return ", ".join(said)


def _family(name: str, decisions: list[Decision], rule: Rule) -> str:
    """Return what was found of a family's comparisons, each with its columns."""
    said = []
    for rows, group in groupby(decisions, key=lambda decision: decision.compared):
        of = list(group)
        text = f"{_compared(rows)}: {', '.join(map(_decision, of))}"
        if rule.improves_on is not None:
            verdict = {True: "an improvement", False: "no improvement shown", None: "undecided"}
            text += f": {verdict[improvement(of, rule.improves_on)]}"
        said.append(text)
    return f"By the rule, {name} ({len(decisions)} comparisons). {'; '.join(said)}."


def _compared(rows: tuple[str, ...]) -> str:
    names = [title(row) for row in rows]
    lead = f"{names[0]} over {names[1]}"
    return lead if len(names) == 2 else f"{lead}, less {names[2]} over {names[3]}"


def _decision(decision: Decision) -> str:
    read, task = decision.read, title(decision.column.task)
    if read is None:
        why = ", ".join(f"{title(row)} {setback}" for row, setback in decision.not_compared.items())
        return f"{task} not compared ({why})" if why else f"{task} no scores to compare"
    digits = max(2, 1 - math.floor(math.log10(read.margin)))
    gap, low, high = (f"{value:+.{digits}f}" for value in (read.gap, *read.interval))
    return f"{task} {gap} [{low}, {high}] p {decision.p:.3f} *{decision.answer}*"


def _replicated(first: str, second: str, columns: list[Column]) -> str:
    said = {
        True: "is shown not to be worse than it by the margin on any data set: replicated",
        False: "is not shown to be no worse than it by the margin on every data set: not replicated",
        None: "has not been run beside it on every data set",
    }
    return (
        f"By the rule, {title(first)} beside {title(second)}: it {said[not_worse(first, second, columns)]}."
    )


def _concluded(conclusion: Conclusion, decisions: Iterable[Decision]) -> str:
    """Return on which columns the sentence is borne out, on which not, and which say nothing."""
    of = [decision for decision in decisions if decision.compared == conclusion.where]
    by_state = {
        "borne out on": [d for d in of if d.answer == conclusion.found],
        "not shown on": [d for d in of if d.answer not in (conclusion.found, None)],
        "not compared on": [d for d in of if d.answer is None and d.not_compared],
        "not run on": [d for d in of if d.answer is None and not d.not_compared],
    }
    said = [
        f"{state} {', '.join(title(d.column.task) for d in them)}" for state, them in by_state.items() if them
    ]
    return f"By the rule, \u201c{conclusion.says}\u201d: {'; '.join(said)}."
