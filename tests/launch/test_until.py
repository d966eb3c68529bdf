"""Seeds until comparisons are decided: what is added and when it stops, over records made by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from adanorm.config.compose import cached_experiment
from adanorm.launch.until import Followed, Plan, Progress, Run, followed
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.comparison import PaperGap
from adanorm.verdicts.pair import pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sequential import Prospect
from tests.reporting.records import record, score

PLANNED = (1, 2, 3)
SECONDS = {"rt": 200.0, "mnist": 400.0}
BASE = {"rt": 76.0, "mnist": 90.0}


def make(folder: Path, run: Run, *, adanorm: float = 0.0, noise: float = 0.2) -> None:
    """Make a run whose score follows from its task, norm and seed; AdaNorm's is `adanorm` noises higher."""
    experiment = cached_experiment(
        [f"task={run.task}", f"norm={run.norm}", "scale=smoke"], runs=str(folder)
    ).model_copy(update={"seed": run.seed})
    random = np.random.default_rng([len(run.task), len(run.norm), ord(run.norm[-1]), run.seed])
    shift = adanorm * noise if run.norm == "adanorm" else 0.0
    accuracy = BASE[run.task] + shift + noise * float(random.standard_normal())
    record(experiment, **score(round(accuracy, 4)), seconds=SECONDS[run.task])


def planned(folder: Path, comparisons: Sequence[Followed], **how: float) -> None:
    for task in {c.task for c in comparisons}:
        for norm in ("none", "layernorm", "layernorm-simple", "detachnorm", "adanorm"):
            for seed in PLANNED:
                make(folder, Run(task, norm, seed), **how)


def progress(folder: Path, comparisons: Sequence[Followed], *, most: int = 40, at_once: int = 2) -> Progress:
    """Where a plan stands that knows nothing but the records."""
    plan = Plan(comparisons, PLANNED, most=most, at_once=at_once)
    return plan.progress({(c.task, "test"): evidence(c.task, "smoke", runs=str(folder)) for c in comparisons})


def carried_out(
    folder: Path,
    comparisons: Sequence[Followed],
    *,
    killed_after: Callable[[int], bool] = lambda _: False,
    most: int = 12,
    **how: float,
) -> tuple[list[Run], Progress]:
    """Every run of a plan in order; a batch after whose k-th run it is killed is begun anew."""
    made: list[Run] = []
    while (found := progress(folder, comparisons, most=most)).batch is not None:
        for run in found.batch.runs:
            make(folder, run, **how)
            made.append(run)
            if killed_after(len(made)):
                break
    return made, found


ADANORM = [Followed(task, "adanorm", "layernorm") for task in ("rt", "mnist")]


def test_comparisons_are_those_of_claims_between_rows_of_the_study() -> None:
    found = followed([("rt", "layernorm"), ("rt", "adanorm"), ("mnist", "adanorm")], "paper")
    assert found == [Followed("rt", "adanorm", "layernorm")]
    simple = followed([("sst5", "layernorm"), ("sst5", "layernorm-simple")], "paper")
    assert [c.no_worse for c in simple] == [True, False], "a claim asks for less than the other"


def test_a_claim_that_is_read_of_other_runs_is_not_followed() -> None:
    def losses(task: str, scale: str) -> list[str]:
        found = followed([(task, norm) for norm in preregistration().norms], scale)
        return [comparison.quantity for comparison in found if comparison.quantity != "test"]

    both = ["last_train_loss", "last_valid_loss"]
    assert losses("de-en", "paper") == both
    assert losses("de-en", "small") == both
    assert losses("enwik8", "small") == [], "no run of that scale can show it"


def test_a_comparison_that_is_decided_gets_no_further_seed(tmp_path: Path) -> None:
    rt = ADANORM[:1]
    planned(tmp_path, rt, adanorm=15)
    made, ended = carried_out(tmp_path, rt, adanorm=15)
    (standing,) = ended.standings
    assert (standing.answer, standing.left) == ("better", "")
    count = len(standing.pair.seeds)
    assert 3 <= count < 12
    assert made == [Run("rt", norm, s) for s in range(4, count + 1) for norm in ("adanorm", "layernorm")]


