"""The notes below a table, one paragraph each: its scores, its settings, its study's rule."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from adanorm.config.paths import CONF
from adanorm.config.titles import QUANTITIES, title
from adanorm.config.yaml_file import dotted, read_yaml_file
from adanorm.records import reader
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.claims import p_text
from adanorm.reporting.tables.table import Table, origin_note
from adanorm.reporting.text import markdown
from adanorm.studies.rule import Compares, Conclusion, Rule
from adanorm.studies.study import load_study, study_grid
from adanorm.verdicts.cell import Cell, cell_of, last_fall
from adanorm.verdicts.rule import Column, Decision, decide, improvement, not_worse, rule_margin

STILL_FALLING = 0.01  # as a share of the validation loss, over a run's last tenth


def notes(table: Table) -> list[str]:
    """Return the notes of a table; docs/tables.md has those that hold for every table."""
    scale = f"Scale: {table.study.scale}; planned seeds: {_seeds(table)}"
    parts = (_rows_and_columns, _tuned, _choice, _arithmetics, _converged, rule_notes, _paper)
    folders = (folder for cell in table.cells.values() if cell for folder in cell.folders)
    elsewhere = origin_note(map(reader.record, folders))
    return [scale, *(line for part in parts for line in part(table)), *elsewhere]


def _seeds(table: Table) -> str:
    """Return the planned seeds, and the cells that have more."""
    planned = table.study.seeds
    cells = (
        (_name(row), _name(task), len(c.scores)) for (row, task), c in table.cells.items() if c
    )
    more = [f"{row} on {task} {count}" for row, task, count in cells if count > len(planned)]
    beyond = f" These cells have more: {', '.join(more)}." if more else ""
    planned_only = (
        " The study's rule reads only the planned ones." if more and table.study.rule else ""
    )
    return f"{', '.join(map(str, planned))}.{beyond}{planned_only}"


def _converged(table: Table) -> list[str]:
    """Return how far runs at scale small have converged, and the cells that have not."""
    largest: dict[str, float] = {}
    for (label, task), cell in table.cells.items() if table.study.scale == "small" else ():
        runs = cell.runs if cell and not cell.count("diverged") else ()
        if falls := [fall for run in runs if (fall := last_fall(run)) is not None]:
            largest[f"{_name(task)} {_name(label)}"] = max(falls)
    falling = [f"{name} ({fall:.1%})" for name, fall in largest.items() if fall > STILL_FALLING]
    still = (
        f" Still falling, by more than {STILL_FALLING:.0%}: {', '.join(falling)}."
        if falling
        else ""
    )
    fell = "Over the last tenth of each run, the validation loss fell by at most {:.1%}."
    return [fell.format(max(0.0, *largest.values())) + still] if largest else []


def _name(name: str) -> str:
    return markdown(title(name))


def _rows_and_columns(table: Table) -> list[str]:
    """Return why norms are undefined, the settings of single columns, and what difference rows are."""
    rows = table.study.rows
    reasons = dict.fromkeys(row.undefined for row in rows.values() if row.undefined)
    lines = [f"*undefined*: {markdown(reason)}." for reason in reasons]
    for task, changes in table.study.column_overrides.items():
        of_rows = {label: row.column_overrides.get(task) for label, row in rows.items()}
        own = [
            f"{_name(label)} {markdown(', '.join(extra))}"
            for label, extra in of_rows.items()
            if extra
        ]
        changed = ", ".join([markdown(", ".join(changes)), *own])
        lines.append(
            f"The runs of {_name(task)} have {changed}, so the paper's numbers do not apply."
        )
    text = "Difference rows are differences of the means above; `claims.md` compares norms on shared seeds."
    return [*lines, text] if table.study.improvements else lines


def _paper(table: Table) -> list[str]:
    """Return why the paper's numbers do not apply to the runs, and what the mark for unconfirmed means."""
    quote = table.study.quote
    lines = (
        [f"Not the paper's data or settings: {markdown(quote)}"]
        if quote and not table.comparable
        else []
    )
    if any(UNCONFIRMED in table.paper(norm, task) for norm, task in table.cells):
        lines.append(
            f"{UNCONFIRMED} quoted from memory of the paper; no public source confirms the row."
        )
    return lines


