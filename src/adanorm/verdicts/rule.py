"""A study's own rule, written before any run, applied to the scores of its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from adanorm.config.titles import QUANTITIES, counted, title
from adanorm.stats.comparison import Answer, Comparison
from adanorm.stats.conjunction import in_family
from adanorm.stats.sequential import Looks
from adanorm.stats.variance import TaskVariance
from adanorm.studies.rule import Compares, Rule
from adanorm.studies.study import Study, load_study
from adanorm.verdicts.cell import Cell, cell_of
from adanorm.verdicts.plan import Plan, compare_by
from adanorm.verdicts.preregistration import preregistration

Cells: TypeAlias = Mapping[str, Cell]  # of a column, by row


def check_margins(study: Study) -> None:
    """Raise ValueError if the study's rule lacks a margin for something that it compares."""
    rule = study.rule
    if rule is None:
        return
    tasks = [*study.columns]
    for name in rule.with_columns_of:
        tasks += load_study(name).columns
    for task, family in product(tasks, rule.families):
        rule_margin(rule, task, rule.quantity_of(family))


def rule_margin(rule: Rule, task: str, quantity: Compares) -> float:
    """Return the smallest difference that matters by a rule; raises ValueError if there is none."""
    if task in rule.margins:
        margin = rule.margins[task].of(quantity)
    else:
        margin = preregistration().margin(task, quantity)
    if margin is None:
        lacking = f"{task} has no margin of the {QUANTITIES[quantity]}"
        raise ValueError(f"the study's rule: {lacking}: write it in `margins`")
    return margin


def rule_plan(study: Study, rule: Rule, task: str, quantity: Compares) -> Plan:
    """Return the plan by which a rule reads a column.

    A rule without looks reads once, when all planned seeds are on record. One interval, the 95 %
    one, decides both the sign and the size, where claims take the 90 % one for the size.
    """
    registered = preregistration()
    folds = 0
    if rule.folds_overlap is not None:
        folds = len({row.at for row in study.rows.values()})
    looks = (len(study.seeds),) if folds or not rule.looks else rule.looks
    return Plan(
        name="the study's rule",
        task=task,
        scale=study.scale,
        first=min(study.seeds),
        last=max(study.seeds),
        looks=Looks(
            looks,
            registered.stopping.spending,
            registered.level,
        ),
        quantity=quantity,
        margin=rule_margin(rule, task, quantity),
        size_interval="95 %",
        examples="none",
        folds=folds,
        overlap=rule.folds_overlap or 0.0,
    )


@dataclass(frozen=True)
class Column:
    """The scores of a column by row and planned seed, one sample for each fold; larger is better.

    With folds, the rows are norms.
    """

    plan: Plan
    samples: Sequence[TaskVariance]
    example: float = 0.0  # how much one test example changes a score in percent; 0 if unknown
    # Rows with runs that diverged or did not learn, and how many: their other scores would flatter
    # them.
    not_compared: Mapping[str, str] = field(default_factory=dict)

    def shared(self, rows: Sequence[str]) -> int:
        """Return how many seeds the rows share, or how many folds."""
        counts = [len(sample.shared(*rows)) for sample in self.samples]
        return sum(count > 0 for count in counts) if self.plan.folds else counts[0]


def column_of(study: Study, rule: Rule, task: str, quantity: Compares, cells: Cells) -> Column:
    """Return a column's scores by planned seed, and the rows that are not compared.

    `cells` has the column's cells of the study's table.
    """
    plan = rule_plan(
        study,
        rule,
        task,
        quantity,
    )
    planned = {}
    for row, cell in cells.items():
        metric = cell.metric if quantity == "test" else None
        runs = [run for run in cell.runs if run.seed in study.seeds]
        if runs:
            planned[row] = cell_of(
                runs[0],
                runs,
                quantity,
                metric=metric,
            )
    setbacks = {row: cell.setback for row, cell in planned.items() if cell.setback}
    if plan.folds:
        return _column_of_folds(
            study,
            plan,
            planned,
            setbacks,
        )
    scores = {row: cell.by_seed for row, cell in planned.items() if row not in setbacks}
    example = 0.0
    if quantity == "test":
        example = max((cell.example for cell in planned.values()), default=0.0)
    return Column(
        plan,
        [TaskVariance(scores, 0.0)],
        example,
        setbacks,
    )