def test_the_first_look_has_the_level_of_a_plan_with_looks_to_come(tmp_path: Path) -> None:
    """At p .004 of three seeds a fixed plan ends; one with 37 looks to come goes on."""
    rt = ADANORM[:1]
    planned(tmp_path, rt, adanorm=6)
    found = progress(tmp_path, rt)
    (standing,) = found.standings
    found_by_a_fixed_plan = pair(
        evidence("rt", "smoke", runs=str(tmp_path)), "adanorm", "layernorm", margin=1.0
    )
    assert found_by_a_fixed_plan is not None
    assert (found_by_a_fixed_plan.answer, standing.answer) == ("better", "open")
    assert found.batch is not None


def test_a_claim_of_no_loss_is_decided_where_the_difference_is_open(tmp_path: Path) -> None:
    claimed = Followed("rt", "adanorm", "layernorm", no_worse=True)
    for name, gap, expected in (("up", 12.0, "not worse"), ("down", -12.0, "open")):
        planned(tmp_path / name, [claimed], adanorm=gap, noise=0.05)
        (standing,) = progress(tmp_path / name, [claimed]).standings
        assert (standing.pair.answer, standing.answer) == ("open", expected)
        (better,) = progress(tmp_path / name, [claimed._replace(no_worse=False)]).standings
        assert better.answer == "open", "it claims a gain"


def test_a_comparison_that_stays_open_ends_with_the_most_seeds(tmp_path: Path) -> None:
    mnist = [Followed("mnist", "adanorm", "layernorm")]
    planned(tmp_path, mnist, noise=1.0)  # the margin of 0.1 is out of reach
    made, ended = carried_out(tmp_path, mnist, most=6, noise=1.0)
    assert [(s.answer, s.left) for s in ended.standings] == [("open", "6 seeds")]
    assert {run.seed for run in made} == {4, 5, 6}


def test_the_seed_that_decides_most_a_core_hour_goes_first(tmp_path: Path) -> None:
    planned(tmp_path, ADANORM, noise=0.5)  # RT's margin is ten times MNIST's, and a run takes half as long
    found = progress(tmp_path, ADANORM)
    assert found.batch is not None
    assert found.batch.runs == (Run("rt", "adanorm", 4), Run("rt", "layernorm", 4))
    assert found.batch.closes_in is not None
    both = progress(tmp_path, ADANORM, at_once=4)
    assert both.batch is not None
    assert {run.task for run in both.batch.runs} == {"rt", "mnist"}, "four workers have something to do"


def test_of_comparisons_that_none_of_the_plans_seeds_close_the_shorter_runs_go_first(tmp_path: Path) -> None:
    planned(tmp_path, ADANORM, noise=3.0)
    found = progress(tmp_path, [ADANORM[1], ADANORM[0]])
    assert found.batch is not None
    assert (found.batch.closes_in, found.batch.runs[0].task) == (None, "rt")


def test_a_comparison_that_has_begun_is_ended_before_another_of_the_same_cost(tmp_path: Path) -> None:
    norms = [("adanorm", "layernorm"), ("detachnorm", "none")]
    both = [Followed("rt", *pair) for pair in norms]
    planned(tmp_path, both, noise=3.0)
    made, _ = carried_out(tmp_path, both, most=5, noise=3.0)
    assert [(run.norm, run.seed) for run in made[::2]] == [
        ("adanorm", 4), ("adanorm", 5), ("detachnorm", 4), ("detachnorm", 5),
    ]  # fmt: skip


def test_the_next_seed_is_the_first_that_a_plan_has_not(tmp_path: Path) -> None:
    planned(tmp_path, ADANORM[:1], noise=3.0)
    plan = Plan(ADANORM[:1], seeds=(2, 3, 5), most=40, at_once=2)
    found = plan.progress({("rt", "test"): evidence("rt", "smoke", runs=str(tmp_path))})
    assert found.batch is not None
    assert {run.seed for run in found.batch.runs} == {4}
    assert found.standings[0].pair.seeds == (1, 2, 3), "seed 1 was next, and is on record; 5 is not"


