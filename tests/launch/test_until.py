"""Seeds until comparisons are decided: what is added and when it stops, over records made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adanorm.launch import until
from adanorm.launch.until import Followed, Run, Standing, followed, next_runs, on_record, standing
from adanorm.stats.comparison import PaperGap
from adanorm.stats.sequential import Prospect
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.pair import pair
from adanorm.verdicts.preregistration import preregistration
from tests.reporting.records import record, run_in, score
from tests.verdicts import not_none

PLANNED = (1, 2, 3)
SECONDS = {"rt": 200.0, "mnist": 400.0}
BASE = {"rt": 76.0, "mnist": 90.0}


def make(folder: Path, run: Run, *, adanorm: float = 0.0, noise: float = 0.2) -> None:
    """Make a run whose score follows from its task, norm and seed; AdaNorm's is `adanorm` noises higher."""
    experiment = run_in(
        folder, f"task={run.task}", f"norm={run.norm}", "scale=smoke", seed=run.seed
    )
    random = np.random.default_rng([len(run.task), len(run.norm), ord(run.norm[-1]), run.seed])
    shift = adanorm * noise if run.norm == "adanorm" else 0.0
    accuracy = BASE[run.task] + shift + noise * float(random.standard_normal())
    record(experiment, **score(round(accuracy, 4)), seconds=SECONDS[run.task])


def planned(folder: Path, comparisons: Sequence[Followed], **how: float) -> None:
    for task in {c.task for c in comparisons}:
        for norm in ("none", "layernorm", "layernorm-simple", "detachnorm", "adanorm"):
            for seed in PLANNED:
                make(folder, Run(task, norm, seed), **how)


def standings(folder: Path, comparisons: Sequence[Followed], *, most: int = 40) -> list[Standing]:
    """Return where each comparison stands by the records of a folder."""
    return [standing(c, evidence(c.task, "smoke", runs=str(folder)), most) for c in comparisons]


def carried_out(
    folder: Path, comparisons: Sequence[Followed], *, most: int = 12, **how: float
) -> tuple[list[Run], list[Standing]]:
    """Make all runs that are next; return them in order, and where the comparisons then stand."""
    all_runs: list[Run] = []
    while runs := next_runs(standings(folder, comparisons, most=most), at_once=2):
        for run in runs:
            make(folder, run, **how)
        all_runs += runs
    return all_runs, standings(folder, comparisons, most=most)


ADANORM = [Followed(task, "adanorm", "layernorm") for task in ("rt", "mnist")]


def test_comparisons_are_those_of_claims_that_rows_of_the_study_can_show() -> None:
    comparisons = followed([("rt", "layernorm"), ("rt", "adanorm"), ("mnist", "adanorm")], "paper")
    assert comparisons == [Followed("rt", "adanorm", "layernorm", plan="fresh")]
    simple = followed([("sst5", "layernorm"), ("sst5", "layernorm-simple")], "paper")
    assert [c.no_worse for c in simple] == [True, False], "a claim asks for less than the other"
    both = ["last_train_loss", "last_valid_loss"]
    for task, scale, losses in (
        ("de-en", "paper", both),
        ("de-en", "small", both),
        ("enwik8", "small", []),
    ):
        comparisons = followed([(task, norm) for norm in preregistration().norms], scale)
        assert [c.quantity for c in comparisons if c.quantity != "test"] == losses


@pytest.mark.parametrize(
    ("task", "scale", "plan", "seeds"),
    [
        ("rt", "paper", "fresh", range(41, 51)),
        ("de-en", "small", "small", range(1, 4)),
        ("de-en", "mini", None, range(1, 4)),
        (
            "ptb",
            "small",
            None,
            range(1, 4),
        ),  # the plan of folds reads other runs than the scale's own
    ],
)
def test_the_plan_of_a_task_and_scale_says_which_seeds_run_up_to_its_first_look(
    tmp_path: Path, task: str, scale: str, plan: str | None, seeds: range
) -> None:
    assert until.governing_plan(task, scale) == plan
    comparison = Followed(task, "adanorm", "layernorm", plan=plan)
    records = on_record([comparison], {task: scale}, str(tmp_path))
    one = standing(comparison, records[task, "test"], 40)
    assert one.runs == tuple(
        Run(task, norm, seed) for seed in seeds for norm in ("adanorm", "layernorm")
    )
    assert standing(comparison, records[task, "test"], 2).left == "0 seeds", (
        "no look comes so early"
    )


def test_between_two_looks_of_a_plan_no_score_is_read_and_the_remaining_seeds_run(
    tmp_path: Path,
) -> None:
    for seed in range(1, 14):
        for norm in ("adanorm", "layernorm"):
            run = run_in(tmp_path, "task=de-en", f"norm={norm}", "scale=small", seed=seed)
            bleu = 30 + 0.5 * (seed % 3) + (norm == "adanorm") * (seed % 2)
            record(run, test={"bleu": bleu}, seconds=9.0)
    comparison = Followed("de-en", "adanorm", "layernorm", plan="small")
    records = on_record([comparison], {"de-en": "small"}, str(tmp_path))
    one = standing(comparison, records["de-en", "test"], 40)
    assert (len(one.pair.seeds), one.runs) == (10, ()), "the last look"
    five = records["de-en", "test"].of_seeds(
        {norm: set(range(1, 6)) for norm in ("adanorm", "layernorm")}
    )
    one = standing(comparison, five, 40)
    assert len(one.pair.seeds) == 3
    assert [run.seed for run in one.runs] == [6, 6]


