"""The notes below a table, one paragraph each: its scores, its settings, its study's rule."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from adanorm.config.paths import CONF
from adanorm.config.titles import QUANTITIES, title
from adanorm.config.values import dotted, read_yaml_file
from adanorm.records import reader
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.table import (
    Table,
    origin_note,
    table_of,
)
from adanorm.reporting.text import markdown, p_text
from adanorm.stats.comparison import Comparison, compare_gaps
from adanorm.stats.conjunction import pooled
from adanorm.stats.variance import TaskVariance
from adanorm.studies.rule import Compares, Conclusion, Rule, pairs_of
from adanorm.verdicts.cell import cell_of, last_fall
from adanorm.verdicts.rule import (
    Column,
    Decision,
    column_of,
    decide,
    improvement,
    not_worse,
)

OF_SCALES = {"mini": ", whose runs end while the loss still falls and decide no claim of the paper"}
STILL_FALLING = 0.01  # as a share of the validation loss, over a run's last tenth


def notes(table: Table) -> list[str]:
    """Return the notes of a table; docs/tables.md has those that hold for every table."""
    scale = table.study.scale
    lines = [f"Scale: {scale}{OF_SCALES.get(scale, '')}; planned seeds: {_seeds(table)}"]
    for part in (
        _rows_and_columns,
        _tuned,
        _choice,
        _arithmetics,
        _converged,
        _chrf,
        rule_notes,
        _paper,
    ):
        lines += part(table)
    cells = [*table.cells.values(), *table.beside.values()]
    folders = [folder for cell in cells if cell for folder in cell.folders]
    return [*lines, *origin_note(map(reader.record, folders))]


def _name(name: str) -> str:
    return markdown(title(name))


def _seeds(table: Table) -> str:
    """Return the planned seeds, and the cells that have more."""
    planned = table.study.seeds
    more = []
    first_cells = {**table.cells, **table.beside} if table.reads_newest else table.cells
    for (row, task), cell in first_cells.items():
        if cell and len(cell.scores) > len(planned):
            corpus = markdown(table.columns[task].name)
            more.append(f"{_name(row)} on {corpus} {len(cell.scores)}")
    text = f"{', '.join(map(str, planned))}."
    if more:
        text += f" These cells have more: {', '.join(more)}."
        if table.study.rule:
            text += " The study's rule reads only the planned ones."
    if table.beside and table.reads_newest:
        text += (
            " Cells with a row *first plan* have the fresh seeds of later plans, 41 and up, which"
            " govern the norms; the verdicts and the tables below are theirs. The row *first plan*"
            " has the planned seeds."
        )
    elif table.beside:
        text += (
            " *Fresh seeds*, 41 and up, are those of a later plan, which governs the norms; the"
            " tables below are of the planned ones."
        )
    return text


def _rows_and_columns(table: Table) -> list[str]:
    """Return why norms are undefined, the settings of columns, and what difference rows are."""
    rows = table.study.rows
    reasons = dict.fromkeys(row.undefined for row in rows.values() if row.undefined)
    lines = [f"*undefined*: {markdown(reason)}." for reason in reasons]
    for task, changes in table.study.column_overrides.items():
        settings = [markdown(", ".join(changes))]
        for label, row in rows.items():
            if extra := row.column_overrides.get(task):
                settings.append(f"{_name(label)} {markdown(', '.join(extra))}")
        changed = ", ".join(settings)
        lines.append(
            f"The runs of {_name(task)} have {changed}, so the paper's numbers do not apply."
        )
    if table.study.improvements:
        lines.append(
            "Difference rows are differences of the means above; `claims.md` compares norms on"
            " shared seeds."
        )
    return lines


def _tuned(table: Table) -> list[str]:
    """Return the settings chosen for a norm on one task; nothing if the study tries settings."""
    scale = table.study.scale
    if table.study.tries:
        return []
    lines = []
    for group, ending in (("task_norm", ""), ("task_norm_scale", f"_{scale}")):
        chosen: dict[str, None] = {}
        for (label, task), plan in table.grid.items():
            norm = table.study.rows[label].norm
            settings = _tuned_settings(group, f"{task}_{norm}{ending}")
            identity = dict(dotted(plan.runs[0].identity)) if settings and plan.runs else {}
            if settings and settings.items() <= identity.items():
                values = [f"{key.rpartition('.')[2]} = {x}" for key, x in settings.items()]
                chosen[f"{_name(norm)} on {_name(task)}, {', '.join(values)}"] = None
        if chosen:
            where = f"Chosen for a norm on a task, by validation (`conf/{group}/`)"
            lines.append(f"{where}: {'; '.join(chosen)}.")
    return lines


def _tuned_settings(group: str, name: str) -> dict[str, object]:
    """Return a file's settings of the norm and of training, which are chosen by validation."""
    file = CONF / group / f"{name}.yaml"
    values = dotted(read_yaml_file(file)) if file.exists() else ()
    return {key: value for key, value in values if key.startswith(("norm.params.", "training."))}


