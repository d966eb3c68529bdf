"""Claims judged over records made by hand, with known answers; and the runs behind a cell."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import pytest

from adanorm.cli.trace import trace
from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.result import Result
from adanorm.reporting.tables.claims import claims_markdown
from adanorm.verdicts.cell import Cell, Evidence, Quantity, evidence, variance_of
from adanorm.verdicts.claims import (
    ClaimResult,
    TaskResult,
    claim_evidence,
    claims_of_the_paper,
    evaluated,
)
from adanorm.verdicts.comparison import PaperGap
from adanorm.verdicts.pair import pair, paper_gap, published_gap
from adanorm.verdicts.preregistration import Claim, preregistration
from adanorm.verdicts.sentences import (
    claim_closing,
    claim_sentence,
    count,
    lacking,
    listed,
    more,
)
from adanorm.verdicts.sequential import prospect
from adanorm.verdicts.variance import TaskVariance
from tests.reporting.records import record
from tests.verdicts import known

ADANORM = Claim(
    id="a", text="AdaNorm is better.", source="here", better="adanorm", worse="layernorm",
    tasks=["rt", "sst5", "enwik8"],
)  # fmt: skip
NOISE = (-0.3, 0.4, -0.1)
UNIT = {"rt": 1.0, "sst5": 1.0, "mnist": 0.1, "ptb": 0.3, "enwik8": 0.01}


def run_of(folder: Path, task: str, norm: str, seed: int) -> Experiment:
    first = cached_experiment([f"task={task}", f"norm={norm}", "scale=paper"], runs=str(folder))
    return first.model_copy(update={"seed": seed})


def made(folder: Path, task: str, norm: str, scores: list[float | None]) -> None:
    """Runs of seeds 1, 2, ... with these test scores; None: diverged."""
    for seed, score in enumerate(scores, 1):
        run = run_of(folder, task, norm, seed)
        ended = {"status": "done", "test": {run.task.metric: score}, "seconds": 360.0}
        record(run, **(ended if score is not None else {"status": "diverged"}))


def column(folder: Path, task: str, base: float, gap: float, *, noise: float = 1.0, seeds: int = 3) -> None:
    """All norms of the paper, which scatter about `base`, but AdaNorm, which scores `gap` more."""
    random = np.random.default_rng(7)
    for norm in preregistration().norms:
        scatter = random.normal(0, 0.2 * noise * UNIT[task], seeds)
        made(folder, task, norm, [base + gap * (norm == "adanorm") + x for x in scatter.tolist()])


def ended(
    *, scores: Mapping[int, float] = {}, diverged: Sequence[int] = (), unlearned: Sequence[int] = ()
) -> Cell:
    """The runs of a norm on RT that ended so."""
    facts = {"task": "rt", "norm": "", "scale": "paper", "precision": "fp32", "own_data": False}
    facts |= {"norm_sites": [], "layernorm_sites": [], "parameters": 0, "norm_parameters": 0, "data": {}}
    ends = [*((seed, "done") for seed in (*scores, *unlearned)), *((seed, "diverged") for seed in diverged)]
    results = [Result.model_validate({**facts, "seed": seed, "status": status}) for seed, status in ends]
    return Cell("rt", "", "accuracy", results=tuple(results), by_seed=scores, unlearned=tuple(unlearned))


def judged(claim: Claim, folder: Path) -> ClaimResult:
    (found,) = evaluated([claim], "paper", runs=str(folder))
    return found


def answers(found: ClaimResult) -> dict[str, str]:
    return {"all": found.verdict, **{task.task: task.answer for task in found.tasks}}


def test_a_claim_is_supported_where_every_task_supports_it(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    column(tmp_path, "sst5", 40.0, 3.0)
    assert answers(judged(ADANORM, tmp_path)) == {
        "all": "open", "rt": "better", "sst5": "better", "enwik8": "not run",
    }  # fmt: skip
    assert claim_closing(judged(ADANORM, tmp_path)) == "runs of Enwiki8", "no seeds of what is decided"
    column(tmp_path, "enwik8", 1.1, -0.05)
    found = judged(ADANORM, tmp_path)
    assert found.verdict == "supported", "fewer bits are better"
    assert found.ps[0] == pytest.approx(max(task.ps[0] for task in found.tasks)), "no correction"
    assert claim_sentence(found).startswith(
        "Supported: AdaNorm is shown to be better than LayerNorm on three of three"
    )


def test_a_claim_on_two_of_three_survives_one_task(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    column(tmp_path, "sst5", 40.0, 3.0)
    column(tmp_path, "enwik8", 1.1, 0.0)
    two = ADANORM.model_copy(update={"at_least": 2})
    assert judged(two, tmp_path).verdict == "supported"
    assert judged(ADANORM, tmp_path).verdict == "no difference", "equivalent on one of the three claimed"


def test_a_claim_is_read_where_a_scale_can_show_it_and_of_the_settings_that_it_names(tmp_path: Path) -> None:
    longer = "training.max_epochs=21"
    values = ADANORM.model_dump() | {"at": {"paper": {"tasks": ["rt"], "overrides": {"rt": [longer]}}}}
    claim = Claim.model_validate(values)
    column(tmp_path, "rt", 75.0, -3.0)
    column(tmp_path, "sst5", 40.0, -3.0)
    assert answers(judged(claim, tmp_path)) == {"all": "not run", "rt": "not run"}
    for norm, gap in (("layernorm", 0.0), ("adanorm", 3.0)):
        for seed, noise in enumerate(NOISE, 1):
            overrides = ["task=rt", f"norm={norm}", "scale=paper", longer]
            run = cached_experiment(overrides, runs=str(tmp_path)).model_copy(update={"seed": seed})
            record(run, status="done", test={"accuracy": 75 + gap + noise * gap / 3}, seconds=360.0)
    found = judged(claim, tmp_path)
    assert answers(found) == {"all": "supported", "rt": "better"}, "its one task, of these runs"
    assert claim_sentence(found) == (
        "Supported: AdaNorm is shown to be better than LayerNorm on one of one data set (RT), where one is"
        f" claimed. Read on RT of runs with {longer}, and not on SST5 and Enwiki8, where no run of this"
        " scale can show it."
    )
    assert f"| accuracy ({longer}) |" in claims_markdown([found])
    assert [*claim_evidence(claim, "paper", str(tmp_path))] == ["rt"]
    elsewhere = answers(evaluated([claim], "mini", runs=str(tmp_path))[0])
    assert elsewhere == {"all": "not run", "rt": "not run", "sst5": "not run", "enwik8": "not run"}


def test_a_claim_is_contradicted_where_too_many_tasks_contradict_it(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, -3.0)
    found = judged(ADANORM, tmp_path)
    assert answers(found) == {"all": "contradicted", "rt": "worse", "sst5": "not run", "enwik8": "not run"}
    assert found.tasks[1].ps[0] == found.tasks[1].ps[1] == 1
    two = ADANORM.model_copy(update={"at_least": 2})
    assert judged(two, tmp_path).verdict == "open", "it allows for one"


def test_no_worse_is_supported_by_the_margin(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, -0.3)
    claim = ADANORM.model_copy(update={"tasks": ["rt"], "bound": "no_worse"})
    assert judged(claim, tmp_path).verdict == "supported"
    (task,) = judged(claim, tmp_path).tasks
    assert task.pair is not None
    p_of = task.pair.p_of
    assert task.ps == (p_of("not inferior"), p_of("inferior"), p_of("inferior"))
    better = judged(claim.model_copy(update={"bound": "better"}), tmp_path)
    assert better.verdict == "no difference"
    assert better.tasks[0].ps == (p_of("better"), p_of("worse"), p_of("not superior"))
    column(tmp_path, "rt", 75.0, -3.0)
    assert judged(claim, tmp_path).verdict == "contradicted"


def test_what_is_too_noisy_too_few_or_unpaired_is_open_and_says_what_would_close_it(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 0.5, noise=8)
    made(tmp_path, "sst5", "layernorm", [38.0])
    made(tmp_path, "sst5", "adanorm", [48.0])
    found = judged(ADANORM, tmp_path)
    assert answers(found) == {"all": "open", "rt": "open", "sst5": "open", "enwik8": "not run"}
    rt, sst5 = (task.pair for task in found.run)
    assert rt is not None
    assert rt.prospect is not None
    assert rt.comparison is not None
    assert rt.prospect == prospect(
        preregistration().looks_of(None), sd=rt.comparison.sd, margin=1.0, paper=0.29
    )
    assert (rt.prospect.to_equate or 0) > 3
    assert rt.hours_a_seed == pytest.approx(2 * 360 / 3600)
    assert sst5 is not None
    assert (sst5.comparison, sst5.remark) == (None, "one seed")
    closing = claim_closing(found)
    assert "to show equivalence" in closing
    assert "SST5: a second seed; runs of Enwiki8" in closing
    left = (rt.prospect.to_equate or 0) - 3
    margin = f"to show equivalence {left} more seeds ({0.2 * left:.1f} h)"
    assert f"RT: {margin}" in closing
    assert claim_sentence(found) == (
        "Open: AdaNorm is shown to be better than LayerNorm on none of three data sets, where three are"
        " claimed; open on RT and SST5; one without runs."
    )
    assert lacking(rt) == f"{margin}, to find the paper's gap {more(rt, rt.prospect.to_find)}"
    for paper in (None, PaperGap(99.0, 0.0, confirmed=True)):  # none, and one that is excluded
        assert lacking(replace(rt, comparison=replace(rt.comparison, paper=paper))) == margin


def test_what_would_close_a_comparison_counts_what_is_there_and_ends_with_the_plan(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 0.5, noise=8)
    found = known(judged(ADANORM, tmp_path).tasks[0].pair)
    most = preregistration().stopping.most
    assert more(found, 2) == "more seeds than these (2 usually do)"
    assert more(found, 3) == "more seeds than these (3 usually do)"
    assert more(found, 4) == "1 more seed (0.2 h)"
    assert more(found, 5) == "2 more seeds (0.4 h)"
    assert more(found, most) == f"{most - 3} more seeds ({0.2 * (most - 3):.1f} h)"
    assert more(found, most + 1) == f"{most - 2} more seeds ({0.2 * (most - 2):.1f} h), beyond the plan"
    assert more(replace(found, hours_a_seed=None), 5) == "2 more seeds"
    assert more(found, None) == "no number of seeds is enough"
    assert [count(number) for number in (0, 8, 9)] == ["none", "eight", "9"]
    assert [listed(["a", "b", "c"][:names]) for names in (1, 2, 3)] == ["a", "a and b", "a, b and c"]


def test_a_norm_that_the_paper_has_not_can_be_claimed_of(tmp_path: Path) -> None:
    claim = ADANORM.model_copy(update={"better": "rmsnorm", "tasks": ["rt"]})
    made(tmp_path, "rt", "rmsnorm", [78.0, 78.2])
    made(tmp_path, "rt", "layernorm", [75.0, 75.1])
    (task,) = judged(claim, tmp_path).tasks
    assert task.pair is not None
    assert task.pair.gaps == pytest.approx((3.0, 3.1))


def test_the_variance_is_the_tasks_and_not_the_cells_own(tmp_path: Path) -> None:
    """Two norms that agree by luck are not sure of their gap."""
    column(tmp_path, "rt", 75.0, 0.0, noise=5)
    made(tmp_path, "rt", "adanorm", [77.0, 77.01, 77.02])
    made(tmp_path, "rt", "layernorm", [75.0, 75.01, 75.02])
    found = known(judged(ADANORM, tmp_path).tasks[0].pair)
    assert found.comparison is not None
    assert found.gaps == pytest.approx((2.0, 2.0, 2.0))
    assert found.comparison.sd > 0.3


def test_seeds_beyond_the_plan_are_read_and_held_to_a_stricter_level(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 0.4, seeds=3)
    three = judged(ADANORM, tmp_path).tasks[0].pair
    column(tmp_path, "rt", 75.0, 0.4, seeds=4)
    four = judged(ADANORM, tmp_path).tasks[0].pair
    assert three is not None
    assert four is not None
    assert (three.seeds, four.seeds) == ((1, 2, 3), (1, 2, 3, 4))
    assert three.comparison is not None
    assert four.comparison is not None
    assert three.comparison.levels.difference == 0.05
    assert four.comparison.levels.difference < 0.01


def test_seeds_after_the_most_of_the_plan_are_no_part_of_the_variance(tmp_path: Path) -> None:
    random, most = np.random.default_rng(0), preregistration().stopping.most
    norms = {}
    for norm in ("adanorm", "layernorm"):
        scores = dict(enumerate((75 + random.normal(0, 1, most)).tolist(), 1))
        scores |= dict(enumerate((75 + random.normal(0, 9, 5)).tolist(), most + 1))
        norms[norm] = replace(ended(scores=scores), runs=(run_of(tmp_path, "rt", norm, 1),))
    found = Evidence("rt", "paper", "valid_best", norms, variance_of(norms, "valid_best"))
    read = known(pair(found, "adanorm", "layernorm", margin=1.0))
    assert read.comparison is not None
    assert (read.comparison.seeds, read.comparison.df) == (most, most - 1)
    assert read.comparison.sd == pytest.approx(np.std(read.gaps, ddof=1))


def test_a_norm_that_diverges_is_worse_once_chance_is_excluded(tmp_path: Path) -> None:
    made(tmp_path, "rt", "layernorm", [None] * 3)
    made(tmp_path, "rt", "adanorm", [75.0, 76.0, 77.0])
    few = judged(ADANORM, tmp_path).tasks[0]
    assert (few.answer, few.ps[0]) == ("open", 1), "3 of 3 against 0 of 3: p = 0.1"
    made(tmp_path, "rt", "layernorm", [None] * 4)
    made(tmp_path, "rt", "adanorm", [75.0, 76.0, 77.0, 76.5])
    found = judged(ADANORM, tmp_path).tasks[0]
    assert found.answer == "better"
    assert found.ps[0] == pytest.approx(2 / 70)
    assert (found.ps[1], found.ps[2]) == (1, 1)
    assert found.pair is not None
    assert found.pair.remark == "diverged: AdaNorm 0 of 4, LayerNorm 4 of 4"


def test_of_unequal_numbers_of_runs_the_larger_share_that_diverged_is_the_worse() -> None:
    few = ended(diverged=(1, 2, 3, 4))
    many = ended(scores=dict.fromkeys(range(2, 41), 75.0), diverged=(1,))
    for sides, answer in (((few, many), "worse"), ((many, few), "better")):
        norms = dict(zip(("adanorm", "layernorm"), sides, strict=True))
        found = Evidence("rt", "paper", "test", norms, variance_of(norms))
        read = known(pair(found, "adanorm", "layernorm", margin=1.0))
        assert read.divergence_p == pytest.approx(comb(40, 1) / comb(44, 5)), "5 of 44, 4 of them of the 4"
        assert read.answer == answer
        chance = replace(read, divergence_p=preregistration().level)
        assert (chance.answer, chance.p_of("better"), chance.p_of("worse")) == ("open", 1, 1)


def test_runs_that_learned_nothing_are_among_those_that_did_not_diverge() -> None:
    lost = ended(diverged=(1, 2, 3, 4))
    half = ended(scores={1: 75.0, 2: 75.5}, unlearned=(3, 4))
    norms = {"adanorm": half, "layernorm": lost}
    read = pair(
        Evidence("rt", "paper", "test", norms, variance_of(norms)), "adanorm", "layernorm", margin=1.0
    )
    assert read is not None
    assert read.divergence_p == pytest.approx(2 / 70), "4 of 4 against 0 of 4"


@pytest.mark.parametrize("lost", [48.0, None])  # of a run that learned nothing, of one that diverged
def test_a_norm_is_not_compared_by_the_better_of_its_seeds(tmp_path: Path, lost: float | None) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    whole = judged(ADANORM, tmp_path)
    assert whole.tasks[0].answer == "better"
    made(tmp_path, "rt", "adanorm", [78.0, lost, 78.1])
    found = judged(ADANORM, tmp_path)
    pair = known(found.tasks[0].pair)
    assert (pair.answer, pair.gaps, pair.comparison) == ("open", (), None)


def test_examples_on_record_widen_the_interval(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 0.7)
    before = known(known(judged(ADANORM, tmp_path).tasks[0].pair).comparison)
    for norm in ("layernorm", "adanorm"):
        for seed in (1, 2, 3):
            run = run_of(tmp_path, "rt", norm, seed)
            share = known(reader.result(run.folder())).test_score("accuracy") / 100
            rates = [share + (norm == "adanorm") * half for half in (0.1, -0.1)] * 20
            record(run, counted={"accuracy": [[rate] for rate in rates]}, seconds=360.0)
    tested = judged(ADANORM, tmp_path).tasks[0]
    best_epoch = known(known(tested.best_epoch).comparison)
    assert best_epoch.example_error == 0, "those of the test set are no part of validation"
    after = known(known(tested.pair).comparison)
    assert after.example_error == pytest.approx(10 / 39**0.5)
    assert after.examples == 40
    assert after.interval[0] < before.interval[0] < before.interval[1] < after.interval[1]


def test_losses_are_those_of_the_last_evaluation(tmp_path: Path) -> None:
    claim = ADANORM.model_copy(update={"quantity": "last_valid_loss", "tasks": ["ptb"]})
    for norm, lift in (("layernorm", 0.0), ("adanorm", -0.3)):
        made(tmp_path, "ptb", norm, [80.0, 80.0, 80.0])
        for seed in (1, 2, 3):
            rows = [{"valid_loss": 9.0}, {"valid_loss": 1 + seed / 50 + lift * (1 + seed / 100)}]
            record(run_of(tmp_path, "ptb", norm, seed), rows=rows, test={"uas": 80.0})
    found = judged(claim, tmp_path)
    assert found.verdict == "supported"
    assert found.tasks[0].pair is not None
    assert found.tasks[0].pair.comparison is not None
    paper = known(found.tasks[0].pair.comparison.paper)
    assert paper.value == pytest.approx(0.1613 - 0.1522), "the last values of the paper's curves"
    assert (paper.rounding, paper.confirmed) == (2 * 0.0005, True), "each is read off a drawing"


def test_validation_scores_are_of_the_metric_that_picks_the_epoch(tmp_path: Path) -> None:
    first = run_of(tmp_path, "de-en", "adanorm", 1)
    record(first, rows=[{"valid_loss": x} for x in (4.0, 3.0, 3.0, 3.0, 2.5, 2.0)], test={"bleu": 30.0})
    expected: dict[Quantity, float] = {"test": 30.0, "valid_best": -2.0, "valid_level": -2.25}
    for quantity, score in expected.items():
        found = evidence("de-en", "paper", quantity, runs=str(tmp_path))
        assert found.norms["adanorm"].by_seed == {1: score}


def test_beside_a_claim_stand_the_best_epoch_and_the_level_each_in_its_column(tmp_path: Path) -> None:
    for norm, lead in (("layernorm", 0.0), ("adanorm", 1.0)):
        for seed in (1, 2):
            curve = [
                {"valid_accuracy": x} for x in (70.0, 71.0, 72.0, 73.0, 74.0 + 2 * lead, 76.0 + 4 * lead)
            ]
            record(
                run_of(tmp_path, "rt", norm, seed),
                rows=curve,
                test={"accuracy": 75.0 + lead},
                valid={"accuracy": 76.0 + 4 * lead},
            )
    found = judged(ADANORM, tmp_path).tasks[0]
    assert found.pair is not None
    assert found.best_epoch is not None
    assert found.level is not None
    gaps = [shown.gaps for shown in (found.pair, found.best_epoch, found.level)]
    assert gaps == [pytest.approx((gap, gap)) for gap in (1.0, 4.0, 3.0)]


def test_of_some_seeds_alone_every_part_is_of_those(tmp_path: Path) -> None:
    made(tmp_path, "rt", "adanorm", [75.0, None, 48.0, 76.0, None, 48.0])
    for seed in (7, 8):
        record(run_of(tmp_path, "rt", "adanorm", seed), status="failed")
    found = evidence("rt", "paper", runs=str(tmp_path)).norms["adanorm"].of_seeds({1, 2, 3, 7})
    assert (found.by_seed, found.seconds) == ({1: 75.0}, 360.0)
    assert [found.count("diverged"), found.unlearned, found.count("failed")] == [1, (3,), 1]
    assert found.recorded == {1, 2, 3}
    made(tmp_path, "rt", "layernorm", [75.0])
    both = known(judged(ADANORM, tmp_path).tasks[0].pair)
    assert "failed: AdaNorm 2 of 8, LayerNorm 0 of 1" in both.remark


def test_claims_are_corrected_for_their_number(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 0.65, noise=1.6)
    one = ADANORM.model_copy(update={"tasks": ["rt"]})
    (alone,) = evaluated([one], "paper", runs=str(tmp_path))
    several = evaluated([one] * 5, "paper", runs=str(tmp_path))
    assert alone.family is not None
    assert several[0].family is not None
    assert several[0].family[0] == pytest.approx(1 - (1 - alone.family[0]) ** 5)


def test_a_verdict_is_that_of_ps_corrected_and_below_the_level(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    one = judged(ADANORM.model_copy(update={"tasks": ["rt"]}), tmp_path)
    level = preregistration().level
    assert one.verdict == "supported"
    assert replace(one, family=(level, 1.0, 1.0)).verdict == "open"
    assert replace(one, family=(1.0, level, 1.0)).verdict == "open"
    assert replace(one, family=(1.0, 1.0, level)).verdict == "open"


def test_a_claim_without_runs_is_not_run_and_is_no_evidence(tmp_path: Path) -> None:
    none = judged(ADANORM, tmp_path)
    assert (none.verdict, none.ps, none.shown_on) == ("not run", (1, 1, 1), 0)
    assert claim_sentence(none) == "Not run: no task has runs of both norms."
    assert claim_evidence(ADANORM, "paper", str(tmp_path)) == {}
    lost = TaskResult(ADANORM, "rt", None)
    assert (lost.answer, lost.ps[0], lost.ps[1], lost.ps[2]) == ("not run", 1, 1, 1)


def test_the_papers_gap_is_of_its_own_scale_and_of_test_scores_and_losses_alone() -> None:
    norms = {norm: ended() for norm in ("adanorm", "layernorm")}
    test = Evidence("rt", "paper", "test", norms, TaskVariance({}, 8))
    gap = known(paper_gap(test, "adanorm", "layernorm"))
    assert gap.value == pytest.approx(0.29)
    for other in (replace(test, scale="mini"), replace(test, quantity="valid_best"), replace(test, norms={})):
        assert paper_gap(other, "adanorm", "layernorm") is None
    for item in norms.items():
        alone = replace(test, norms=dict([item]))
        assert pair(alone, "adanorm", "layernorm", margin=1.0) is None


def test_what_diverged_in_the_paper_has_no_gap_there() -> None:
    assert published_gap("en-de", "layernorm", "none") is None
    assert published_gap("en-de", "layernorm", "powernorm") is None
    fewer_bits = known(published_gap("enwik8", "none", "layernorm"))
    assert fewer_bits[:2] == pytest.approx((0.03, 0.01))


def test_accuracies_differ_by_no_less_than_one_example(tmp_path: Path) -> None:
    made(tmp_path, "rt", "adanorm", [75.0, 75.0])
    made(tmp_path, "rt", "layernorm", [75.0, 75.0])
    for norm in ("adanorm", "layernorm"):
        path = run_of(tmp_path, "rt", norm, 1).folder() / "predictions.txt.gz"
        path.write_bytes(gzip.compress(b"1\n" * 500))
    assert evidence("rt", "paper", runs=str(tmp_path)).variance.resolution == 0.2
    assert evidence("rt", "paper", "valid_best", runs=str(tmp_path)).variance.resolution == 0


def test_the_sentence_of_a_claim_says_where_it_is_worse_equivalent_or_not_run(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, -3.0)
    column(tmp_path, "sst5", 40.0, 0.0, noise=0.1)
    assert claim_sentence(judged(ADANORM.model_copy(update={"tasks": ["rt", "sst5"]}), tmp_path)) == (
        "Contradicted: AdaNorm is shown to be better than LayerNorm on none of two data sets, where two are"
        " claimed; worse on RT; equivalent within the margin on SST5; the paper's own gap is excluded on RT"
        " and SST5."
    )


def test_the_papers_own_table_passes_one_sign_test() -> None:
    found = {own.claim.id: own for own in claims_of_the_paper()}
    counts = {name: (own.wins, own.losses, own.ties) for name, own in found.items()}
    assert counts["adanorm"] == (7, 0, 1)
    assert counts["affine-better"] == (4, 2, 2)
    assert counts["forward"] == (5, 2, 0), "on En-De both diverge"
    assert counts["gradients"] == (6, 2, 0)
    assert sum(counts["variance"]) == 4, "a claim on four tasks"
    assert [name for name, own in found.items() if own.p < 0.05] == ["adanorm"]


def test_the_claims_table_opens_with_verdicts_in_words(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    text = claims_markdown([judged(ADANORM, tmp_path)])
    opening = text[: text.index("## How to read")]
    assert preregistration().digest in opening
    assert (
        "**open** | Open: AdaNorm is shown to be better than LayerNorm on one of three data sets (RT)"
        in opening
    )
    assert "runs of SST5 and Enwiki8" in opening
    assert re.search(r"\| RT \| accuracy \| AdaNorm \| LayerNorm \| \+[23]\.\d+ \|", text)


def test_a_cell_is_traced_to_its_runs_and_their_commands() -> None:
    lines = trace("table4/AdaNorm/RT")
    assert lines[0] == "Table 4: AdaNorm against LayerNorm: AdaNorm, RT"
    assert "the paper has 77.50" in lines[1]
    assert (
        "  repeat   adanorm run task=rt norm=adanorm scale=paper seed=2 runs=repeated norm.backend=fused"
        in lines
    )
    assert any(line.startswith("  commit   ") for line in lines)
    assert trace("table4/adanorm/rt") == lines
    assert max(len(line) for line in lines) <= 110


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("table9/adanorm/rt", "unknown study 'table9'"),
        ("table4/none/rt", "no row 'none' in this study: choose from layernorm, adanorm"),
        ("table4/adanorm/wsj", "no task 'wsj' in this study"),
        ("table4", "name a cell as STUDY/NORM/TASK"),
    ],
)
def test_a_cell_that_is_not_there_is_one_line(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        trace(address)
    assert "\n" not in str(raised.value)
