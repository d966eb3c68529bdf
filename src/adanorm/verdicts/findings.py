"""Findings of other papers, and predictions for studies, beside the records (conf/claims)."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from statistics import fmean, geometric_mean
from typing import Literal, NamedTuple

from pydantic import Field

from adanorm.analyses.spec import (
    Analysis,
    AnalysisGrid,
    AnalysisRecord,
    Quantity,
    analysis_results,
)
from adanorm.config.paths import CONF
from adanorm.config.sections import Config
from adanorm.config.values import digest_of, read_yaml_file
from adanorm.stats.comparison import Comparison, compare_gaps
from adanorm.stats.conjunction import in_family
from adanorm.studies.rule import Compared
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.rule import Decision

PREDICTIONS = ("gradients-and-memory.yaml", "balance.yaml")
Expected = Literal["better", "worse", "not better", "not worse"]
HELD, AGAINST = "borne out", "contradicted"
# For each expectation, the outcome of each answer; an open answer has none.
OUTCOMES: dict[Expected, dict[str, str]] = {
    "better": {"better": HELD, "worse": AGAINST, "equivalent": "no difference"},
    "worse": {"worse": HELD, "better": AGAINST, "equivalent": "no difference"},
    "not better": {"worse": HELD, "equivalent": HELD, "better": AGAINST},
    "not worse": {"better": HELD, "equivalent": HELD, "worse": AGAINST},
}


class Finding(Config):
    """A published finding: a comparison of two norms, or the entries of a table."""

    id: str
    text: str
    source: str
    analysis: str
    norms: tuple[str, str] | None = None
    quantities: tuple[str, ...] = ()
    expected: Literal["higher", "lower", "not lower"] | None = None
    table: dict[str, list[bool]] = Field(default={})


class FindingRow(NamedTuple):
    """Two norms compared by a quantity on a task: its means, its gaps by seed, and the verdict."""

    task: str
    quantity: Quantity
    means: tuple[float, float]  # geometric where the gap is a ratio
    gaps: list[float]  # one per seed: the second less the first, or their logarithms
    comparison: Comparison | None  # None for one seed or equal gaps
    verdict: str = "undecided"


def load_findings() -> list[Finding]:
    """Return the findings of conf/claims/earlier-papers.yaml."""
    entries = read_yaml_file(CONF / "claims" / "earlier-papers.yaml", list)
    return [Finding.checked(entry, "conf/claims/earlier-papers.yaml: ") for entry in entries]


def finding_rows(finding: Finding, analysis: Analysis, grid: AnalysisGrid) -> list[FindingRow]:
    """Return one row per task and quantity for which both norms have records.

    p is corrected over the rows with a comparison.
    """
    rows = []
    quantities = {quantity.name: quantity for quantity in analysis.shown}
    for task, name in product(analysis.tasks, finding.quantities):
        row = _finding_row(finding, grid, task, quantities[name])
        if row is not None:
            rows.append(row)
    tested = [position for position, row in enumerate(rows) if row.comparison]
    family = in_family([rows[position].comparison for position in tested])
    expected = "behind" if finding.expected == "lower" else "ahead"
    for position, comparison in zip(tested, family, strict=True):
        assert comparison is not None, "of a row with a comparison"
        verdict = "supported" if comparison.sign == expected else "contradicted"
        if comparison.sign == "not told apart":
            verdict = "undecided"
        rows[position] = rows[position]._replace(comparison=comparison, verdict=verdict)
    return rows


def _finding_row(
    finding: Finding, grid: AnalysisGrid, task: str, quantity: Quantity
) -> FindingRow | None:
    """Return the comparison of a finding's norms by a quantity on a task.

    None without shared seeds.
    """
    assert finding.norms is not None, "a comparison names two norms"
    first, second = (_by_seed(grid[norm, task], quantity.name) for norm in finding.norms)
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return None
    scale, mean = (math.log, geometric_mean) if quantity.log else (float, fmean)
    gaps = [scale(second[seed]) - scale(first[seed]) for seed in seeds]
    means = mean(first[seed] for seed in seeds), mean(second[seed] for seed in seeds)
    comparison = compare_gaps(gaps, level=preregistration().level)
    return FindingRow(
        task,
        quantity,
        means,
        gaps,
        comparison,
    )


def _by_seed(cell: Sequence[AnalysisRecord], quantity: str) -> dict[int, float]:
    values = {}
    for result in analysis_results(cell):
        if result.status == "done" and quantity in result.summary:
            values[result.seed] = result.summary[quantity]
    return values


class Prediction(Config):
    """The expected lead between rows in one family of studies' rules.

    Void where `given` is not better.
    """

    id: str
    text: str
    source: str
    studies: tuple[str, ...]
    family: str
    rows: Compared
    expected: Expected
    given: Compared | None = None

    def outcomes(
        self, families: Mapping[str, Sequence[Decision]]
    ) -> Iterator[tuple[Decision, str]]:
        """Yield each column's decision with the prediction's outcome, or why there is none."""
        given_answers = {}
        for decision in chain.from_iterable(families.values()):
            if decision.rows == self.given:
                given_answers[decision.column.plan.task] = decision.answer
        for decision in families[self.family]:
            if decision.rows != self.rows:
                continue
            outcome = OUTCOMES[self.expected].get(str(decision.answer), "open")
            if given_answers.get(decision.column.plan.task, "better") != "better":
                outcome = "void"
            yield decision, decision.lack or f"*{outcome}*"


def load_predictions(file: str) -> tuple[list[Prediction], str]:
    """Return the predictions of a file in conf/claims, and eight hexadecimal digits of it."""
    entries = read_yaml_file(CONF / "claims" / file, list)
    predictions = [Prediction.checked(entry, f"conf/claims/{file}: ") for entry in entries]
    return predictions, digest_of(entries)