def _choice(table: Table) -> list[str]:
    """Return the settings that a study with a budget tries, and how it chooses."""
    study = table.study
    if not study.tries:
        return []
    rows = study.rows.items()
    budgets = [f"{_name(label)}: {', '.join(row.budget)}" for label, row in rows if row.budget]
    tried = "; ".join(budgets) or ", ".join(study.budget)
    chosen = "The cell shows the best by mean validation score, and names it."
    return [f"Tried in every cell: {tried}. {chosen}"]


def _arithmetics(table: Table) -> list[str]:
    """Return the columns whose runs differ in arithmetic, each with the number of kinds."""
    mixed = []
    for column in table.columns.values():
        folders = [folder for cell in column.cells.values() for folder in cell.folders]
        kinds = {reader.record(folder).arithmetic for folder in folders} - {None}
        if len(kinds) > 1:
            mixed.append(f"{markdown(column.name)} {len(kinds)} kinds")
    return [f"Runs of one column differ in arithmetic: {', '.join(mixed)}."] if mixed else []


def _converged(table: Table) -> list[str]:
    """Return how far runs at scale small have converged, and the cells that have not."""
    if table.study.scale != "small":
        return []
    largest = {}
    for (label, task), cell in table.cells.items():
        if cell and not cell.count("diverged"):
            falls = [fall for fall in map(last_fall, cell.runs) if fall is not None]
            if falls:
                largest[f"{_name(task)} {_name(label)}"] = max(falls)
    if not largest:
        return []
    most = max(0.0, *largest.values())
    text = f"Over the last tenth of each run, the validation loss fell by at most {most:.1%}."
    falling = [f"{name} ({fall:.1%})" for name, fall in largest.items() if fall > STILL_FALLING]
    if falling:
        text += f" Still falling, by more than {STILL_FALLING:.0%}: {', '.join(falling)}."
    return [text]


def _chrf(table: Table) -> list[str]:
    """Return AdaNorm's lead in chrF2 over each translation and over all together, by shared seeds."""
    if table.study.scale != "small" or not {"adanorm", "layernorm"} <= {*table.study.rows}:
        return []
    texts = []
    comparisons = []
    gaps_of_all = []
    for task, column in table.columns.items():
        scores = {}
        for norm in ("adanorm", "layernorm"):
            cell = column.cells.get(norm)
            if cell and cell.runs:
                scores[norm] = cell_of(cell.runs[0], cell.runs, "chrf").by_seed
        gaps = TaskVariance(scores, 0.0).gaps("layernorm", "adanorm")
        comparison = compare_gaps(gaps, 0.5)
        if comparison is not None:
            comparisons.append(comparison)
            gaps_of_all += gaps
            texts.append(f"{_name(task)} {_lead(comparison)}")
    if not comparisons:
        return []
    behind = sum(gap < 0 for gap in gaps_of_all)
    return [
        f"chrF2, which no plan registered: AdaNorm's lead over LayerNorm is {'; '.join(texts)};"
        f" over these together {_lead(pooled(comparisons))}, with no correction for looks. It is"
        f" behind in {behind} of {len(gaps_of_all)} pairs."
    ]


def _lead(comparison: Comparison) -> str:
    low, high = comparison.interval
    return f"{comparison.gap:+.3f} ({low:+.3f} to {high:+.3f})"


def _paper(table: Table) -> list[str]:
    """Return why the paper's numbers do not apply to the runs, and what marks unconfirmed ones."""
    lines = []
    quote = table.study.quote
    if quote and not table.comparable:
        lines.append(f"Not the paper's data or settings: {markdown(quote)}")
    if any(UNCONFIRMED in table.paper(row, task) for row, task in table.cells):
        source = "quoted from memory of the paper; no public source confirms the row"
        lines.append(f"{UNCONFIRMED} {source}.")
    return lines


def rule_notes(table: Table) -> list[str]:
    """Return the study's rule and its result for every comparison; nothing without a rule."""
    rule = table.study.rule
    if rule is None:
        return []
    columns, families = rule_decisions(table)
    text = _rule(rule, columns)
    decisions = [decision for family in families.values() for decision in family]
    if all(decision.comparison is None and not decision.not_compared for decision in decisions):
        return [f"{text} There are too few runs yet to apply it to."]
    lines = [text]
    lines += [_family(name, family, rule) for name, family in families.items()]
    lines += [_replicated(*rows, columns["test"]) for rows in rule.not_worse]
    return lines + [_concluded(conclusion, decisions) for conclusion in rule.conclusions]


