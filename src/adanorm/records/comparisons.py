"""Comparisons of two norms example by example, recorded beside the runs they are of."""

from __future__ import annotations

import warnings
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.files import as_json, read_whole, with_checksum, write_whole


class ComparisonRecord(BaseModel):
    """How much the second norm scores above the first, and the noise of seeds and of test examples.

    Variances are of one seed, one example, and the rest; errors are standard errors of `gap`.
    `distribution` and `test_set` are each norm's standard deviations over seeds, where they are known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    scale: str
    metric: str
    norms: tuple[str, str]
    seeds: list[int]
    examples: int
    gap: float
    seed_variance: float | None
    example_variance: float
    rest_variance: float
    seed_error: float | None
    example_error: float
    test_set: dict[str, float] = {}
    distribution: dict[str, float] = {}


def comparison_path(first: Experiment, second: Experiment) -> Path:
    """Return where the comparison of two norms' runs lies, whatever their seeds."""
    folder = Path(first.runs) / "comparisons" if first.runs else PROJECT / "results" / "comparisons"
    digests = (run.model_copy(update={"seed": 0}).digest() for run in (first, second))
    name = f"{first.scale}-{first.norm.name}-{second.norm.name}-{'-'.join(digests)}.json"
    return folder / first.task.name / name


def write_comparison(path: Path, record: ComparisonRecord) -> None:
    """Write a comparison."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, as_json(with_checksum(record.model_dump(mode="json"))))


def read_comparison(first: Experiment, second: Experiment) -> ComparisonRecord | None:
    """Return the comparison of two norms on record, in either order; None where there is none.

    One that is not what was written counts nowhere, after a warning.
    """
    for path in (comparison_path(first, second), comparison_path(second, first)):
        if path.exists():
            try:
                return ComparisonRecord.model_validate(read_whole(path.read_bytes()))
            except ValueError as error:
                reason = "it is no comparison" if isinstance(error, ValidationError) else error
                warnings.warn(f"{path} is not counted: {reason}", stacklevel=1)
    return None
