"""What a run came to, in a line, from its record."""

from __future__ import annotations

from adanorm.config.sections import Task
from adanorm.metrics.table import METRICS
from adanorm.records.result import Result


def outcome(target: Task, result: Result) -> str:
    """Return the test score and the validation score of a result, or why there are none."""
    if result.status != "done":
        return f"{result.status}: {result.reason}"
    metric, criterion = target.metric, target.criterion
    validation = f"validation {criterion if criterion != metric else ''}".rstrip()
    test, valid = result.test_score(metric), result.valid_score(criterion)
    return f"test {metric} {METRICS[metric].text(test)}, {validation} {METRICS[criterion].text(valid)}"