def test_a_comparison_ends_when_it_is_decided_or_has_the_most_seeds(tmp_path: Path) -> None:
    mnist = ADANORM[1:]
    planned(tmp_path, mnist, noise=1.0)  # the margin of 0.1 is out of reach
    runs, (one,) = carried_out(tmp_path, mnist, most=6, noise=1.0)
    assert (one.answer, one.left) == ("open", "6 seeds")
    assert {run.seed for run in runs} == {4, 5, 6}
    rt = ADANORM[:1]
    planned(tmp_path, rt, adanorm=15)
    runs, (one,) = carried_out(tmp_path, rt, adanorm=15)
    assert (one.answer, one.left, one.runs) == ("better", "", ())
    count = len(one.pair.seeds)
    assert 3 <= count < 12
    assert runs == [
        Run("rt", norm, s) for s in range(4, count + 1) for norm in ("adanorm", "layernorm")
    ]


def test_the_first_of_many_looks_has_a_stricter_level_than_a_fixed_plan(tmp_path: Path) -> None:
    """At p = .004 with three seeds a fixed plan ends; a plan with 37 looks to come goes on."""
    planned(tmp_path, ADANORM[:1], adanorm=6)
    (one,) = standings(tmp_path, ADANORM[:1])
    fixed = pair(evidence("rt", "smoke", runs=str(tmp_path)), "adanorm", "layernorm")
    assert (fixed.answer, one.answer, len(one.runs)) == ("better", "open", 2)


def test_a_claim_of_no_loss_is_decided_although_the_difference_is_open(tmp_path: Path) -> None:
    claimed = Followed("rt", "adanorm", "layernorm", no_worse=True)
    for name, gap, expected in (("up", 12.0, "not worse"), ("down", -12.0, "open")):
        planned(tmp_path / name, [claimed], adanorm=gap, noise=0.05)
        (one,) = standings(tmp_path / name, [claimed])
        assert (one.pair.answer, one.answer) == ("open", expected)
        (better,) = standings(tmp_path / name, [claimed._replace(no_worse=False)])
        assert better.answer == "open", "it claims a gain"


def test_what_closes_in_the_fewest_hours_goes_first_and_every_worker_has_a_run(
    tmp_path: Path,
) -> None:
    planned(
        tmp_path, ADANORM, noise=0.5
    )  # RT's margin is ten times MNIST's, and a run takes half as long
    both = standings(tmp_path, ADANORM[::-1])
    assert next_runs(both, 2) == [Run("rt", "adanorm", 4), Run("rt", "layernorm", 4)]
    assert {run.task for run in next_runs(both, 4)} == {"rt", "mnist"}


def test_a_run_that_two_comparisons_share_is_made_once_and_half_a_pair_is_completed(
    tmp_path: Path,
) -> None:
    both = [Followed("rt", better, "layernorm") for better in ("adanorm", "layernorm-simple")]
    planned(tmp_path, both, noise=0.5)
    runs = next_runs(standings(tmp_path, both), 3)
    assert sorted(run.norm for run in runs) == ["adanorm", "layernorm", "layernorm-simple"]
    make(tmp_path, Run("rt", "layernorm", 4), noise=0.5)
    assert standings(tmp_path, both)[0].runs == (Run("rt", "adanorm", 4),)


def test_a_comparison_closes_by_the_margin_or_by_a_possible_gap_of_the_paper(
    tmp_path: Path,
) -> None:
    planned(tmp_path, ADANORM[:1])
    base = pair(evidence("rt", "smoke", runs=str(tmp_path)), "adanorm", "layernorm")
    for gap, to_find, to_equate, look in (
        (0, 10, 20, 10),
        (99, 10, 20, 20),
        (0, 41, 40, 40),
        (0, 3, 41, None),
    ):
        compared = replace(not_none(base.comparison), paper=PaperGap(gap, 5.0, confirmed=True))
        both = replace(base, comparison=compared)
        vars(both)["prospect"] = Prospect(to_find, to_equate)
        assert until.closing_look(both) == look


def test_scores_without_scatter_do_not_end_a_comparison_and_a_diverged_run_does(
    tmp_path: Path,
) -> None:
    planned(tmp_path, ADANORM[:1], noise=0.0)
    (one,) = standings(tmp_path, ADANORM[:1])
    assert (one.answer, one.left, one.pair.comparison, len(one.runs)) == ("open", "", None, 2)
    lost = run_in(tmp_path, "task=rt", "norm=adanorm", "scale=smoke", seed=2)
    record(lost, status="diverged", test=None)
    (one,) = standings(tmp_path, ADANORM[:1])
    assert (one.runs, one.left) == ((), "diverged: AdaNorm 1 of 3, LayerNorm 0 of 3")


def test_no_run_is_started_beyond_the_budget(tmp_path: Path) -> None:
    planned(tmp_path, ADANORM, noise=1.0)
    lines: list[str] = []
    records = partial(on_record, scales=dict.fromkeys(("rt", "mnist"), "smoke"), runs=str(tmp_path))
    limits: dict[str, Any] = {"most": 40, "at_once": 2, "affordable": lambda runs: False}
    failed, is_spent = until.run_until_decided(
        ADANORM, lambda runs: pytest.fail(str(runs)), records, **limits, say=lines.append
    )
    assert (failed, is_spent, lines) == ([], True, [])
