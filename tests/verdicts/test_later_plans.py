"""The plans of conf/plans/later.yaml: what they read, when, and with whose noise of examples."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from adanorm.config.paths import PROJECT
from adanorm.reporting.tables.claims import CLAIM_COLUMNS
from adanorm.reporting.tables.plans import plans_markdown
from adanorm.reporting.tables.summary import control_sentence, craft_sentence
from adanorm.stats.example_noise import example_error, example_noise
from adanorm.verdicts.evidence import evidence
from adanorm.verdicts.later_answers import answers_of, later_answers
from adanorm.verdicts.later_plans import LaterPlan, later_plans
from adanorm.verdicts.pair import pair
from adanorm.verdicts.plan import Plan
from tests.reporting.records import record, run_in
from tests.verdicts import not_none
from tests.verdicts.test_plan_answers import answer, pair_with_top3

SMALL = ("task=de-en", "scale=small")


def write_bleu(
    folder: Path, plan: Plan, first: int, layernorm: list[float], adanorm: list[float]
) -> None:
    for norm, scores in {"layernorm": layernorm, "adanorm": adanorm}.items():
        for seed, score in enumerate(scores, first):
            run = run_in(
                folder,
                *SMALL,
                f"norm={norm}",
                *plan.overrides,
                seed=seed,
            )
            record(run, test={"bleu": score, "chrf": 2 * score})


def test_the_third_look_reads_forty_seeds_and_has_no_more_error_than_was_left(
    tmp_path: Path,
) -> None:
    plan = later_plans().plan("fresh-third-look", "rt")
    assert (plan.first, plan.last, plan.reads, plan.margin) == (41, 80, (40,), 0.5)
    assert [plan.seeds_read(shared) for shared in (39, 40)] == [None, 40]
    assert plan.levels(40).difference < 0.05
    for seed in range(41, 80):
        pair_with_top3(tmp_path, seed, 70.0, 70.0 + seed % 2)
    assert answer(tmp_path, "rt").plan.name == "fresh"
    pair_with_top3(tmp_path, 80, 70.0, 70.0)
    third = answer(tmp_path, "rt")
    assert (third.plan.name, third.seeds) == ("fresh-third-look", "40")
    assert [before.plan.name for before in third.before] == ["fresh"], "its answer stays in view"


def test_a_decision_at_a_look_stands_and_keeps_its_look(tmp_path: Path) -> None:
    plan = later_plans().plan("small-fresh", "de-en")
    assert plan.looks.after == (6, 10, 16)
    equal = [30.0, 30.1, 30.2, 30.0, 30.1, 30.2]
    write_bleu(
        tmp_path,
        plan,
        7,
        equal,
        equal[::-1],
    )
    write_bleu(
        tmp_path,
        plan,
        13,
        [30.0] * 4,
        [20.0, 40.0, 25.0, 20.0],
    )
    records = evidence(plan, runs=str(tmp_path))
    assert len(records.variance.shared("layernorm", "adanorm")) == 10
    comparison = not_none(pair(records, "adanorm", "layernorm").comparison)
    assert (comparison.answer, comparison.seeds) == ("equivalent", 6)


def test_groups_that_share_nothing_are_compared_as_welch_does(tmp_path: Path) -> None:
    plan = later_plans().plan("small-fresh", "de-en")
    random = np.random.default_rng(0)
    layernorm, adanorm = random.normal(30.0, 1.0, 6), random.normal(31.0, 0.2, 6)
    write_bleu(
        tmp_path,
        plan,
        7,
        layernorm.tolist(),
        adanorm.tolist(),
    )
    records = evidence(plan, runs=str(tmp_path))
    comparison = not_none(pair(records, "adanorm", "layernorm").comparison)
    welch = stats.ttest_ind(adanorm, layernorm, equal_var=False)
    assert comparison.gap / comparison.error == pytest.approx(welch.statistic)
    assert comparison.df == pytest.approx(welch.df)


def test_two_quantities_share_the_error_and_chrf_is_read_from_the_same_runs(
    tmp_path: Path,
) -> None:
    bleu, chrf = (later_plans().plan("small-fresh", "de-en", also) for also in (None, "chrf"))
    assert bleu.looks.level == chrf.looks.level == 0.025
    write_bleu(
        tmp_path,
        chrf,
        7,
        [30.0, 31.0] * 3,
        [31.0, 31.5] * 3,
    )
    comparison = not_none(
        pair(evidence(chrf, runs=str(tmp_path)), "adanorm", "layernorm").comparison
    )
    assert comparison.gap == pytest.approx(1.5)


def test_the_noise_of_examples_is_the_pairs_own_whatever_other_norms_have_run(
    tmp_path: Path,
) -> None:
    plan = later_plans().plan("fresh-third-look", "rt")
    random = np.random.default_rng(0)
    right = random.random((3, 40, 50)) < 0.7
    right[2] = random.random((40, 50)) < np.linspace(0.0, 1.0, 50)  # a norm with much noise
    for (norm, of_norm), seed in product(
        zip(("layernorm", "adanorm", "none"), right, strict=True), range(40)
    ):
        run = run_in(
            tmp_path,
            "task=rt",
            "scale=paper",
            f"norm={norm}",
            seed=41 + seed,
        )
        counts = of_norm[seed].astype(float)[:, None].tolist()
        score = 100 * float(of_norm[seed].mean())
        rows = [{"valid_accuracy": 50.0}]
        record(
            run,
            rows=rows,
            tests=(score,),
            counted={"accuracy": counts},
        )
    comparison = not_none(
        pair(evidence(plan, runs=str(tmp_path)), "adanorm", "layernorm").comparison
    )
    noise = example_noise(100.0 * right[1] - 100.0 * right[0])
    assert comparison.example_error == pytest.approx(example_error(noise))


def test_claims_have_the_answer_by_own_noise_beside_the_registered_one() -> None:
    column = CLAIM_COLUMNS.index("by own noise")
    answers = {}
    for line in (PROJECT / "results" / "tables" / "claims.md").read_text("utf-8").splitlines():
        fields = [field.strip() for field in line.strip("|").split("|")]
        if len(fields) == len(CLAIM_COLUMNS) and fields[column] not in ("-", "by own noise"):
            answers[fields[0], fields[2], fields[3]] = (
                fields[CLAIM_COLUMNS.index("answer")],
                fields[column],
            )
    registered, own = answers["MNIST", "AdaNorm", "LayerNorm"]
    assert (registered, own.startswith("equivalent")) == ("open", True)
    registered, own = answers["SST5", "LayerNorm-simple", "LayerNorm"]
    assert registered == "open"
    assert own.startswith("equivalent")


def test_a_plan_reads_its_own_looks_only() -> None:
    values = later_plans().plans["fresh-third-look"].model_dump()
    with pytest.raises(ValueError, match="must be some of the looks"):
        LaterPlan.model_validate(values | {"reads": (30,)})


@pytest.mark.parametrize(
    ("without_norm", "is_open"),
    [
        ([30.0, 30.2, 30.1, 30.3, 30.0, 30.2], True),
        ([39.9, 40.1, 40.3, 39.8, 40.2, 40.0], False),
        ([None] * 6, True),
    ],
)
def test_only_where_a_norm_is_worth_something_are_the_others_compared(
    tmp_path: Path, without_norm: list[float | None], is_open: bool
) -> None:
    plan = later_plans().plan("positive-control", "de-en")
    scores: dict[str, list[float | None]] = {"none": without_norm}
    scores["layernorm"] = [40.0, 40.2, 40.1, 40.3, 40.0, 40.2]
    scores["adanorm"] = [41.0, 41.1, 41.2, 41.0, 41.1, 41.2]
    for norm, by_seed in scores.items():
        for seed, score in enumerate(by_seed, plan.first):
            run = run_in(tmp_path, *SMALL, f"norm={norm}", *plan.overrides, seed=seed)
            if score is None:
                record(run, status="diverged")
            else:
                record(run, test={"bleu": score})
    gate, adanorm, *_ = [
        answer for answer in later_answers(str(tmp_path)) if answer.plan.name == "positive-control"
    ]
    assert not_none(gate.pair).answer == ("better" if is_open else "equivalent")
    page = plans_markdown([gate, adanorm], [])
    if is_open:
        assert not_none(not_none(adanorm.pair).comparison).gap == pytest.approx(0.967, abs=1e-3)
        assert "+0.97" in page
        assert "AdaNorm is better than LayerNorm: +0.97 BLEU" in control_sentence([gate, adanorm])
    else:
        assert control_sentence([gate, adanorm]) == ""
        assert adanorm.pair is None
        assert "no positive control" in page


def test_the_answer_on_craft_is_a_sentence_from_the_first_look_on(tmp_path: Path) -> None:
    plan = later_plans().plan("craft", "ptb")
    settings = ("task=ptb", "scale=open", *plan.overrides)
    for seed in range(plan.first, plan.first + 10):
        for norm, uas in (("layernorm", 88.5), ("adanorm", 88.4 + 0.01 * (seed % 3))):
            assert craft_sentence(answers_of("craft", str(tmp_path))) == ""
            run = run_in(tmp_path, *settings, f"norm={norm}", seed=seed)
            record(run, test={"uas": uas})
    sentence = craft_sentence(answers_of("craft", str(tmp_path)))
    assert "AdaNorm is equivalent to LayerNorm: -0.09 UAS (90 %: -0.10" in sentence
    assert sentence.endswith("10 seeds, margin 0.3.")


def test_a_plans_settings_are_those_of_its_study() -> None:
    plan = later_plans().plan("positive-control", "de-en")
    assert {"model.layers=6", "model.dropout=0.3"} <= {*plan.overrides}