def _arithmetics(table: Table) -> list[str]:
    """Return the columns whose runs differ in arithmetic, each with the number of kinds."""
    kinds = {
        task: {
            reader.record(folder).arithmetic
            for c in table.column(task).values()
            for folder in c.folders
        }
        for task in table.study.columns
    }
    mixed = [
        f"{_name(task)} {len(of - {None})} kinds"
        for task, of in kinds.items()
        if len(of - {None}) > 1
    ]
    return [f"Runs of one column differ in arithmetic: {', '.join(mixed)}."] if mixed else []


def _tuned(table: Table) -> list[str]:
    """Return the settings chosen for a norm on one task; nothing if the study itself tries settings."""
    chosen: dict[str, dict[str, None]] = {"task_norm": {}, "task_norm_scale": {}}
    for (label, task), plan in table.grid.items() if not table.study.tries else ():
        norm = table.study.rows[label].norm
        for group, ending in zip(chosen, ("", f"_{table.study.scale}"), strict=True):
            file = CONF / group / f"{task}_{norm}{ending}.yaml"
            of_file = dict(dotted(read_yaml_file(file) if file.exists() else {}))
            own = {
                key: of_file[key]
                for key in of_file
                if key.startswith(("norm.params.", "training."))
            }
            if own and any(
                own.items() <= dict(dotted(run.identity)).items() for run in plan.runs[:1]
            ):
                values = ", ".join(
                    f"{key.rpartition('.')[2]} = {value}" for key, value in own.items()
                )
                chosen[group][f"{_name(norm)} on {_name(task)}, {values}"] = None
    text = "Chosen for a norm on a task, by validation (`conf/{}/`): {}."
    return [text.format(group, "; ".join(of)) for group, of in chosen.items() if of]


def _choice(table: Table) -> list[str]:
    """Return the settings that a study with a budget tries, and how it chooses."""
    study = table.study
    own = [
        f"{_name(label)}: {', '.join(row.budget)}"
        for label, row in study.rows.items()
        if row.budget
    ]
    tried = "; ".join(own) or ", ".join(study.budget)
    text = f"Tried in every cell: {tried}. The cell shows the best by mean validation score, and names it."
    return [text] if study.tries else []


def rule_notes(table: Table) -> list[str]:
    """Return the study's rule and its result for every comparison; nothing without a rule."""
    rule = table.study.rule
    if rule is None:
        return []
    columns, families = rule_decisions(table)
    lead, decisions = _rule(rule, columns), [d for family in families.values() for d in family]
    if all(d.comparison is None and not d.not_compared for d in decisions):
        return [f"{lead} There are too few runs yet to apply it to."]
    paragraphs = [_family(name, family, rule) for name, family in families.items()]
    paragraphs += [_replicated(*pair, columns["test"]) for pair in rule.not_worse]
    return [
        lead,
        *paragraphs,
        *(_concluded(conclusion, decisions) for conclusion in rule.conclusions),
    ]


def rule_decisions(table: Table) -> tuple[dict[Compares, list[Column]], dict[str, list[Decision]]]:
    """Return the columns by quantity and the decisions by family of the study's rule; empty without a rule.

    The columns include those that the rule takes from other studies.
    """
    rule = table.study.rule
    if rule is None:
        return {}, {}
    others = [load_study(name) for name in rule.with_columns_of]
    tables = [table, *(Table(study, study_grid(study, runs=table.folder)) for study in others)]
    columns = {
        quantity: [
            _column(one, rule, task, quantity) for one in tables for task in one.study.columns
        ]
        for quantity in dict.fromkeys(map(rule.quantity_of, rule.families))
    }
    return columns, decide(rule, columns)


def _rule(rule: Rule, columns: Mapping[Compares, Sequence[Column]]) -> str:
    """Return the margins of the study's rule, and how it differs from the usual rule."""
    margins = ", ".join(
        f"{_name(column.task)} {column.margin:g}"
        + ("" if quantity == "test" else f" of the {QUANTITIES[quantity]}")
        + (
            f", where one test example is {column.example:.2g}"
            if column.example > column.margin
            else ""
        )
        for quantity, of_quantity in columns.items()
        for column in of_quantity
    )
    folds = "fold by fold, with a variance for shared training data (Nadeau & Bengio 2003, overlap {:g})"
    of_losses = any(quantity.startswith("last_") for quantity in columns)
    parts = [
        f"margins {margins}",
        folds.format(rule.folds_overlap) if rule.folds_overlap is not None else "",
        "a lead must be beyond the margin" if rule.beyond_margin else "",
        "a lead in a loss is how many nats lower it is" if of_losses else "",
        "a lead in wrong labels learned is how many fewer are learned"
        if "memorized" in columns
        else "",
        f"looks after {', '.join(map(str, rule.looks))} seeds" if rule.looks else "",
    ]
    return f"The study's rule: {'; '.join(filter(None, parts))}."


