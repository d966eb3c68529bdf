"""The result of a run or an analysis: result.json.

It is written last: a record that has it has ended.
"""

from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from adanorm.config.sections import TaskConfig
from adanorm.config.titles import METRICS
from adanorm.files import Values, as_json, with_checksum

Status = Literal["done", "diverged", "failed"]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]
Model = TypeVar("Model", bound=BaseModel)


def validated(kind: type[Model], values: Any, name: str = "") -> Model:
    """Return values of JSON as a model; raises ValueError, in one line, if they are no such thing.

    `name` stands in front of the key at fault.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
    key = ".".join(map(str, problem["loc"])) or "it"
    raise ValueError(f"{name}{ascii(key)[1:-1]:.80}: {problem['msg'].lower()}")


class Ended(BaseModel):
    """The fields of every result.

    They stand in result.json in this order, without those that are null.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        populate_by_name=True,
    )

    NULLS: ClassVar[tuple[str, ...]] = ()  # keys that a complete record has even if null
    version: Literal[1] = Field(default=1, alias="schema")
    status: Status
    # The last key but for the checksum; older records lack both.
    files: dict[str, str] | None = Field(
        default=None, exclude=True
    )  # SHA-256 of the record's other files

    @property
    def is_complete(self) -> bool:
        """Whether it is done or diverged. A failed one is tried again."""
        return self.status != "failed"

    def values(self) -> Values:
        """Return the content of result.json without `files` and checksum."""
        nulls = self.NULLS if self.is_complete else ()
        values = self.model_dump(by_alias=True)
        return {key: value for key, value in values.items() if value is not None or key in nulls}

    def sealed(self, files: dict[str, str]) -> bytes:
        """Return the bytes of result.json, with a checksum and the SHA-256 of the other files."""
        return as_json(with_checksum({**self.values(), "files": files}))


class Result(Ended):
    """The result of a run.

    Metrics are by name, sites are names of modules, and `steps` are updates.
    """

    NULLS = ("valid", "test")
    task: str
    norm: str
    scale: str
    seed: int
    precision: str
    own_data: bool
    norm_sites: list[str]
    layernorm_sites: list[str]
    parameters: Count
    norm_parameters: Count
    data: dict[str, str]  # SHA-256 by file
    prepared: dict[str, dict[str, Count]] | None = None  # counts of the data, such as overlaps
    warnings: list[str] | None = None  # of the data, printed before training
    valid: dict[str, float] | None = None  # at the best step; null where it diverged or failed
    test: dict[str, float] | None = None
    best_step: Count | None = None
    steps: Count | None = None
    seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None  # processor time; older records lack it
    # What computed each start, if the starts differ.
    computed_by: Annotated[list[Values], Field(min_length=2)] | None = None
    averaged: list[Count] | None = None  # the updates whose weights were averaged
    signatures: dict[str, str] | None = None  # by metric: how it was computed
    diverged: str | None = None  # the reason
    error: str | None = None  # why it failed
    dry_run: dict[str, Count] | None = (
        None  # of a dry run, which is no result: `peak_memory` in bytes
    )

    @model_validator(mode="after")
    def _diverged_without_scores(self) -> Self:
        if self.status == "diverged" and (self.valid or self.test):
            raise ValueError("a run that diverged has no scores")
        return self

    def test_score(self, metric: str) -> float:
        """Return a test score; the run must be done."""
        assert self.test is not None, f"a run that is {self.status} has no test score"
        return self.test[metric]

    def valid_score(self, metric: str) -> float:
        """Return a validation score at the best step; the run must be done."""
        assert self.valid is not None, f"a run that is {self.status} has no validation score"
        return self.valid[metric]

    @property
    def seconds_alone(self) -> float | None:
        """The seconds it takes when nothing else runs: processor time if that is less.

        None if unrecorded.
        """
        return min(filter(None, (self.seconds, self.cpu_seconds)), default=None)

    @property
    def reason(self) -> str | None:
        """Why it diverged or failed; None if it is done."""
        return self.diverged or self.error


class AnalysisResult(Ended):
    """The result of an analysis: the mean of each quantity at each place, and over all places."""

    analysis: str
    task: str | None = None  # null if nothing is trained
    norm: str
    scale: str | None = None
    seed: int
    norm_sites: list[str] | None = None
    data: dict[str, str] | None = None  # SHA-256 by file
    steps: int | None = None  # updates
    observations: int | None = None
    summary: dict[str, float]
    places: dict[str, dict[str, float]]
    valid: dict[str, float] | None = None  # at the end, if the analysis asks for it
    diverged: str | None = None  # the reason


def outcome(task: TaskConfig, result: Result) -> str:
    """Return a text with the test and validation scores of a result, or why there are none."""
    if result.status != "done":
        return f"{result.status}: {result.reason}"
    metric = task.metric
    criterion = task.selection_metric
    validation = f"validation {criterion if criterion != metric else ''}".rstrip()
    test = result.test_score(metric)
    valid = result.valid_score(criterion)
    return (
        f"test {metric} {METRICS[metric].text(test)}, {validation} {METRICS[criterion].text(valid)}"
    )