def rule_decisions(
    table: Table,
) -> tuple[dict[Compares, list[Column]], dict[str, list[Decision]]]:
    """Return the rule's columns by quantity and its decisions by family; empty without a rule.

    The columns include those that the rule takes from other studies.
    """
    rule = table.study.rule
    if rule is None:
        return {}, {}
    tables = [
        table,
        *(table_of(name, table.folder) for name in rule.with_columns_of),
    ]
    columns: dict[Compares, list[Column]] = {}
    for quantity in dict.fromkeys(map(rule.quantity_of, rule.families)):
        columns[quantity] = []
        for source in tables:
            for task, column in source.columns.items():
                scores = column_of(
                    source.study,
                    rule,
                    task,
                    quantity,
                    column.cells,
                )
                columns[quantity].append(scores)
    return columns, decide(rule, columns)


def _rule(rule: Rule, columns: Mapping[Compares, Sequence[Column]]) -> str:
    """Return the margins of the study's rule, and how it differs from the usual rule."""
    margins = []
    for quantity, of_quantity in columns.items():
        for column in of_quantity:
            text = f"{_name(column.plan.task)} {column.plan.margin:g}"
            if quantity != "test":
                text += f" of the {QUANTITIES[quantity]}"
            if column.example > column.plan.margin:
                text += f", where one test example is {column.example:.2g}"
            margins.append(text)
    parts = [f"margins {', '.join(margins)}"]
    if rule.folds_overlap is not None:
        variance = "a variance for shared training data (Nadeau & Bengio 2003, overlap"
        parts.append(f"fold by fold, with {variance} {rule.folds_overlap:g})")
    if rule.beyond_margin:
        parts.append("a lead must be beyond the margin")
    if any(quantity.startswith("last_") for quantity in columns):
        parts.append("a lead in a loss is how many nats lower it is")
    if "memorized" in columns:
        parts.append("a lead in wrong labels learned is how many fewer are learned")
    if rule.looks:
        parts.append(f"looks after {', '.join(map(str, rule.looks))} seeds")
    return f"The study's rule: {'; '.join(parts)}."


def _family(name: str, decisions: Sequence[Decision], rule: Rule) -> str:
    """Return the result of each comparison of a family on each of its columns, as one paragraph."""
    texts = []
    for rows, group in groupby(decisions, key=lambda decision: decision.rows):
        alike = list(group)
        text = f"{markdown(leads(list(map(title, rows))))}: {', '.join(map(_decision, alike))}"
        if rule.improves_on is not None:
            words = {
                True: "an improvement",
                False: "no improvement shown",
                None: "undecided",
            }
            text += f": {words[improvement(alike, rule.improves_on)]}"
        texts.append(text)
    return f"By the rule, {markdown(name)} ({len(decisions)} comparisons). {'; '.join(texts)}."


def leads(rows: Sequence[str]) -> str:
    """Return what two or four rows compare: `a over b`, or `a over b, less c over d`."""
    return ", less ".join(f"{first} over {second}" for first, second in pairs_of(rows))


def _decision(decision: Decision) -> str:
    comparison = decision.comparison
    task = _name(decision.column.plan.task)
    if comparison is None:
        return f"{task} {markdown(decision.lack)}"
    values = (comparison.gap, *comparison.interval)
    gap, low, high = (f"{value:+.{comparison.digits}f}" for value in values)
    return f"{task} {gap} [{low}, {high}] p {p_text(comparison.family_p)} *{comparison.answer}*"


def _replicated(first: str, second: str, columns: Sequence[Column]) -> str:
    outcomes = {
        True: "replicated: on every data set it is shown not to be worse by the margin or more",
        False: "not replicated: on some data set it may be worse by the margin or more",
        None: "not run on every data set",
    }
    outcome = outcomes[not_worse(first, second, columns)]
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
        if decision.rows != conclusion.where:
            continue
        if decision.answer:
            state = "borne out" if decision.answer == conclusion.found else "not shown"
        else:
            state = "not compared" if decision.not_compared else "not run"
        tasks[state].append(_name(decision.column.plan.task))
    texts = [f"{state} on {', '.join(names)}" for state, names in tasks.items() if names]
    return f"By the rule, \u201c{markdown(conclusion.says)}\u201d: {'; '.join(texts)}."