def test_what_closes_a_comparison_is_the_margin_or_a_gap_of_the_papers_that_can_be_true(
    tmp_path: Path,
) -> None:
    planned(tmp_path, ADANORM[:1])
    plan = Plan(ADANORM[:1], PLANNED, most=40, at_once=2)
    read = pair(evidence("rt", "smoke", runs=str(tmp_path)), "adanorm", "layernorm", margin=1.0)
    assert read is not None
    assert read.comparison is not None
    for gap, to_find, to_equate, left in (
        (0.0, 10, 20, 7),
        (99.0, 10, 20, 17),
        (0.0, 41, 40, 37),
        (0.0, 3, 41, None),
    ):
        compared = replace(read.comparison, paper=PaperGap(gap, 5.0, confirmed=True))
        known = replace(read, comparison=compared)
        vars(known)["prospect"] = Prospect(to_find, to_equate)
        assert plan.closes_in(known) == left


def test_before_the_planned_seeds_nothing_is_decided(tmp_path: Path) -> None:
    planned(tmp_path, ADANORM[:1], adanorm=50)
    few = Plan(ADANORM[:1], seeds=PLANNED[:2], most=40, at_once=2)
    found = few.progress({("rt", "test"): evidence("rt", "smoke", runs=str(tmp_path))})
    (standing,) = found.standings
    assert (standing.answer, len(standing.pair.seeds)) == ("better", 3), "the third is on record"
    first = cached_experiment(["task=rt", "norm=adanorm", "scale=smoke"], runs=str(tmp_path))
    shutil.rmtree(first.model_copy(update={"seed": 3}).folder())
    again = few.progress({("rt", "test"): evidence("rt", "smoke", runs=str(tmp_path))})
    (standing,) = again.standings
    assert (standing.answer, standing.pair.remark) == ("open", "2 of 3 planned seeds")
    assert again.batch is not None
    assert again.batch.runs == (Run("rt", "adanorm", 3),)


def test_scores_that_do_not_scatter_are_no_end(tmp_path: Path) -> None:
    planned(tmp_path, ADANORM[:1], noise=0.0)
    found = progress(tmp_path, ADANORM[:1])
    (standing,) = found.standings
    assert (standing.answer, standing.left, standing.pair.comparison) == ("open", "", None)
    assert found.batch is not None


def test_a_run_that_two_comparisons_share_is_made_once(tmp_path: Path) -> None:
    norms = [("adanorm", "layernorm"), ("layernorm-simple", "layernorm")]
    both = [Followed("rt", *pair) for pair in norms]
    planned(tmp_path, both, noise=0.5)
    found = progress(tmp_path, both, at_once=3)
    assert found.batch is not None
    assert sorted(run.norm for run in found.batch.runs) == ["adanorm", "layernorm", "layernorm-simple"]


def test_killed_and_started_again_it_makes_the_same_runs(tmp_path: Path) -> None:
    found = []
    for name, killed in (("whole", lambda _: False), ("killed after every run", lambda _: True)):
        planned(tmp_path / name, ADANORM, noise=0.5)
        runs, ended = carried_out(tmp_path / name, ADANORM, killed_after=killed, most=6, noise=0.5)
        found.append((runs, [(s.answer, s.pair.seeds) for s in ended.standings]))
    assert found[0] == found[1]
    assert len(found[0][0]) == 12


def test_other_seeds_on_record_do_not_change_the_plan(tmp_path: Path) -> None:
    for name in ("plain", "more"):
        planned(tmp_path / name, ADANORM, noise=0.5)
    make(tmp_path / "more", Run("mnist", "adanorm", 30), noise=0.5)
    plain, more = (progress(tmp_path / name, ADANORM).batch for name in ("plain", "more"))
    assert plain is not None
    assert more is not None
    assert plain.runs == more.runs


def test_what_did_not_learn_is_left(tmp_path: Path) -> None:
    rt = ADANORM[:1]
    planned(tmp_path, rt)
    run = cached_experiment(["task=rt", "norm=adanorm", "scale=smoke"], runs=str(tmp_path))
    record(run.model_copy(update={"seed": 2}), status="diverged", test=None)
    found = progress(tmp_path, rt)
    assert found.batch is None
    assert found.standings[0].left == "diverged: AdaNorm 1 of 3, LayerNorm 0 of 3"
