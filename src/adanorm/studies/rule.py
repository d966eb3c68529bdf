"""The rule by which a study's rows are compared, written in its YAML before any run."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AfterValidator, Field, PositiveFloat, model_validator

from adanorm.config.sections import Config, Positive


def _two_or_four(rows: tuple[str, ...]) -> tuple[str, ...]:
    if len(rows) not in (2, 4):
        raise ValueError(
            f"{list(rows)}: name a row and the row to compare it with, or two such pairs"
        )
    if any(first == second for first, second in pairs_of(rows)):
        raise ValueError(f"{list(rows)}: compares a row with itself")
    return rows


def pairs_of(rows: Sequence[str]) -> list[tuple[str, str]]:
    """Return the one or two pairs of rows that are compared."""
    return list(
        zip(
            rows[::2],
            rows[1::2],
            strict=True,
        )
    )


def _compare_each_once(family: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    """Return a family.

    ValueError for a comparison that occurs twice: p would be corrected for too many.
    """
    seen = set()
    for rows in family:
        comparison = frozenset(map(frozenset, pairs_of(rows)))
        if comparison in seen:
            raise ValueError(f"{list(rows)}: compared twice, in one direction or the other")
        seen.add(comparison)
    return family


def _rise(looks: tuple[int, ...]) -> tuple[int, ...]:
    if sorted(set(looks)) != list(looks):
        raise ValueError(f"looks {list(looks)}: must rise")
    return looks


Look = Annotated[int, Field(ge=2)]  # a number of seeds
RisingLooks = Annotated[tuple[Look, ...], AfterValidator(_rise)]
# [a, b]: a's lead over b. [a, b, c, d]: a's lead over b, less c's lead over d.
Compared = Annotated[tuple[str, ...], AfterValidator(_two_or_four)]
Family = Annotated[tuple[Compared, ...], Field(min_length=1), AfterValidator(_compare_each_once)]
Compares: TypeAlias = Literal[
    "test", "top3", "last_train_loss", "last_valid_loss", "memorized", "recovered"
]


class Margin(Config):
    """The smallest difference that matters on a task: in scores, nats of loss, wrong labels."""

    test: PositiveFloat
    loss: PositiveFloat | None = None
    wrong_labels: PositiveFloat | None = None  # memorized or recovered, in percent
    reason: str

    def of(self, quantity: str) -> float | None:
        """Return the margin of a quantity: a loss, wrong labels, or a score (of validation too).

        None if none is registered.
        """
        if quantity in ("memorized", "recovered"):
            return self.wrong_labels
        return self.loss if quantity.startswith("last_") else self.test


class Conclusion(Config):
    """A sentence that is supported on each column where `where` has the answer `found`."""

    says: str
    where: Compared
    found: Literal["better", "worse", "equivalent"]


class Rule(Config):
    """Which rows are compared, and which answers count; verdicts.rule applies it."""

    families: dict[
        str, Family
    ]  # comparisons whose p-values are corrected together, over all columns
    quantities: dict[str, Compares] = Field(
        default_factory=dict
    )  # for families of other than test scores
    margins: dict[str, Margin] = Field(
        default_factory=dict
    )  # by task, instead of those in conf/claims
    beyond_margin: bool = False  # better and worse need an estimate beyond the margin
    with_columns_of: tuple[str, ...] = ()  # studies whose columns are part of the families
    improves_on: Positive | None = (
        None  # an improvement is better on so many columns, worse on none
    )
    not_worse: tuple[
        tuple[str, str], ...
    ] = ()  # pairs: the first must be worse by the margin in no column
    conclusions: tuple[Conclusion, ...] = ()
    # If set, a row is the fold `at` of a data set, and norms are compared fold by fold. The value
    # counts test examples per training example: folds share training data, which raises the
    # variance.
    folds_overlap: PositiveFloat | None = None
    # Numbers of shared seeds after which rows are read; all looks share one error
    # (verdicts.sequential).
    looks: RisingLooks = ()

    @model_validator(mode="after")
    def _names_its_families(self) -> Self:
        if unknown := {*self.quantities} - {*self.families}:
            raise ValueError(f"quantities: no family {', '.join(map(repr, sorted(unknown)))}")
        comparisons = {*chain(*self.families.values())}
        for conclusion in self.conclusions:
            if conclusion.where not in comparisons:
                raise ValueError(
                    f"conclusion {conclusion.says!r}: no family has {list(conclusion.where)}"
                )
        return self

    def quantity_of(self, family: str) -> Compares:
        """Return the quantity that a family compares."""
        return self.quantities.get(family, "test")

    def rows(self) -> Iterator[str]:
        """Yield the name of every compared row, as often as it occurs."""
        return chain.from_iterable((*chain(*self.families.values()), *self.not_worse))
