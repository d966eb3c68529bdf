"""Claims judged over records made by hand, with known answers; and the runs behind a cell."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adanorm.cli.trace import trace
from adanorm.config.experiment import Experiment
from adanorm.config.titles import listed
from adanorm.records.integrity import packed
from adanorm.records.result import Result
from adanorm.reporting.tables.claims import claims_markdown
from adanorm.stats.comparison import PaperGap
from adanorm.stats.sequential import Kind, seeds_looked_at
from adanorm.stats.variance import TaskVariance
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.claims import (
    ClaimResult,
    claim_evidence,
    claim_results,
    claims_of_the_paper,
    evaluated,
    submission_results,
)
from adanorm.verdicts.evidence import Evidence, evidence, variance_of
from adanorm.verdicts.pair import Pair, pair, paper_gap, published_gap
from adanorm.verdicts.preregistration import Claim, first_plan, preregistration
from adanorm.verdicts.sentences import claim_closing, claim_sentence, count, lacking, more
from tests.records.test_result import FACTS
from tests.reporting.records import put, record, run_in
from tests.verdicts import not_none

ADANORM = Claim(
    id="a", text="AdaNorm is better.", source="here", better="adanorm", worse="layernorm",
    tasks=["rt", "sst5", "enwik8"],
)  # fmt: skip
RT = ADANORM.model_copy(update={"tasks": ["rt"]})
UNIT = {"rt": 1.0, "sst5": 1.0, "mnist": 0.1, "ptb": 0.3, "enwik8": 0.01}


def run_of(folder: Path, task: str, norm: str, seed: int, *settings: str) -> Experiment:
    return run_in(
        folder,
        f"task={task}",
        f"norm={norm}",
        "scale=paper",
        *settings,
        seed=seed,
    )


def record_runs(
    folder: Path, task: str, norm: str, scores: Sequence[float | None], *settings: str
) -> None:
    """Record runs of seeds 1, 2, ... with these test scores; None: diverged."""
    for seed, score in enumerate(scores, 1):
        run = run_of(folder, task, norm, seed, *settings)
        ended = {"status": "done", "test": {run.task.metric: score}, "seconds": 360.0}
        record(run, **(ended if score is not None else {"status": "diverged"}))


def column(
    folder: Path, task: str, base: float, gap: float, *, noise: float = 1.0, seeds: int = 3
) -> None:
    """Record all norms of the paper, whose scores scatter about `base`; AdaNorm scores `gap` more."""
    random = np.random.default_rng(7)
    for norm in preregistration().norms:
        scatter = random.normal(0, 0.2 * noise * UNIT[task], seeds)
        record_runs(
            folder, task, norm, [base + gap * (norm == "adanorm") + x for x in scatter.tolist()]
        )


def ended(
    *, scores: Mapping[int, float] = {}, diverged: Sequence[int] = (), unlearned: Sequence[int] = ()
) -> Cell:
    """Return the cell of a norm on RT whose runs ended in these ways."""
    ends = [
        *((seed, "done") for seed in (*scores, *unlearned)),
        *((seed, "diverged") for seed in diverged),
    ]
    results = [
        Result.model_validate({**FACTS, "seed": seed, "status": status}) for seed, status in ends
    ]
    return Cell(
        "accuracy",
        results=tuple(results),
        by_seed=scores,
        unlearned=tuple(unlearned),
    )


@pytest.mark.records
def test_the_submissions_softer_claims_read_the_comparisons_of_the_printed_ones() -> None:
    printed = {result.claim.id: result for result in claim_results()}
    softer = submission_results()
    assert [result.verdict for result in softer] == ["open", "supported"]
    for result in softer:
        harder = printed[result.claim.id.removesuffix("-submission")]
        assert harder.verdict == "open"
        assert result.ps[0] < harder.ps[0]
        assert [task.ps for task in result.tasks] == [task.ps for task in harder.tasks]


def judged(claim: Claim, folder: Path) -> ClaimResult:
    return evaluated([claim], "paper", runs=str(folder))[0]


def compared(folder: Path) -> Pair:
    """Return the pair of the two norms on RT."""
    return judged(RT, folder).tasks[0].pair


def answers(result: ClaimResult) -> dict[str, str]:
    return {"all": result.verdict, **{task.task: task.pair.answer for task in result.tasks}}


def test_a_claim_is_supported_where_every_task_supports_it(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    text = claims_markdown([judged(ADANORM, tmp_path)])
    opening = text.partition("## How to read")[0]
    verdict = (
        "**open** | Open: shown on one of three data sets (RT), claimed on three: AdaNorm is better"
    )
    assert all(
        part in opening for part in (verdict, preregistration().digest, "runs of SST5 and Enwiki8")
    )
    assert re.search(r"\| RT \| accuracy \| AdaNorm \| LayerNorm \| \+[23]\.\d+ \|", text)
    column(tmp_path, "sst5", 40.0, 3.0)
    result = judged(ADANORM, tmp_path)
    assert answers(result) == {"all": "open", "rt": "better", "sst5": "better", "enwik8": "not run"}
    assert claim_closing(result) == "runs of Enwiki8", "no seeds of what is decided"
    column(tmp_path, "enwik8", 1.1, -0.05)
    result = judged(ADANORM, tmp_path)
    assert result.verdict == "supported", "fewer bits are better"
    assert result.ps[0] == pytest.approx(max(task.ps[0] for task in result.tasks)), "no correction"
    assert claim_sentence(result).startswith(
        "Supported: shown on three of three data sets (RT, SST5 and Enwiki8), claimed on three: A"
    )
    column(tmp_path, "enwik8", 1.1, 0.0)
    assert judged(ADANORM.model_copy(update={"at_least": 2}), tmp_path).verdict == "supported"
    assert judged(ADANORM, tmp_path).verdict == "no such gain", (
        "equivalent on one of the three claimed"
    )


def test_a_claim_is_judged_on_the_tasks_that_it_names_for_a_scale(tmp_path: Path) -> None:
    claim = Claim.model_validate(ADANORM.model_dump() | {"at": {"paper": {"tasks": ["rt"]}}})
    column(tmp_path, "sst5", 40.0, -3.0)
    assert answers(judged(claim, tmp_path)) == {"all": "not run", "rt": "not run"}
    for norm, scores in (("layernorm", (75.0, 75.0, 75.0)), ("adanorm", (77.7, 78.4, 77.9))):
        record_runs(tmp_path, "rt", norm, scores)
    result = judged(claim, tmp_path)
    assert answers(result) == {"all": "supported", "rt": "better"}, "its one task, of these runs"
    assert claim_sentence(result) == (
        "Supported: shown on RT: AdaNorm is better than LayerNorm; the paper's own gap is excluded."
        " Without SST5 and Enwiki8, where no run of this scale can show it."
    )
    assert [*claim_evidence(claim, "paper", str(tmp_path))] == ["rt"]
    (elsewhere,) = evaluated([claim], "mini", runs=str(tmp_path))
    assert answers(elsewhere) == dict.fromkeys(("all", "rt", "sst5", "enwik8"), "not run")


def test_a_claim_is_contradicted_where_too_many_tasks_contradict_it(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, -3.0)
    result = judged(ADANORM, tmp_path)
    assert answers(result) == {
        "all": "contradicted",
        "rt": "worse",
        "sst5": "not run",
        "enwik8": "not run",
    }
    assert claim_sentence(result) == (
        "Contradicted: shown on none of three data sets, claimed on three: AdaNorm is better than LayerNorm;"
        " worse on RT; the paper's own gap is excluded on RT; two without runs."
    )
    two = ADANORM.model_copy(update={"at_least": 2})
    assert judged(two, tmp_path).verdict == "open", "it allows for one"


def test_no_worse_is_supported_by_the_margin(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, -0.3)
    claim, p_of = RT.model_copy(update={"bound": "no_worse"}), compared(tmp_path).p_of
    no_worse, better = judged(claim, tmp_path), judged(RT, tmp_path)
    assert (no_worse.verdict, better.verdict) == ("supported", "no such gain")
    assert no_worse.tasks[0].ps == (p_of("not inferior"), p_of("inferior"), p_of("inferior"))
    assert better.tasks[0].ps == (p_of("better"), p_of("worse"), p_of("not superior"))
    column(tmp_path, "rt", 75.0, -3.0)
    assert judged(claim, tmp_path).verdict == "contradicted"


def test_a_claim_on_noisy_few_or_unpaired_runs_is_open_and_says_what_would_close_it(
    tmp_path: Path,
) -> None:
    column(tmp_path, "rt", 75.0, 0.5, noise=8)
    record_runs(tmp_path, "sst5", "layernorm", [38.0])
    record_runs(tmp_path, "sst5", "adanorm", [48.0])
    result = judged(ADANORM, tmp_path)
    assert answers(result) == {"all": "open", "rt": "open", "sst5": "open", "enwik8": "not run"}
    rt, sst5 = (task.pair for task in result.run)
    comparison, ahead = not_none(rt.comparison), not_none(rt.prospect)
    effects: dict[Kind, float] = {"difference": 0.29, "equivalence": 1.0}
    looks, sd = preregistration().looks_of("first"), comparison.sd
    assert [*ahead] == [
        seeds_looked_at(
            looks,
            effect,
            kind=kind,
            sd=sd,
        )
        for kind, effect in effects.items()
    ]
    assert (sst5.comparison, sst5.remark) == (None, "one seed")
    left = not_none(ahead.to_equate) - 3
    margin = f"{left} more seeds ({0.2 * left:.1f} h) to show equivalence"
    assert left > 0
    assert claim_closing(result).startswith(f"RT: {margin}")
    assert claim_closing(result).endswith("SST5: a second seed; runs of Enwiki8")
    assert claim_sentence(result) == (
        "Open: shown on none of three data sets, claimed on three: AdaNorm is better than LayerNorm;"
        " open on RT and SST5; one without runs."
    )
    widens = ", though the next seed widens the interval at first"
    assert lacking(rt) == f"{margin}, {more(rt, ahead.to_find)} to find the paper's gap{widens}"
    for paper in (None, PaperGap(99.0, 0.0, confirmed=True)):  # none, and one that is excluded
        assert (
            lacking(replace(rt, comparison=replace(comparison, paper=paper))) == f"{margin}{widens}"
        )
    hopeless = replace(comparison, paper=None, margin=1e-6)
    assert (
        lacking(replace(rt, comparison=hopeless))
        == "no number of seeds is enough to show equivalence"
    )
    look = replace(comparison, paper=None, levels=rt.plan.looks.levels(4))
    assert lacking(replace(rt, comparison=look)) == margin, "it is one of many looks already"
    assert [more(rt, seeds) for seeds in (None, 3, 4, 40, 41)] == [
        "no number of seeds is enough",
        "more seeds than these (3 usually do)",
        "1 more seed (0.2 h)",
        "37 more seeds (7.4 h)",
        "38 more seeds (7.6 h, beyond the plan)",
    ]
    assert more(replace(rt, sides=(rt.sides[0], ended())), 5) == "2 more seeds"
    assert [count(number) for number in (0, 8, 9)] == ["none", "eight", "9"]
    assert [listed(["a", "b", "c"][:names]) for names in (1, 2, 3)] == [
        "a",
        "a and b",
        "a, b and c",
    ]


def test_the_variance_is_the_tasks_and_a_seed_beyond_the_plan_has_a_stricter_level(
    tmp_path: Path,
) -> None:
    """Two norms that agree by luck are not sure of their gap."""
    column(tmp_path, "rt", 75.0, 0.0, noise=5)
    record_runs(
        tmp_path,
        "rt",
        "adanorm",
        [77.0, 77.01, 77.02],
    )
    record_runs(
        tmp_path,
        "rt",
        "layernorm",
        [75.0, 75.01, 75.02],
    )
    three = compared(tmp_path)
    assert three.gaps == pytest.approx([2.0, 2.0, 2.0])
    assert not_none(three.comparison).sd > 0.3
    column(tmp_path, "rt", 75.0, 0.4, seeds=4)
    four = compared(tmp_path)
    assert (three.seeds, four.seeds) == ((1, 2, 3), (1, 2, 3, 4))
    assert not_none(three.comparison).levels.difference == 0.05
    assert not_none(four.comparison).levels.difference < 0.01


def test_seeds_after_the_most_of_the_plan_are_no_part_of_the_variance() -> None:
    random, most = np.random.default_rng(0), preregistration().stopping.most
    spread = np.repeat([1, 9], [most, 5])
    scores = [dict(enumerate(random.normal(75, spread).tolist(), 1)) for _ in range(2)]
    norms = {
        norm: ended(scores=of) for norm, of in zip(("adanorm", "layernorm"), scores, strict=True)
    }
    both = pair(
        Evidence(first_plan("rt", quantity="valid_best"), norms, variance_of(norms)), *norms
    )
    comparison = not_none(both.comparison)
    assert (comparison.seeds, comparison.df) == (most, most - 1)
    assert comparison.sd == pytest.approx(np.std(both.gaps, ddof=1))


def test_a_norm_that_diverges_is_worse_once_chance_is_excluded(tmp_path: Path) -> None:
    for seeds, answer, ps in ((3, "open", (1, 1, 1)), (4, "better", (2 / 70, 1, 1))):
        record_runs(tmp_path, "rt", "layernorm", [None] * seeds)
        record_runs(
            tmp_path,
            "rt",
            "adanorm",
            [75.0, 76.0, 77.0, 76.5][:seeds],
        )
        task = judged(RT, tmp_path).tasks[0]
        assert task.pair.answer == answer, "3 of 3 against 0 of 3: p = 0.1"
        assert task.ps == pytest.approx(ps)
    assert task.pair.remark == "diverged: AdaNorm 0 of 4, LayerNorm 4 of 4"


def test_the_norm_with_the_larger_share_of_diverged_runs_is_worse() -> None:
    few = ended(diverged=(1, 2, 3, 4))
    many = ended(scores=dict.fromkeys(range(2, 41), 75.0), diverged=(1,))
    for sides, answer in (((few, many), "worse"), ((many, few), "better")):
        norms = dict(zip(("adanorm", "layernorm"), sides, strict=True))
        both = pair(Evidence(first_plan("rt"), norms, variance_of(norms)), *norms)
        assert both.divergence_p == pytest.approx(comb(40, 1) / comb(44, 5)), (
            "5 of 44, 4 of them of the 4"
        )
        assert both.answer == answer
        chance = replace(
            both, sides=(ended(scores={2: 75.0}, diverged=(1,)), ended(scores={1: 75.0}))
        )
        assert (chance.answer, chance.p_of("better"), chance.p_of("worse")) == ("open", 1, 1)


@pytest.mark.parametrize(
    "lost", [48.0, None]
)  # of a run that learned nothing, of one that diverged
def test_a_norm_is_not_compared_by_the_better_of_its_seeds(
    tmp_path: Path, lost: float | None
) -> None:
    column(tmp_path, "rt", 75.0, 3.0)
    record_runs(
        tmp_path,
        "rt",
        "adanorm",
        [78.0, lost, 78.1],
    )
    both = compared(tmp_path)
    assert (both.answer, both.gaps, both.comparison) == ("open", [], None)


def test_examples_on_record_widen_the_interval(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 0.7)
    # Of 1,000 examples each norm has 100 right that the other has wrong, with every seed.
    scores = {"layernorm": (75.0, 75.2, 74.8), "adanorm": (75.7, 75.8, 75.6)}
    for norm, by_seed in scores.items():
        record_runs(tmp_path, "rt", norm, by_seed)
    before = not_none(compared(tmp_path).comparison)
    for norm, by_seed in scores.items():
        for seed, score in enumerate(by_seed, 1):
            right = [[1]] * round(10 * score) + [[0]] * round(1000 - 10 * score)
            turned = right[-100:] + right[:-100] if norm == "adanorm" else right
            run = run_of(tmp_path, "rt", norm, seed)
            record(run, counted={"accuracy": turned}, seconds=360.0)
    best_epoch = not_none(judged(RT, tmp_path).tasks[0].best_epoch)
    assert not_none(best_epoch.comparison).example_error == 0, "validation has no test examples"
    after = not_none(compared(tmp_path).comparison)
    assert after.example_error == pytest.approx(100 * (0.2 / 1000) ** 0.5, rel=0.05)
    assert after.examples == 1000
    assert after.interval[0] < before.interval[0] < before.interval[1] < after.interval[1]


def test_losses_are_those_of_the_last_evaluation(tmp_path: Path) -> None:
    claim = ADANORM.model_copy(update={"quantity": "last_valid_loss", "tasks": ["ptb"]})
    for norm, lift in (("layernorm", 0.0), ("adanorm", -0.3)):
        for seed in (1, 2, 3):
            rows = [{"valid_loss": 9.0}, {"valid_loss": 1 + seed / 50 + lift * (1 + seed / 100)}]
            record(
                run_of(
                    tmp_path,
                    "ptb",
                    norm,
                    seed,
                ),
                rows=rows,
                test={"uas": 80.0},
            )
    result = judged(claim, tmp_path)
    assert result.verdict == "supported"
    says = "Supported: shown on PTB: AdaNorm is better than LayerNorm by the last validation loss"
    assert claim_sentence(result).startswith(says)
    paper = not_none(not_none(result.tasks[0].pair.comparison).paper)
    assert paper.value == pytest.approx(0.1613 - 0.1522), "the last values of the paper's curves"
    assert (paper.rounding, paper.confirmed) == (2 * 0.0005, True), "each is read off a drawing"


def test_beside_a_claim_stand_the_best_epoch_and_the_level_each_in_its_column(
    tmp_path: Path,
) -> None:
    for norm, lead in (("layernorm", 0.0), ("adanorm", 1.0)):
        for seed in (1, 2):
            curve = [
                {"valid_accuracy": x}
                for x in (70.0, 71.0, 72.0, 73.0, 74 + 2 * lead, 76 + 4 * lead)
            ]
            ends: dict[str, Any] = {
                "test": {"accuracy": 75.0 + lead},
                "valid": {"accuracy": 76.0 + 4 * lead},
            }
            record(
                run_of(
                    tmp_path,
                    "rt",
                    norm,
                    seed,
                ),
                rows=curve,
                **ends,
            )
    result = judged(ADANORM, tmp_path).tasks[0]
    gaps = [not_none(quantity).gaps for quantity in (result.pair, result.best_epoch, result.tail)]
    assert gaps == [pytest.approx([gap, gap]) for gap in (1.0, 4.0, 3.0)]


def test_a_selection_of_seeds_restricts_every_part_of_a_cell(tmp_path: Path) -> None:
    record_runs(
        tmp_path,
        "rt",
        "adanorm",
        [75.0, None, 48.0, 76.0, None, 48.0],
    )
    for seed in (7, 8):
        record(
            run_of(
                tmp_path,
                "rt",
                "adanorm",
                seed,
            ),
            status="failed",
        )
    cell = (
        evidence(first_plan("rt"), runs=str(tmp_path))
        .of_seeds({"adanorm": {1, 2, 3, 7}})
        .norms["adanorm"]
    )
    assert (cell.by_seed, cell.seconds) == ({1: 75.0}, 360.0)
    assert [cell.count("diverged"), cell.unlearned, cell.count("failed")] == [1, (3,), 1]
    assert cell.recorded == {1, 2, 3}
    record_runs(tmp_path, "rt", "layernorm", [75.0])
    assert "failed: AdaNorm 2 of 8, LayerNorm 0 of 1" in compared(tmp_path).remark


def test_a_verdict_needs_a_corrected_p_below_the_level(tmp_path: Path) -> None:
    column(tmp_path, "rt", 75.0, 3.0, noise=1.6)
    (alone,) = evaluated([RT], "paper", runs=str(tmp_path))
    several = evaluated([RT] * 5, "paper", runs=str(tmp_path))
    assert not_none(alone.family)[0] < 0.2
    assert not_none(several[0].family)[0] == pytest.approx(5 * not_none(alone.family)[0])
    level = preregistration().level
    for family in ((level, 1.0, 1.0), (1.0, level, 1.0), (1.0, 1.0, level)):
        assert replace(alone, family=family).verdict == "open"


def test_a_claim_without_runs_is_not_run_and_is_no_evidence(tmp_path: Path) -> None:
    none = judged(ADANORM, tmp_path)
    assert (none.verdict, none.ps, none.shown_on) == ("not run", (1, 1, 1), 0)
    assert claim_sentence(none) == "Not run: no task has runs of both norms."
    assert claim_evidence(ADANORM, "paper", str(tmp_path)) == {}


def test_the_papers_gap_is_of_its_own_scale_and_of_test_scores_and_losses_alone() -> None:
    norms = {norm: ended() for norm in ("adanorm", "layernorm")}
    test = Evidence(first_plan("rt"), norms, TaskVariance({}, 8))
    gap = not_none(paper_gap(test, "adanorm", "layernorm"))
    assert gap.value == pytest.approx(0.29)
    for plan in (first_plan("rt", "mini"), first_plan("rt", quantity="valid_best")):
        assert paper_gap(replace(test, plan=plan), "adanorm", "layernorm") is None
    assert published_gap("en-de", "layernorm", "none") is None, "it diverged in the paper"
    assert published_gap("en-de", "layernorm", "powernorm") is None
    fewer_bits = not_none(published_gap("enwik8", "none", "layernorm"))
    assert fewer_bits[:2] == pytest.approx((0.03, 0.01))


def test_accuracies_differ_by_no_less_than_one_example(tmp_path: Path) -> None:
    record_runs(tmp_path, "rt", "layernorm", [75.0, 75.0])
    folder = run_of(
        tmp_path,
        "rt",
        "layernorm",
        1,
    ).folder()
    put(folder, "predictions.txt.gz", packed(b"1\n" * 500))
    assert evidence(first_plan("rt"), runs=str(tmp_path)).variance.resolution == 0.2
    assert (
        evidence(first_plan("rt", quantity="valid_best"), runs=str(tmp_path)).variance.resolution
        == 0
    )


def test_the_papers_own_table_passes_one_sign_test() -> None:
    by_claim = {claim.id: own for claim, *own in claims_of_the_paper()}
    counts = {name: tuple(own[:3]) for name, own in by_claim.items()}
    expected = {"adanorm": (7, 0, 1), "affine-better": (4, 2, 2), "gradients": (6, 2, 0)}
    assert counts.items() >= {**expected, "forward": (5, 2, 0)}.items(), "on En-De both diverge"
    assert sum(counts["variance"]) == 4, "a claim on four tasks"
    assert [name for name, own in by_claim.items() if own[3] < 0.05] == ["adanorm"]


def test_a_cell_is_traced_to_its_runs_and_their_commands() -> None:
    lines = trace("table4/AdaNorm/RT")
    assert lines[0] == "Table 4: AdaNorm against LayerNorm: AdaNorm, RT"
    assert "the paper has 77.50" in lines[1]
    repeat = "adanorm run task=rt norm=adanorm scale=paper seed=2 runs=repeated norm.backend=fused"
    assert f"  repeat   {repeat}" in lines
    assert any(line.startswith("  commit   ") for line in lines)
    assert trace("table4/adanorm/rt") == lines
    assert max(map(len, lines)) <= 110
