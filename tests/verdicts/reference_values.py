"""Writes reference_values.csv: `python -m tests.verdicts.reference_values`, where these are installed:

numpy 2.4.6, scipy 1.17.1, statsmodels 0.15.0, baycomp 1.0.3, rliable 1.2.0. They are no dependencies
of the tests, which read the file.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix(".csv")
SIZES = ((2, 2), (3, 5), (5, 5), (10, 20), (30, 4), (7, 7), (4, 9), (1000, 1000))
SCALES = (1e-9, 1e-3, 1.0, 1e3, 1e9)
EFFECTS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0)


def drawn(
    seed: int, first: int, second: int, scale: float, *, ties: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Two groups of scores; with ties, rounded to halves."""
    random = np.random.default_rng(seed)
    groups = random.normal(76.2, 1.0, first), random.normal(75.6, 1.4, second)
    ours, theirs = ((np.round(2 * group) / 2 if ties else group) * scale for group in groups)
    return ours, theirs


def rows() -> Iterator[tuple[object, ...]]:
    """Yield kind, sizes, scale, seed, and two values of another library."""
    from baycomp import two_on_single
    from rliable.metrics import probability_of_improvement
    from scipy import stats
    from statsmodels.stats import power, weightstats
    from statsmodels.stats.multitest import multipletests

    for seed, (first, second) in enumerate(SIZES):
        for scale in SCALES:
            for ties in (False, True):
                ours, theirs = drawn(seed, first, second, scale, ties=ties)
                bound = 0.5 * scale
                kind = "ties" if ties else "drawn"
                if first == second and len({*(ours - theirs)}) > 1:
                    p = stats.ttest_rel(ours, theirs).pvalue
                    tost = weightstats.ttost_paired(ours, theirs, -bound, bound)[0]
                    yield f"paired, {kind}", first, second, scale, seed, p, tost
                if ties and first < 4:
                    continue
                p = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
                tost = weightstats.ttost_ind(ours, theirs, -bound, bound, usevar="unequal")[0]
                yield f"welch, {kind}", first, second, scale, seed, p, tost
        ours, theirs = drawn(seed, first, second, 1.0, ties=True)
        both = probability_of_improvement(ours[:, None], theirs[:, None])
        yield "rliable", first, second, 1.0, seed, both, 1 - both
        if first > 2:
            gaps = drawn(seed, first, first, 1.0)
            below, above = two_on_single(*gaps, rope=0)
            yield "baycomp", first, first, 1.0, seed, below, above
    for seed in range(8):
        ps = np.random.default_rng(seed).uniform(0, 0.2, 3 + seed)
        corrected = multipletests(ps, method="holm")[1]
        yield "holm", len(ps), 0, 1.0, seed, corrected[0], corrected[-1]
    for effect in EFFECTS:
        one = power.TTestPower().solve_power(effect_size=effect, power=0.8, alpha=0.05)
        two = power.TTestIndPower().solve_power(effect_size=effect, power=0.8, alpha=0.05)
        yield "power", 0, 0, effect, 0, float(np.squeeze(one)), float(np.squeeze(two))


if __name__ == "__main__":
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("kind", "first", "second", "scale", "seed", "value", "other_value"))
        for *facts, value, other in rows():
            writer.writerow((*facts, f"{value:.12g}", f"{other:.12g}"))
