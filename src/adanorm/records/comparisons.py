"""Comparisons of two norms example by example, recorded beside the runs they are of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from adanorm.config.experiment import Experiment
from adanorm.config.paths import PROJECT
from adanorm.files import write_whole


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


def write_comparison(path: Path, found: ComparisonRecord) -> None:
    """Write a comparison."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = found.model_dump(mode="json")
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def read_comparison(first: Experiment, second: Experiment) -> ComparisonRecord | None:
    """Return the comparison of two norms on record, in either order; None where there is none."""
    for path in (comparison_path(first, second), comparison_path(second, first)):
        if path.exists():
            return ComparisonRecord.model_validate_json(path.read_bytes())
    return None
