"""Tests that may be looked at after every seed: at which level, so that all looks together err rarely."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Grid: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


class Levels(NamedTuple):
    """Two-sided nominal levels of one look: of a difference, and of equivalence within the margin.

    A fixed plan has `level` and 2 x `level`: equivalence is two one-sided tests.
    """

    difference: float
    equivalence: float


def fixed_levels(level: float) -> Levels:
    """Return the levels of a plan that is looked at once."""
    return Levels(level, 2 * level)


def levels_at(seeds: int, *, level: float, planned: int, most: int, spending: float) -> Levels:
    """Return the levels at which a comparison of so many seeds is read.

    Of at most `planned` seeds: as a fixed plan. Of more: as a group-sequential test, looked at
    after each seed from `planned` to `most`. Raises ValueError beyond `most`.
    """
    if seeds <= planned:
        return fixed_levels(level)
    if seeds > most:
        raise ValueError(f"{seeds} seeds: the plan reads at most {most}")
    return look_levels(seeds, level=level, planned=planned, most=most, spending=spending)


def look_levels(seeds: int, *, level: float, planned: int, most: int, spending: float) -> Levels:
    """Return the levels of the look after so many seeds of a plan with looks from `planned` to `most`."""
    looks = nominal_levels(planned, most, level, spending), nominal_levels(planned, most, 2 * level, spending)
    return Levels(*(found[seeds - planned] for found in looks))


@cache
def nominal_levels(first: int, most: int, level: float, spending: float) -> tuple[float, ...]:
    """Return the two-sided level of each look after `first`, first + 1, ... `most` seeds.

    The looks together reject a true hypothesis with probability `level`, level * (n / most)^spending
    of it by the look after n seeds (power family of Kim & DeMets 1987). For normal scores of known
    variance, by numerical integration (Armitage, McPherson & Rowe 1969; gsdesign's grid); the
    levels are then used with Student's t (Jennison & Turnbull 2000, section 4.4).
    """
    from gsdesign import h1, hupdate
    from scipy.optimize import brentq
    from scipy.stats import norm

    information = np.arange(first, most + 1) / most
    spent = np.diff(level * information**spending, prepend=0.0)
    bound = float(norm.isf(spent[0] / 2))
    grid, bounds = h1(info=information[0], a=-bound, b=bound), [bound]
    for look in range(1, len(information)):
        before, now = information[look - 1], information[look]
        bound = float(brentq(_excess, 0, 20, args=(grid, before, now, spent[look])))
        grid = hupdate(18, 0.0, now, -bound, bound, 0.0, before, grid)
        bounds.append(bound)
    return tuple(2 * float(norm.sf(bound)) for bound in bounds)


def _excess(bound: float, grid: Grid, before: float, now: float, error: float) -> float:
    """Return by how much the probability of first crossing ± bound at a look exceeds `error`.

    `grid` holds the density of the normal score at the look before, within its bounds.
    """
    from scipy.stats import norm

    scores, _, density = grid
    step = np.sqrt(now - before)
    above = norm.sf((bound * np.sqrt(now) - scores * np.sqrt(before)) / step)
    below = norm.cdf((-bound * np.sqrt(now) - scores * np.sqrt(before)) / step)
    return float((above + below) @ density) - error
