"""The answer to a claim on each task: by the plan that decides it, from its first look on."""

from itertools import product
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy import stats

from adanorm.reporting.tables.answers import answer_rows, answers_markdown, headline
from adanorm.stats.sequential import nominal_levels
from adanorm.verdicts.claims import TaskAnswer, TaskResult, first_plan_results, task_answers
from adanorm.verdicts.preregistration import Claim, preregistration
from tests.reporting.records import record, run_in
from tests.verdicts import not_none


def claim(*tasks: str) -> Claim:
    return Claim(
        id="a", text="a", source="a", better="adanorm", worse="layernorm", tasks=list(tasks)
    )


def pair_with_top3(
    folder: Path, seed: int, layernorm: float, adanorm: float, *settings: str, task: str = "rt"
) -> None:
    """A run of each norm whose three evaluations best by validation have this mean test score."""
    first = [f"task={task}", f"scale={preregistration().plans_of(task)[-1].scale}", *settings]
    for norm, score in (("layernorm", layernorm), ("adanorm", adanorm)):
        run = run_in(folder, *first, f"norm={norm}", seed=seed)
        selection, metric = run.task.selection_metric, run.task.metric
        rows = [{f"valid_{selection}": value} for value in (80.0, 10.0, 81.0, 82.0)]
        tests = (score + 3, 99.0, score - 3, score)
        record(
            run,
            rows=rows,
            tests=tests,
            valid={selection: 82.0},
            test={metric: score},
        )


def answer(folder: Path, task: str) -> TaskAnswer:
    (one,) = task_answers(claim(task), runs=str(folder))
    return one


def first_plan_results_of(folder: Path) -> list[TaskResult]:
    results = first_plan_results(str(folder))
    return [result for result in results if result.claim.id == "adanorm"]


def test_fresh_seeds_are_read_at_their_looks_by_the_mean_of_three_evaluations(
    tmp_path: Path,
) -> None:
    gaps = np.random.default_rng(0).normal(0.2, 0.3, 12).tolist()
    for seed, gap in enumerate(gaps, 41):
        pair_with_top3(tmp_path, seed, 70.0, 70.0 + gap)
    one = answer(tmp_path, "rt")
    assert (one.plan.name, one.plan.scale, one.pairs, one.next_look) == ("fresh", "paper", 12, 20)
    first_ten = gaps[:10]  # the eleventh and twelfth pair wait for the next look
    comparison = not_none(one.comparison)
    assert comparison.gap == pytest.approx(fmean(first_ten))
    level = nominal_levels((10, 20, 40), 0.05, 1.5)[0]
    reach = stats.t.isf(level / 2, 9) * stdev(first_ten) / 10**0.5
    assert comparison.interval.high - comparison.gap == pytest.approx(reach)
    assert comparison.margin == 0.5


def test_until_the_first_look_the_first_plan_stands_and_no_plan_has_anothers_seeds(
    tmp_path: Path,
) -> None:
    for seed in range(1, 4):
        pair_with_top3(
            tmp_path,
            seed,
            70.0 + 0.1 * seed,
            72.0 + 0.1 * seed**2,
        )
    before = answer(tmp_path, "rt")
    assert (before.plan.name, before.pairs) == ("first", 3)
    for seed in range(41, 50):
        pair_with_top3(tmp_path, seed, 70.0, 20.0 + seed)
    assert answer(tmp_path, "rt") == before
    beside, _ = task_answers(claim("rt", "sst5"), runs=str(tmp_path))
    assert beside.family_p == pytest.approx(min(1.0, 2 * before.family_p)), (
        "corrected over the claim's tasks"
    )
    pair_with_top3(tmp_path, 50, 70.0, 70.0)
    after = answer(tmp_path, "rt")
    assert (after.plan.name, after.before[0].comparison) == ("fresh", before.comparison), (
        "it stays decided"
    )
    assert [row[3] for row in answer_rows([after])] == ["", "10"], "one answer"
    (first,) = first_plan_results_of(tmp_path)
    page = answers_markdown([after], [first])
    now, history = page.partition("## What earlier plans answered")[::2]
    assert "| RT | accuracy, mean of three evaluations | fresh | 10 |" in now
    assert "| first | RT | accuracy | AdaNorm over LayerNorm | 3 |" in history
    assert "seed 41: " in history, "every pair that is read"


def test_folds_are_compared_by_their_means_with_a_variance_for_shared_sentences(
    tmp_path: Path,
) -> None:
    leads = {fold: 0.1 * fold for fold in range(1, 6)}
    for fold, seed in product(leads, (1, 2, 3)):
        adanorm = 80.0 + seed + leads[fold] + 0.01 * seed
        pair_with_top3(
            tmp_path,
            seed,
            80.0 + seed,
            adanorm,
            f"data.fold={fold}",
            task="ptb",
        )
    one = answer(tmp_path, "ptb")
    assert answer_rows([one])[1][3] == "3 x 5"
    comparison = not_none(one.comparison)
    means = [lead + 0.02 for lead in leads.values()]
    assert comparison.gap == pytest.approx(fmean(means))
    assert comparison.error == pytest.approx(stdev(means) * (1 / 5 + 0.288) ** 0.5)


def test_norms_with_a_diverged_run_are_not_compared_and_wait_for_no_runs(tmp_path: Path) -> None:
    for seed, norm in product((1, 2, 3), ("layernorm", "adanorm")):
        run = run_in(
            tmp_path,
            "task=de-en",
            "scale=small",
            f"norm={norm}",
            seed=seed,
        )
        status = "diverged" if (norm, seed) == ("adanorm", 2) else "done"
        record(run, status=status, test={"bleu": 30.0 + seed} if status == "done" else None)
    one = answer(tmp_path, "de-en")
    assert one.comparison is None
    assert answer_rows([one])[1][2:] == ["", "", "not compared: AdaNorm diverged 1/3"]
    assert " Not compared: De-En (AdaNorm diverged 1/3)." in headline([one])


def test_a_task_that_no_cpu_trains_has_no_answer_from_runs_at_scale_mini(tmp_path: Path) -> None:
    for norm, seed in product(("adanorm", "layernorm"), (1, 2, 3)):
        mini = run_in(
            tmp_path,
            "task=de-en",
            f"norm={norm}",
            "scale=mini",
            seed=seed,
        )
        record(mini, test={"bleu": 30.0 + seed})
    one = answer(tmp_path, "de-en")
    assert (one.plan.scale, one.comparison, one.next_look) == ("small", None, 3)