def _column_of_folds(study: Study, plan: Plan, cells: Cells, setbacks: dict[str, str]) -> Column:
    """Return a column whose rows are norms; one with a setback in a fold is compared by no other."""
    setbacks = {study.rows[row].norm: setback for row, setback in setbacks.items()}
    by_fold: dict[float, dict[str, Mapping[int, float]]] = {}
    for label, row in study.rows.items():
        if row.at is None:
            continue
        scores = by_fold.setdefault(row.at, {})
        by_seed = cells[label].by_seed if label in cells else {}
        if len(by_seed) == len(study.seeds) and row.norm not in setbacks:
            scores[row.norm] = by_seed
    samples = [TaskVariance(scores, 0.0) for scores in by_fold.values()]
    return Column(plan, samples, not_compared=setbacks)


@dataclass(frozen=True)
class Decision:
    """The decision on rows that a rule compares in a column.

    No comparison without two shared seeds.
    """

    rows: tuple[str, ...]
    column: Column
    comparison: Comparison | None

    @property
    def not_compared(self) -> dict[str, str]:
        """The rows with runs that diverged or did not learn, and how many."""
        setbacks = self.column.not_compared
        return {row: setbacks[row] for row in self.rows if row in setbacks}

    @property
    def has_run(self) -> bool:
        """Whether any run of a compared row has ended."""
        has_scores = any({*self.rows} & {*sample.scores} for sample in self.column.samples)
        return bool(self.not_compared) or has_scores

    @property
    def lack(self) -> str:
        """Why there is no comparison; '' if there is one."""
        if self.comparison is not None:
            return ""
        if self.not_compared:
            setbacks = [f"{title(row)} {setback}" for row, setback in self.not_compared.items()]
            return f"not compared ({', '.join(setbacks)})"
        shared = self.column.shared(self.rows)
        if shared:
            return f"too little to compare ({counted(shared, 'shared run')})"
        return "no scores to compare"

    @property
    def answer(self) -> Answer | None:
        """The answer on the first row; None without two shared seeds."""
        return None if self.comparison is None else self.comparison.answer


def decide(rule: Rule, columns: Mapping[Compares, Sequence[Column]]) -> dict[str, list[Decision]]:
    """Return by family the decision on each comparison in each column of its quantity.

    p is corrected over the family; a comparison without runs counts as p = 1.
    """
    decisions = {}
    for name, family in rule.families.items():
        cases = list(product(family, columns[rule.quantity_of(name)]))
        comparisons = [
            compare_by(column.plan, column.samples, rows, beyond_margin=rule.beyond_margin)
            for rows, column in cases
        ]
        corrected = zip(cases, in_family(comparisons), strict=True)
        decisions[name] = [Decision(*case, comparison) for case, comparison in corrected]
    return decisions


def improvement(decisions: Sequence[Decision], columns: int) -> bool | None:
    """Return whether a row is better in `columns` columns or more, worse in none.

    None if still open.
    """
    answers = [decision.answer for decision in decisions]
    if "worse" in answers:
        return False
    return None if None in answers else answers.count("better") >= columns


def not_worse(first: str, second: str, columns: Sequence[Column]) -> bool | None:
    """Return whether each column shows, one-sided, a row not worse by the margin.

    None if one lacks runs.
    """
    shows = []
    for column in columns:
        comparison = compare_by(column.plan, column.samples, (first, second))
        if comparison is None:
            return None
        shows.append(comparison.p_of("not inferior") < comparison.level)
    return all(shows)
