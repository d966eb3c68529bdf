"""A study's own rule, written before any run, applied to what its runs scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from adanorm.studies.rule import Rule
from adanorm.verdicts.comparison import Answer, Comparison
from adanorm.verdicts.conjunction import corrected
from adanorm.verdicts.paired import of_gaps
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.variance import Scores


@dataclass(frozen=True)
class Column:
    """Scores of a column by row and seed, larger ones being better, and the difference that matters.

    Of folds, by norm and fold; `overlap` is then the rule's. `not_compared` has the rows with a run that
    diverged or did not learn, and how many did: what is left of their scores would flatter them.
    """

    task: str
    scale: str
    scores: Scores
    margin: float
    overlap: float = 0.0
    not_compared: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """What a column's runs say of rows that a rule compares; `read` is None without two shared seeds.

    `p` is corrected over the family, in which what has no runs yet counts with a p of 1.
    """

    compared: tuple[str, ...]
    column: Column
    read: Comparison | None
    p: float = 1.0
    beyond_margin: bool = False

    @property
    def not_compared(self) -> dict[str, str]:
        """The rows with a run that diverged or did not learn, and how many did."""
        known = self.column.not_compared
        return {row: known[row] for row in self.compared if row in known}

    @property
    def answer(self) -> Answer | None:
        """Return better, worse, equivalent or open of the first row; None without two shared seeds.

        Equivalent: the 95 % interval lies within the margin, and goes first. Better and worse: p is below
        the level and, if the rule says so, the estimate is beyond the margin.
        """
        if self.read is None:
            return None
        if self.read.interval.within(self.read.margin):
            return "equivalent"
        is_far = not self.beyond_margin or abs(self.read.gap) > self.read.margin
        if self.p >= preregistration().level or not is_far:
            return "open"
        return "better" if self.read.gap > 0 else "worse"


def decide(rule: Rule, columns: Sequence[Column]) -> dict[str, list[Decision]]:
    """Return what is found of every comparison in every column, by the name of its family."""
    found = {}
    for name, family in rule.families.items():
        decisions = [
            Decision(rows, column, _read(rows, column), beyond_margin=rule.beyond_margin)
            for rows in family
            for column in columns
        ]
        ps = corrected([1.0 if d.read is None else d.read.p for d in decisions])
        found[name] = [replace(d, p=p) for d, p in zip(decisions, ps, strict=True)]
    return found


def improvement(decisions: Sequence[Decision], columns: int) -> bool | None:
    """Return whether a row is better in so many columns and worse in none; None while that is open."""
    answers = [decision.answer for decision in decisions]
    if "worse" in answers:
        return False
    if answers.count("better") >= columns and None not in answers:
        return True
    return None if None in answers else False


def not_worse(first: str, second: str, columns: Sequence[Column]) -> bool | None:
    """Return whether a row is shown in every column not to be worse by the margin; None without runs.

    One-sided, and uncorrected: all columns have to show it.
    """
    reads = [_read((first, second), column) for column in columns]
    known = [read for read in reads if read is not None]
    if len(known) < len(reads):
        return None
    return all(read.p_not_inferior < preregistration().level for read in known)


def _read(rows: tuple[str, ...], column: Column) -> Comparison | None:
    """Return the comparison of rows by the seeds that all of them have."""
    scores: list[Mapping[int, float]] = [column.scores.get(row, {}) for row in rows]
    shared = sorted(set.intersection(*({*each} for each in scores)))
    signs = (1, -1, -1, 1)[: len(rows)]
    gaps = [sum(sign * each[seed] for sign, each in zip(signs, scores, strict=True)) for seed in shared]
    return of_gaps(gaps, column.margin, overlap=column.overlap)