def _column(table: Table, rule: Rule, task: str, quantity: Compares) -> Column:
    """Return a column's scores by planned seed, or by fold, and the rows that are not compared.

    A rule without looks reads once, when all planned seeds are on record; with folds, those of
    every fold.
    """
    study, cells = table.study, dict[str, Cell]()
    for row, cell in table.column(task).items():
        metric = cell.metric if quantity == "test" else None
        if planned := [run for run in cell.runs if run.seed in study.seeds]:
            cells[row] = cell_of(planned[0], planned, quantity, metric=metric)
    setbacks = {row: cell.setback for row, cell in cells.items() if cell.setback}
    scores = {row: {**cell.by_seed} for row, cell in cells.items() if not cell.setback}
    looks = rule.looks or (len(study.seeds),)
    if (
        rule.folds_overlap is not None
    ):  # a norm with a setback in one fold is not compared by its other folds
        setbacks = {study.rows[row].norm: setback for row, setback in setbacks.items()}
        by_row, scores, looks = scores, {}, (len({row.at for row in study.rows.values()}),)
        for label, of_label in by_row.items():
            norm, fold = study.rows[label].norm, study.rows[label].at
            if len(of_label) == len(study.seeds) and fold is not None and norm not in setbacks:
                scores.setdefault(norm, {})[int(fold)] = fmean(of_label.values())
    margin = rule_margin(rule, task, quantity)
    is_score = quantity == "test" and rule.folds_overlap is None
    example = max((cell.example for cell in cells.values()), default=0.0) if is_score else 0.0
    return Column(task, scores, margin, looks, rule.folds_overlap or 0.0, example, setbacks)


def _family(name: str, decisions: list[Decision], rule: Rule) -> str:
    """Return the result of each comparison of a family on each of its columns, as one paragraph."""
    texts = []
    for rows, group in groupby(decisions, key=lambda decision: decision.compared):
        of_rows = list(group)
        names = [_name(row) for row in rows]
        leads = [f"{names[i]} over {names[i + 1]}" for i in range(0, len(names), 2)]
        text = f"{', less '.join(leads)}: {', '.join(map(_decision, of_rows))}"
        if rule.improves_on is not None:
            verdict = {True: "an improvement", False: "no improvement shown", None: "undecided"}
            text += f": {verdict[improvement(of_rows, rule.improves_on)]}"
        texts.append(text)
    return f"By the rule, {markdown(name)} ({len(decisions)} comparisons). {'; '.join(texts)}."


def _decision(decision: Decision) -> str:
    one, task = decision.comparison, _name(decision.column.task)
    if one is None:
        return f"{task} {markdown(decision.lack)}"
    gap, low, high = (f"{value:+.{one.digits}f}" for value in (one.gap, *one.interval))
    return f"{task} {gap} [{low}, {high}] p {p_text(one.family_p)} *{one.answer}*"


def _replicated(first: str, second: str, columns: list[Column]) -> str:
    outcome = {
        True: "replicated: on every data set it is shown not to be worse by the margin or more",
        False: "not replicated: on some data set it may be worse by the margin or more",
        None: "not run on every data set",
    }[not_worse(first, second, columns)]
    return f"By the rule, {_name(first)} beside {_name(second)}: {outcome}."


def _concluded(conclusion: Conclusion, decisions: Iterable[Decision]) -> str:
    """Return where a conclusion is borne out, where it is not, and where nothing was compared."""
    tasks: dict[str, list[str]] = {
        "borne out": [],
        "not shown": [],
        "not compared": [],
        "not run": [],
    }
    for decision in decisions:
        if decision.compared == conclusion.where:
            state = "borne out" if decision.answer == conclusion.found else "not shown"
            missing = "not compared" if decision.not_compared else "not run"
            tasks[state if decision.answer else missing].append(_name(decision.column.task))
    states = [f"{state} on {', '.join(of_state)}" for state, of_state in tasks.items() if of_state]
    return f"By the rule, \u201c{markdown(conclusion.says)}\u201d: {'; '.join(states)}."
