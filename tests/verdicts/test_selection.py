"""What choosing one epoch does, against simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adanorm.config.compose import cached_experiment
from adanorm.reporting.tables.epoch_choice import epoch_choice_markdown
from adanorm.verdicts.cell import cell_of, level, top3, with_results
from adanorm.verdicts.epoch_choice import (
    EpochChoice,
    Run,
    Steadier,
    epoch_choice,
    steadier,
    tracked,
)
from tests.reporting.records import record
from tests.verdicts import known


def test_the_level_is_the_mean_of_the_last_third() -> None:
    assert level([1, 1, 1, 9, 2, 4]) == 3
    assert level([5, 7]) == 7
    assert level([]) is None


def test_the_level_of_runs_that_swing_scatters_less_than_an_epoch_chosen_among_them() -> None:
    random = np.random.default_rng(1)
    groups = []
    for mean in (70.0, 75.0, 80.0):  # what sets groups apart is in no standard deviation
        curves = mean + random.normal(0, 0.3, (200, 1)) + random.normal(0, 1.2, (200, 12))
        groups.append([Run(float(curve[9]), curve.tolist()) for curve in curves])
    found = known(epoch_choice("rt", "paper", groups))
    assert (found.runs, found.df) == (600, 597)
    assert found.sd_chosen == pytest.approx((0.3**2 + 1.2**2) ** 0.5, rel=0.06)
    assert found.level.sd == pytest.approx((0.3**2 + 1.2**2 / 4) ** 0.5, rel=0.06)
    assert found.level.variance_ratio == pytest.approx((found.level.sd / found.sd_chosen) ** 2)
    assert found.averaged is None
    assert found.won_on_test == pytest.approx(1.2 * 1.6292, rel=0.06)  # of the largest of 12 normals
    two = known(epoch_choice("rt", "paper", [[Run(1.0, [1.0]), Run(2.0, [4.0])]]))
    assert (two.runs, two.df) == (2, 1)
    assert (two.sd_chosen, two.level.sd, two.won_on_test) == pytest.approx((0.5**0.5, 4.5**0.5, 1.0))
    assert two.level[1:] == pytest.approx((9.0, 0.0, np.inf)), "two runs are too few for an interval"
    alone = [Run(1.0, [1.0])]
    assert epoch_choice("rt", "paper", [alone, []]) is None, "one seed has no deviation"
    assert epoch_choice("rt", "paper", [[Run(1.0, [1.0]), Run(2.0, [4.0])], alone]) == two, "nor any part"


def test_runs_that_averaged_weights_are_compared_with_their_own_chosen_epochs() -> None:
    group = [Run(70.0, [70.0, 71.0], 71.0), Run(74.0, [74.0, 73.0], 73.0)]
    found = known(epoch_choice("rt", "paper", [group], over="last 3"))
    assert (found.over, found.won_by_averaging) == ("last 3", 0.0)
    assert found.averaged is not None
    assert found.averaged[:2] == pytest.approx((2**0.5, 0.25))


def test_seeds_for_ten_are_ten_times_the_ratio_of_variances() -> None:
    level = Steadier(sd=0.5, variance_ratio=0.25, low=0.1, high=0.6)
    line = epoch_choice_markdown([EpochChoice("rt", "paper", 6, 4, 1.0, level, 1.5)]).splitlines()[4]
    fields = [field.strip() for field in line.strip("|").split("|")]
    assert fields[2:] == ["6", "4", "1.000", "0.500", "2.5 (1.0 to 6.0)", "+1.500"]


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_interval_of_a_ratio_of_variances_covers_it_as_often_as_it_says(correlation: float) -> None:
    random = np.random.default_rng(3)
    true, covered = 0.5, 0
    cov = [[1.0, correlation * true**0.5], [correlation * true**0.5, true]]
    for scores in random.multivariate_normal([0, 0], cov, (2000, 2, 7)):  # two groups of seven runs
        found = steadier([*(scores[..., 0] + [[70], [80]])], [*(scores[..., 1] + [[60], [90]])])
        assert found.low < found.variance_ratio < found.high
        covered += found.low < true < found.high
    assert covered / 2000 == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("task", "metric", "sign"), [("rt", "accuracy", 1), ("enwik8", "bpc", -1)])
def test_tracked_runs_are_those_of_all_seeds_that_are_done_and_have_test_scores(
    tmp_path: Path, task: str, metric: str, sign: int
) -> None:
    first = cached_experiment([f"task={task}", "norm=adanorm", "scale=smoke"], runs=str(tmp_path))
    runs = {seed: first.model_copy(update={"seed": seed}) for seed in (1, 2, 3, 4)}
    for seed, run in runs.items():
        run.folder().mkdir(parents=True)
        if seed != 3:
            rows = [{f"test_{metric}": score} for score in (2.0, 3.0, 1.5 + seed)]
            (run.folder() / "test_metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        ended = {"status": "diverged"} if seed == 2 else {"test": {metric: 1.0 + seed}}
        record(run, **ended)
    assert tracked([runs[1]]) == {
        seed: Run(sign * (1.0 + seed), [sign * 2.0, sign * 3.0, sign * (1.5 + seed)]) for seed in (1, 4)
    }, "of seed 3 no test scores, and seed 2 diverged"
    assert tracked([first.model_copy(update={"seed": 5})])[4].chosen == sign * 5.0


def test_the_chosen_epoch_of_a_run_that_averaged_weights_is_that_of_its_best_step(tmp_path: Path) -> None:
    run = cached_experiment(["task=rt", "norm=adanorm", "scale=smoke"], runs=str(tmp_path))
    run.folder().mkdir(parents=True)
    rows = [{"update": update, "test_accuracy": 50.0 + update} for update in (10, 20, 30)]
    (run.folder() / "test_metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    record(run, rows=[{}, {}, {}], test={"accuracy": 64.0}, best_step=20, averaged=[20, 30])
    assert tracked([run]) == {run.seed: Run(70.0, [60.0, 70.0, 80.0], 64.0)}


def test_the_top_3_mean_is_of_the_evaluations_best_by_validation() -> None:
    assert top3([(1.0, 10.0), (5.0, 20.0), (3.0, 30.0), (4.0, 70.0), (3.0, 90.0)]) == 40.0, (
        "of ties the first"
    )
    assert top3([(1.0, 10.0), (2.0, 20.0)]) == 15.0
    assert top3([]) is None


@pytest.mark.parametrize(("task", "metric", "expected"), [("rt", "accuracy", 73.0), ("enwik8", "bpc", -73.0)])
def test_the_top_3_mean_of_a_run_is_signed_like_its_test_score(
    tmp_path: Path, task: str, metric: str, expected: float
) -> None:
    """Validation is best at the second, third and fourth evaluation, by whichever metric and direction."""
    run = cached_experiment([f"task={task}", "norm=adanorm", "scale=smoke"], runs=str(tmp_path))
    run.folder().mkdir(parents=True)
    sign = 1 if run.task.selects_highest else -1
    name = f"valid_{run.task.selection_metric}"
    ended: dict[str, Any] = {"valid": {run.task.selection_metric: 50 + sign * 5}, "test": {metric: 74.0}}
    record(run, rows=[{name: 50 + sign * x} for x in (1, 4, 3, 5)], **ended)
    rows = [json.loads(line) for line in (run.folder() / "metrics.jsonl").read_text().splitlines()]
    tests = [{"update": row["update"], f"test_{metric}": 70.0 + n} for n, row in enumerate(rows, 1)]
    (run.folder() / "test_metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in tests))
    record(run, rows=[{name: 50 + sign * x} for x in (1, 4, 3, 5)], **ended)
    assert cell_of(run, with_results([run]), "top3").by_seed == {run.seed: expected}
