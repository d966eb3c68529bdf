"""What a run or an analysis came to: result.json, written last, so that its presence ends the record."""

from typing import Any, ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from adanorm.config.sections import TaskConfig
from adanorm.files import as_json, with_checksum
from adanorm.metrics.table import METRICS

Status = Literal["done", "diverged", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)


class Ended(BaseModel):
    """What every record has; the fields stand in result.json in their order, nulls left out."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="ignore", allow_inf_nan=False, populate_by_name=True
    )

    NULLS: ClassVar[tuple[str, ...]] = ()  # what is there as null where an ended record has none
    version: Literal[1] = Field(default=1, alias="schema")
    status: Status
    # At the end of the file; a record of older times lacks both.
    files: dict[str, str] | None = Field(default=None, exclude=True)  # SHA-256 of the record's other files

    @property
    def is_complete(self) -> bool:
        """Whether it need not be run again: it is done or diverged; what failed is tried again."""
        return self.status != "failed"

    def values(self) -> dict[str, Any]:
        """Return what result.json says, but for its files and checksum."""
        nulls, values = self.NULLS if self.is_complete else (), self.model_dump(by_alias=True)
        return {key: value for key, value in values.items() if value is not None or key in nulls}

    def sealed(self, files: dict[str, str]) -> bytes:
        """Return the content of result.json with the SHA-256 of the record's other files, and its own."""
        return as_json(with_checksum({**self.values(), "files": files}))


class Result(Ended):
    """What a run came to. Metrics are by name, `steps` updates, and sites names of modules."""

    NULLS = ("valid", "test")
    task: str
    norm: str
    scale: str
    seed: int
    precision: str
    own_data: bool
    norm_sites: list[str]
    layernorm_sites: list[str]
    parameters: int
    norm_parameters: int
    data: dict[str, str]  # SHA-256 by file
    prepared: dict[str, dict[str, int]] | None = None  # what was counted in the data, such as overlaps
    warnings: list[str] | None = None  # what was told of them before training
    valid: dict[str, float] | None = None  # at the best step; null where it diverged or failed
    test: dict[str, float] | None = None
    best_step: int | None = None
    steps: int | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None  # processor time; older records lack it
    computed_by: list[dict[str, Any]] | None = None  # of several starts: what computed each, if not alike
    averaged: list[int] | None = None  # the updates whose weights were averaged
    signatures: dict[str, str] | None = None  # how a metric was counted
    diverged: str | None = None  # why
    error: str | None = None  # of a run that failed
    dry_run: dict[str, int] | None = None  # of a dry run, which is no result: `peak_memory` in bytes

    def test_score(self, metric: str) -> float:
        """Return a test score of a run that is done."""
        assert self.test is not None, f"a run that is {self.status} has no test score"
        return self.test[metric]

    def valid_score(self, metric: str) -> float:
        """Return the validation score at the best step of a run that is done."""
        assert self.valid is not None, f"a run that is {self.status} has no validation score"
        return self.valid[metric]

    @property
    def seconds_alone(self) -> float | None:
        """The seconds that it takes where nothing else runs: those of the processor where they are fewer."""
        return min(filter(None, (self.seconds, self.cpu_seconds)), default=None)

    @property
    def reason(self) -> str | None:
        """Why it diverged or failed; None where it is done."""
        return self.diverged or self.error


class AnalysisResult(Ended):
    """What an analysis came to: each quantity's mean at each place, and over the places."""

    analysis: str
    task: str | None = None  # null where nothing is trained
    norm: str
    scale: str | None = None
    seed: int
    norm_sites: list[str] | None = None
    data: dict[str, str] | None = None  # SHA-256 by file
    steps: int | None = None  # updates
    observations: int | None = None
    summary: dict[str, float]
    places: dict[str, dict[str, float]]
    valid: dict[str, float] | None = None  # at the end, where the analysis asks for it
    diverged: str | None = None  # why


def outcome(target: TaskConfig, result: Result) -> str:
    """Return the test score and the validation score of a result, or why there are none."""
    if result.status != "done":
        return f"{result.status}: {result.reason}"
    metric, criterion = target.metric, target.selection_metric
    validation = f"validation {criterion if criterion != metric else ''}".rstrip()
    test, valid = result.test_score(metric), result.valid_score(criterion)
    return f"test {metric} {METRICS[metric].text(test)}, {validation} {METRICS[criterion].text(valid)}"
