"""A study's own rule, written before any run, applied to the scores of its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product

from adanorm.config.titles import QUANTITIES, counted, title
from adanorm.stats.comparison import Answer, Comparison, compare_gaps
from adanorm.stats.conjunction import in_family
from adanorm.stats.sequential import Levels, Looks, last_look
from adanorm.stats.variance import Scores
from adanorm.studies.rule import Compares, Rule
from adanorm.studies.study import Study, load_study
from adanorm.verdicts.preregistration import preregistration


def check_margins(study: Study) -> None:
    """Raise ValueError if the study's rule lacks a margin for something that it compares."""
    if rule := study.rule:
        tasks = [study.columns, *(load_study(name).columns for name in rule.with_columns_of)]
        for task, family in product(chain.from_iterable(tasks), rule.families):
            rule_margin(rule, task, rule.quantity_of(family))


def rule_margin(rule: Rule, task: str, quantity: Compares) -> float:
    """Return the smallest difference that matters by a rule; raises ValueError if there is none."""
    own = rule.margins.get(task)
    margin = preregistration().margin(task, quantity) if own is None else own.of(quantity)
    if margin is None:
        lacking = f"{task} has no margin of the {QUANTITIES[quantity]}"
        raise ValueError(f"the study's rule: {lacking}: write it in `margins`")
    return margin


@dataclass(frozen=True)
class Column:
    """The scores of a column by row and seed, or by norm and fold; larger is better."""

    task: str
    scores: Scores
    margin: float
    looks: tuple[int, ...]  # numbers of shared seeds (or folds) after which rows are read
    overlap: float = 0.0
    example: float = 0.0  # how much one test example changes a score in percent; 0 if unknown
    # Rows with runs that diverged or did not learn, and how many: their other scores would flatter
    # them.
    not_compared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """The decision on rows that a rule compares in a column; no comparison without two shared seeds."""

    compared: tuple[str, ...]
    column: Column
    comparison: Comparison | None

    @property
    def not_compared(self) -> dict[str, str]:
        """The rows with runs that diverged or did not learn, and how many."""
        setbacks = self.column.not_compared
        return {row: setbacks[row] for row in self.compared if row in setbacks}

    @property
    def has_run(self) -> bool:
        """Whether any run of a compared row has ended."""
        return bool(self.not_compared or {*self.compared} & {*self.column.scores})

    @property
    def lack(self) -> str:
        """Why there is no comparison; '' if there is one."""
        if self.comparison is not None:
            return ""
        setbacks = ", ".join(
            f"{title(row)} {setback}" for row, setback in self.not_compared.items()
        )
        shared = len(_shared(self.compared, self.column))
        few = (
            f"too little to compare ({counted(shared, 'shared run')})"
            if shared
            else "no scores to compare"
        )
        return f"not compared ({setbacks})" if setbacks else few

    @property
    def answer(self) -> Answer | None:
        """The answer on the first row; None without two shared seeds."""
        return None if self.comparison is None else self.comparison.answer


def decide(rule: Rule, columns: Mapping[Compares, Sequence[Column]]) -> dict[str, list[Decision]]:
    """Return, by name of the family, the decision on each comparison in each column of its quantity.

    Rows are equivalent if the 95 % interval lies within the margin. p is corrected over the family;
    a comparison without runs counts as p = 1.
    """
    decisions = {}
    for name, family in rule.families.items():
        cases = list(product(family, columns[rule.quantity_of(name)]))
        comparisons = in_family(
            [_compare(*case, beyond_margin=rule.beyond_margin) for case in cases]
        )
        decisions[name] = [
            Decision(*case, one) for case, one in zip(cases, comparisons, strict=True)
        ]
    return decisions


def improvement(decisions: Sequence[Decision], columns: int) -> bool | None:
    """Return whether a row is better in `columns` columns or more, worse in none; None if still open."""
    answers = [decision.answer for decision in decisions]
    if None in answers and "worse" not in answers:
        return None
    return answers.count("better") >= columns and "worse" not in answers


def not_worse(first: str, second: str, columns: Sequence[Column]) -> bool | None:
    """Return whether each column shows, one-sided, a row not worse by the margin; None if one lacks runs."""
    tests = [one for column in columns if (one := _compare((first, second), column)) is not None]
    level = preregistration().level
    return (
        all(one.p_of("not inferior") < level for one in tests)
        if len(tests) == len(columns)
        else None
    )


def _compare(
    rows: tuple[str, ...], column: Column, *, beyond_margin: bool = False
) -> Comparison | None:
    registered, shared = preregistration(), _shared(rows, column)
    seeds = last_look(column.looks, len(shared))
    if seeds is None:
        return None
    level = registered.level
    of_look = Looks(column.looks, registered.stopping.spending, level).levels(seeds).difference
    levels, overlap = Levels(of_look, of_look), column.overlap  # one interval decides sign and size
    signed = [*zip((1, -1, -1, 1), (column.scores[row] for row in rows), strict=False)]
    gaps = [sum(sign * by_seed[seed] for sign, by_seed in signed) for seed in shared[:seeds]]
    return compare_gaps(
        gaps,
        column.margin,
        level=level,
        levels=levels,
        overlap=overlap,
        beyond_margin=beyond_margin,
    )


def _shared(rows: tuple[str, ...], column: Column) -> list[int]:
    return sorted(set.intersection(*({*column.scores.get(row, {})} for row in rows)))
