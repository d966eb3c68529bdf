"""How far the paper's columns are upheld, against other formulas and counts by hand."""

import math
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from scipy import stats

from adanorm.reporting.tables.reproducibility import reproducibility_csv, reproducibility_markdown
from adanorm.verdicts.reproducibility import (
    agreement,
    agreements,
    orders_upheld,
    own_upheld,
    variation,
)
from tests.reporting.records import record, rows_of, run_in
from tests.verdicts import not_none


def test_orders_upheld_are_counted_among_those_that_the_paper_has() -> None:
    ours, paper = [1.0, 2.0, 3.0, 2.5], [1.0, 1.0, 4.0, 5.0]
    result = not_none(agreement(ours, paper))
    assert (result.upheld, result.ordered) == (4, 5)
    assert result.spearman == pytest.approx(stats.spearmanr(ours, paper).statistic)
    assert result.pearson == pytest.approx(stats.pearsonr(ours, paper).statistic)
    assert result.p_upheld == pytest.approx(
        stats.kendalltau(ours, paper, alternative="greater").pvalue
    )
    column = [1.0, 2.0, 3.0, 4.0, 5.0]
    for other in ([5.0, 1.0, 2.0, 4.0, 3.0], [4.0, 5.0, 1.0, 2.0, 3.0]):
        untied = not_none(agreement(column, other))
        as_many = [
            orders_upheld(order, other)[0] >= untied.upheld for order in permutations(column)
        ]
        assert untied.p_upheld == pytest.approx(fmean(as_many)), "the chance of as many"
    assert agreement(ours[:2], paper[:2]) is None
    for pair in ((ours, [1.0] * 4), ([1.0] * 4, paper)):
        alike = not_none(agreement(*pair))
        assert (alike.p_upheld, alike.spearman, alike.pearson) == (1, None, None)
    assert orders_upheld([1.0, 2.0, 3.0], [5.0, 6.0, 7.0]) == (3, 3), "one apart is an order"
    assert orders_upheld([1.0, 1.0], [5.0, 6.0]) == (0, 1), "a tie of ours upholds none"


def test_the_coefficient_of_variation_is_unbiased_for_normal_numbers() -> None:
    random = np.random.default_rng(2)
    mean = np.mean([variation(pair) for pair in random.normal(100, 1, (20_000, 2))])
    assert mean == pytest.approx((1 + 1 / 8) * 1.0, rel=0.02)
    of_two = (1 + 1 / 8) * 0.1 / math.sqrt(2) / 35.55 * 100 / 0.797885
    assert variation([35.5, 35.6]) == pytest.approx(of_two, rel=1e-4)
    assert variation([9.0, 10.0, 11.0]) == pytest.approx((1 + 1 / 12) * 10 / 0.886227, rel=1e-4)


def test_one_seed_of_our_own_is_held_against_the_mean_of_the_others() -> None:
    alike = {"a": {1: 1.0, 2: 1.1}, "b": {1: 2.0, 2: 2.1}, "c": {1: 3.0, 2: 3.1}}
    assert own_upheld(alike) == 1
    swapped = {"a": {1: 1.0, 2: 2.0}, "b": {1: 2.0, 2: 1.0}}
    assert own_upheld(swapped) == 0
    assert own_upheld({"a": {1: 1.0}, "b": {1: 2.0}}) is None


PAPERS = {  # the paper's own, but for the recollected Detach Mean, 75.02
    "rt": {"layernorm": 77.21, "adanorm": 77.50, "none": 76.85, "detach-mean": 90.0},
    "enwik8": {"layernorm": 1.07, "adanorm": 1.07, "none": 1.04},
}


def test_columns_are_compared_with_the_confirmed_numbers_and_with_all(tmp_path: Path) -> None:
    def write(task: str, seeds: Sequence[int], turned: float | None = None) -> None:
        for norm, number in PAPERS[task].items():
            ours = number if turned is None else turned - number
            for seed in seeds:
                run = run_in(tmp_path, f"task={task}", f"norm={norm}", "scale=paper", seed=seed)
                record(run, test={run.task.metric: ours})

    write("rt", (1, 2))
    confirmed, every = agreements(str(tmp_path))
    assert (confirmed.task, confirmed.confirmed, every.confirmed) == ("rt", True, False)
    assert (confirmed.upheld, confirmed.ordered, every.upheld, every.ordered) == (3, 3, 3, 6)
    assert confirmed.variation == pytest.approx(0)
    assert (every.norms, every.own_upheld) == (4, 1)
    (first_row, _) = rows_of(reproducibility_csv([confirmed, every]))
    assert (first_row["upheld"], first_row["spearman"]) == ("3", "1.0000")
    assert "| RT | confirmed | 3 | 3 of 3 (100 %) |" in reproducibility_markdown([confirmed, every])
    write("enwik8", (1,))
    write("rt", (1, 2), turned=154.3)  # the norms in the other order
    enwik8, rt, together, *_ = agreements(str(tmp_path))
    assert [column.task for column in (enwik8, rt, together)] == ["enwik8", "rt", ""]
    assert (enwik8.own_upheld, together.own_upheld) == (None, rt.own_upheld)
    assert (rt.upheld, rt.ordered, enwik8.upheld, enwik8.ordered) == (0, 3, 2, 2)
    assert (together.norms, together.upheld, together.ordered) == (6, 2, 5)
    assert rt.variation > enwik8.variation == pytest.approx(0)
    assert together.variation == pytest.approx(rt.variation / 2), "each column counts once"
    assert (rt.spearman, rt.pearson, together.spearman) == pytest.approx((-1, -1, 0))
