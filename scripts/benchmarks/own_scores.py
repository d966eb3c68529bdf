"""Simulate how often `compare` errs on scores of one's own: `python -m scripts.benchmarks.own_scores`.

Without a difference, how often it says better or worse; at a difference of one margin, how often it
says equivalent. With looks, at any of them. Deviations are in units of one score's over seeds.
Writes results/bench/own_scores.csv.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from adanorm.config.paths import PROJECT
from adanorm.stats.comparison import compare_groups, groups_of
from adanorm.stats.conjunction import at_look
from adanorm.stats.sequential import Looks, Numbers
from adanorm.verdicts import compare

DRAWS = 20_000
FILE = PROJECT / "results" / "bench" / "own_scores.csv"
Draw = Callable[[np.random.Generator], tuple[Any, Any]]


class Case(NamedTuple):
    """How scores are drawn, and the looks, if any."""

    name: str
    draw: Draw
    margin: float
    looks: tuple[int, ...] = ()


def lists(first: int, second: int, *, spread: float = 1.0, is_sorted: bool = False) -> Draw:
    """Return a source of two lists, the second with a deviation of its own."""

    def draw(random: np.random.Generator) -> tuple[Numbers, Numbers]:
        ours, theirs = random.normal(size=first), random.normal(0, spread, second)
        return (np.sort(ours), np.sort(theirs)) if is_sorted else (ours, theirs)

    return draw


def by_seed(shared: int, rest: Sequence[int], correlation: float, spread: float = 1.0) -> Draw:
    """Return a source of two dictionaries that share seeds, with `rest` further scores of each."""

    def draw(random: np.random.Generator) -> tuple[dict[int, float], dict[int, float]]:
        blocks = random.normal(size=shared) * np.sqrt(correlation)
        sides: list[dict[int, float]] = []
        for side, (more, deviation) in enumerate(zip(rest, (1.0, spread), strict=True)):
            alone = random.normal(size=shared) * np.sqrt(1 - correlation)
            scores = [*(deviation * (blocks + alone)), *random.normal(0, deviation, more)]
            seeds = [*range(shared), *range(1000 * (side + 1), 1000 * (side + 1) + more)]
            sides.append(dict(zip(seeds, scores, strict=True)))
        return sides[0], sides[1]

    return draw


def by_cluster(seeds: int, clusters: int, noise: float, *, shared: bool) -> Draw:
    """Return a source of scores per cluster of examples; the gap's mean has the deviation `noise`."""

    def draw(random: np.random.Generator) -> tuple[Any, Any]:
        of_clusters = random.normal(size=clusters) * noise * np.sqrt(clusters)
        sides = []
        for sign in (0.5, -0.5):
            of_seeds = random.normal(size=(seeds, 1))
            rest = random.normal(size=(seeds, clusters)) * 2
            rest -= rest.mean(axis=1, keepdims=True)
            sides.append(of_seeds + sign * of_clusters + rest)
        if not shared:
            return sides[0], sides[1]
        return dict(enumerate(sides[0])), dict(enumerate(sides[1]))

    return draw


def cases() -> Iterator[Case]:
    """Yield every case."""
    for first, second in ((5, 5), (10, 10), (10, 20), (20, 5)):
        for is_sorted in (False, True):
            for spread in (1.0, 3.0):
                name = f"lists of {first} and {second}, {'sorted' if is_sorted else 'as drawn'}"
                draw = lists(first, second, spread=spread, is_sorted=is_sorted)
                yield Case(f"{name}, deviations 1 and {spread:g}", draw, 1.5)
    for shared, rest in ((3, (3, 3)), (5, (5, 5)), (10, (3, 3)), (16, (0, 4))):
        for correlation in (0.0, 0.45, 0.9):
            name = (
                f"{shared} shared seeds, {rest[0]} and {rest[1]} more, correlation {correlation:g}"
            )
            yield Case(name, by_seed(shared, rest, correlation), 1.0)
    for seeds, clusters in ((5, 20), (10, 100)):
        for noise in (0.0, 0.5):
            for shared in (True, False):
                design = "paired" if shared else "independent"
                name = f"{seeds} seeds, {design}, {clusters} clusters with noise {noise:g}"
                yield Case(name, by_cluster(seeds, clusters, noise, shared=shared), 1.5)
    for looks in ((6, 10, 16), (3, 5, 10)):
        name = f"looks after {', '.join(map(str, looks))}"
        yield Case(f"{name}, paired", by_seed(looks[-1], (0, 0), 0.45), 1.0, looks)
        independent = by_seed(0, (looks[-1], looks[-1]), 0.0)
        yield Case(f"{name}, independent", independent, 1.0, looks)
        half = by_seed(looks[-1] // 2, (looks[-1], looks[-1]), 0.45)
        yield Case(f"{name}, partly paired", half, 1.0, looks)


def ever(case: Case, gap: float, wrong: set[str], random: np.random.Generator) -> bool:
    """Return whether one draw with a true gap gets a wrong answer, at any look."""
    first, second = case.draw(random)
    if isinstance(first, dict):
        first = {seed: score + gap for seed, score in first.items()}
    else:
        first = first + gap
    if not case.looks:
        comparison = compare(first, second, case.margin)
        return comparison is not None and comparison.answer in wrong
    plan = Looks(case.looks, 1.5)
    ours, theirs = groups_of([first, second], None)
    for look in case.looks:
        groups = at_look(ours, theirs, look)
        comparison = compare_groups(*groups, case.margin, levels=plan.levels(look))
        if comparison is not None and comparison.answer in wrong:
            return True
    return False


def measured(index: int) -> tuple[object, ...]:
    """Return the row of a case by its number."""
    case = [*cases()][index]
    random = np.random.default_rng(0)
    shares = []
    for gap, wrong in ((0.0, {"better", "worse"}), (case.margin, {"equivalent"})):
        shares.append(sum(ever(case, gap, wrong, random) for _ in range(DRAWS)) / DRAWS)
    return case.name, case.margin, *shares, DRAWS


def main() -> None:
    """Write the table."""
    rows = []
    with ProcessPoolExecutor() as processes:
        for row in processes.map(measured, range(len([*cases()]))):
            print(*row, sep=" | ", flush=True)
            rows.append(row)
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("case", "margin", "wrong_without_gap", "equivalent_at_margin", "draws"))
        writer.writerows(rows)


if __name__ == "__main__":
    main()
