"""The rule by which a study's rows are compared, written in its YAML before any run."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from adanorm.config.sections import Config, Positive


def _two_or_four(rows: tuple[str, ...]) -> tuple[str, ...]:
    if len(rows) not in (2, 4):
        raise ValueError(f"{list(rows)}: name a row and the row to compare it with, or two such pairs")
    if any(first == second for first, second in _pairs(rows)):
        raise ValueError(f"{list(rows)}: compares a row with itself")
    return rows


def _pairs(rows: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(zip(rows[::2], rows[1::2], strict=True))


def _compare_each_once(family: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Return a family; ValueError for a comparison that is there twice: p would be corrected for too many."""
    seen = set()
    for rows in family:
        one = frozenset(frozenset(pair) for pair in _pairs(rows))
        if one in seen:
            raise ValueError(f"{list(rows)}: compared twice, in one direction or the other")
        seen.add(one)
    return family


def _rise(looks: tuple[int, ...]) -> tuple[int, ...]:
    if sorted(set(looks)) != list(looks):
        raise ValueError(f"looks {list(looks)}: must rise")
    return looks


Look = Annotated[int, Field(ge=2)]  # a number of seeds
RisingLooks = Annotated[tuple[Look, ...], AfterValidator(_rise)]
# [a, b]: a's lead over b. [a, b, c, d]: by how much a's lead over b is above c's lead over d.
Compared = Annotated[tuple[str, ...], AfterValidator(_two_or_four)]
Family = Annotated[tuple[Compared, ...], Field(min_length=1), AfterValidator(_compare_each_once)]
Compares: TypeAlias = Literal["test", "top3", "last_train_loss", "last_valid_loss", "memorized", "recovered"]


class Margin(Config):
    """The smallest difference that matters on a task: of its test score, a loss in nats, or wrong labels."""

    test: Annotated[float, Field(gt=0)]
    loss: Annotated[float, Field(gt=0)] | None = None
    wrong_labels: Annotated[float, Field(gt=0)] | None = None  # memorized or recovered, in percent
    reason: str

    def of(self, quantity: str) -> float | None:
        """Return that of a quantity: of a loss, of wrong labels, or of scores, those of validation too."""
        if quantity in ("memorized", "recovered"):
            return self.wrong_labels
        return self.loss if quantity.startswith("last_") else self.test


class Conclusion(Config):
    """A sentence that the runs bear out on a column where a comparison has that answer there."""

    says: str
    where: Compared
    found: Literal["better", "worse", "equivalent"]


class Rule(Config):
    """What is compared, and what counts: see verdicts.rule."""

    families: dict[str, Family]  # comparisons whose p-values are corrected together, over all columns
    quantities: dict[str, Compares] = Field(default_factory=dict)  # of families that compare no test score
    margins: dict[str, Margin] = Field(default_factory=dict)  # of tasks without one in conf/claims/paper.yaml
    beyond_margin: bool = False  # better and worse need an estimate beyond the margin
    with_columns_of: tuple[str, ...] = ()  # studies whose columns are part of the families
    improves_on: Positive | None = None  # columns on which a row is better, and worse on none: an improvement
    not_worse: tuple[tuple[str, str], ...] = ()  # pairs: the first must be worse by the margin in no column
    conclusions: tuple[Conclusion, ...] = ()
    # Rows are folds of a data set, one a place `at`, named and paired by fold; the variance is that of folds
    # that share training data, this many tested examples an example trained on.
    folds_overlap: Annotated[float, Field(gt=0)] | None = None
    # Rows are read after so many seeds that they share; all looks together err as one (verdicts.sequential).
    looks: RisingLooks = ()

    @model_validator(mode="after")
    def _speak_of_families(self) -> Self:
        if unknown := {*self.quantities} - {*self.families}:
            raise ValueError(f"quantities: no family {', '.join(map(repr, sorted(unknown)))}")
        compared = {rows for family in self.families.values() for rows in family}
        for conclusion in self.conclusions:
            if conclusion.where not in compared:
                raise ValueError(f"conclusion {conclusion.says!r}: none compares {list(conclusion.where)}")
        return self

    def quantity_of(self, family: str) -> Compares:
        """Return what the comparisons of a family are of."""
        return self.quantities.get(family, "test")

    def rows(self) -> Iterator[str]:
        """Yield every row that is named."""
        for compared in (*(c for family in self.families.values() for c in family), *self.not_worse):
            yield from compared
