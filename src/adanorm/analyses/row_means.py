"""Means over the rows that a norm sees in an update."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from adanorm.analyses.hooks import Call, record_norm_calls
from adanorm.analyses.step import Step, Values


def row_means(step: Step, measure: Callable[[Call], dict[str, Tensor]]) -> tuple[int, Values]:
    """Make the step's update and return its units and, for each site, means over rows.

    `measure` returns numbers (N,) of a call's N rows; the mean is over all calls of the update. A
    site that no gradient reaches is left out.
    """
    sums: dict[str, dict[str, Tensor]] = {}
    counts: dict[str, int] = {}

    def seen(site: str, call: Call) -> None:
        if call.dz is None:
            return
        found = sums.setdefault(site, {})
        for name, numbers in measure(call).items():
            total = numbers.double().sum()
            found[name] = found[name] + total if name in found else total
        counts[site] = counts.get(site, 0) + len(numbers)

    with record_norm_calls(step.sites, seen, gradients=True):
        units = step.update().units
    return units, {
        site: {name: total.item() / counts[site] for name, total in sums[site].items()}
        for site in step.sites
        if counts.get(site)
    }
