"""Answers on one comparison, against the tests of other libraries."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy import stats

from adanorm.stats.comparison import Comparison, PaperGap, compare
from adanorm.stats.conjunction import league
from adanorm.stats.sequential import Kind, Levels, Looks, seeds_looked_at, seeds_needed
from adanorm.verdicts.preregistration import preregistration
from tests.verdicts import not_none

FIRST = np.array([75.0, 76.2, 74.9, 77.0])
SECOND = np.array([75.4, 76.1, 75.8, 77.9])
GAPS = SECOND - FIRST
PLAN = preregistration().looks_of("first")


def of_gap(
    gap: float, *, sd: float = 0.1, df: float = 12, margin: float = 1.0, seeds: int = 3
) -> Comparison:
    return Comparison(
        gap,
        sd,
        df,
        seeds,
        margin,
        Levels(0.05, 0.1),
    )


def test_by_its_own_variance_alone_a_comparison_is_students_paired_test_and_tost() -> None:
    comparison = of_gap(
        float(GAPS.mean()),
        sd=float(GAPS.std(ddof=1)),
        df=3,
        seeds=4,
    )
    student = stats.ttest_rel(SECOND, FIRST)
    assert comparison.p == pytest.approx(student.pvalue)
    assert comparison.interval == pytest.approx(tuple(student.confidence_interval(0.95)))
    assert comparison.margin_interval == pytest.approx(tuple(student.confidence_interval(0.90)))
    lower = stats.ttest_1samp(GAPS, -1, alternative="greater").pvalue
    upper = stats.ttest_1samp(GAPS, 1, alternative="less").pvalue
    assert (comparison.p_of("not inferior"), comparison.p_of("not superior")) == pytest.approx(
        (lower, upper)
    )
    for side in (
        replace(comparison, margin=0.01),
        replace(comparison, gap=-comparison.gap, margin=0.01),
    ):
        ps = side.p_of("better"), side.p_of("worse")
        assert (ps if side.gap > 0 else ps[::-1]) == pytest.approx((student.pvalue, 1))


WITHIN, NOT, ALIKE = "within the margin", "not shown within the margin", "not told apart"


@pytest.mark.parametrize(
    ("gap", "sd", "parts", "why"),
    [
        (2.0, 0.5, ("ahead", NOT, "excluded", "better"), "interval +1.37 to +2.63"),
        (-2.0, 0.5, ("behind", NOT, "excluded", "worse"), "interval -2.63 to -1.37"),
        (
            0.3,
            0.5,
            (ALIKE, WITHIN, "not excluded", "equivalent"),
            "-0.21 to +0.81 for the margin of 1",
        ),
        (
            0.9,
            0.05,
            ("ahead", WITHIN, "excluded", "equivalent"),
            "+0.85 to +0.95 for the margin of 1",
        ),
        (0.3, 3.0, (ALIKE, NOT, "not excluded", "open"), "margin of 1, -2.79 to +3.39"),
    ],
)
def test_an_answer_has_a_sign_a_size_the_papers_gap_and_the_interval_that_decides_it(
    gap: float, sd: float, parts: tuple[str, ...], why: str
) -> None:
    one = replace(of_gap(gap, sd=sd), paper=PaperGap(0.5, 0.01, confirmed=True))
    assert (one.sign, one.size, one.papers_gap, one.answer) == parts
    assert one.why.endswith(why)
    assert of_gap(0.0, sd=0.3, margin=0.1).answer == "open", (
        "zero lies in an interval that is wider"
    )
    corrected = replace(of_gap(0.0, sd=1.0), levels=Levels(0.05, 0.05), family_p=0.4)
    assert corrected.why == "interval -1.26 to +1.26, corrected p 0.400; the margin is 1"


def test_the_margin_decides_what_is_better_than_nothing_and_what_is_not_worse() -> None:
    trivial = of_gap(0.5, sd=0.01)
    assert trivial.p < 1e-6, "surely not nil"
    assert (trivial.answer, trivial.p_of("better")) == ("equivalent", 1.0)
    assert of_gap(-0.5, sd=0.01).p_of("worse") == 1.0
    assert (
        of_gap(-0.3, sd=0.3).p_of("not inferior") < 0.05 < of_gap(-0.3, sd=3.0).p_of("not inferior")
    )
    assert of_gap(-2.0, sd=0.3).p_of("inferior") < 0.05
    assert of_gap(-1.1, sd=0.8).p_of("inferior") > 0.05, "worse, but perhaps by less than matters"
    sure = of_gap(100.0, sd=1e-9)
    ps = (
        sure.p,
        sure.p_of("better"),
        sure.p_of("not inferior"),
        of_gap(-100.0, sd=1e-9).p_of("inferior"),
    )
    assert all(0 < p < 1e-20 for p in ps), "no p is ever 0"


def test_the_papers_gap_is_excluded_by_the_seeds_alone_and_rounding_is_allowed_for() -> None:
    near = replace(of_gap(0.0, sd=0.15), paper=PaperGap(0.22, 0.01, True))
    assert near.paper_p == pytest.approx(2 * stats.t.sf(0.21 / (0.15 / math.sqrt(3)), 12))
    assert near.papers_gap == "excluded"
    moved = replace(near, gap=0.5, paper=PaperGap(0.72, 0.01, True))
    assert moved.paper_p == pytest.approx(near.paper_p), "as far from the paper's"
    assert replace(near, example_error=5.0, examples=100).paper_p == near.paper_p
    assert replace(near, paper=PaperGap(0.22, 0.1, True)).papers_gap == "not excluded"
    assert of_gap(0.0).papers_gap == "not comparable"


def test_more_noise_never_narrows_an_interval_or_lowers_a_p() -> None:
    alone = replace(
        of_gap(
            0.5,
            sd=0.4,
            df=6,
            seeds=7,
        ),
        levels=PLAN.levels(7),
    )
    for example_error in (0.05, 0.3, 1.0):
        both = replace(alone, example_error=example_error, examples=1000)
        assert both.error == pytest.approx(math.hypot(0.4 / math.sqrt(7), example_error))
        assert both.interval.low < alone.interval.low
        assert both.p > alone.p
        assert both.p_of("not inferior") > alone.p_of("not inferior")


def test_a_look_is_stricter_than_a_fixed_plan_and_its_p_says_so() -> None:
    fixed = of_gap(
        0.5,
        sd=0.45,
        seeds=5,
        margin=0.1,
    )
    look = replace(fixed, levels=PLAN.levels(5))
    assert (fixed.answer, look.answer) == ("better", "open")
    assert fixed.p < 0.05 < look.p
    # A p of exactly the level is where the interval just touches 0.
    reach = float(stats.t.isf(look.levels.difference / 2, 12)) * look.error
    assert replace(look, gap=reach).p == pytest.approx(0.05)


def test_the_number_of_seeds_needed_follows_from_the_power() -> None:
    # Two-sided at 0.05 with power 0.8: Cohen 1988; G*Power 3 has 34 for a matched-pairs t-test of
    # dz = 0.5.
    for effect, pairs in (
        (0.5, 34),
        (1.0, 10),
        (2.0, 5),
    ):  # few pairs tell degrees of freedom apart
        assert (
            seeds_needed(
                PLAN,
                effect,
                kind="difference",
                sd=1.0,
            )
            == pairs
        )
    assert (
        seeds_needed(
            PLAN,
            0.5,
            kind="difference",
            sd=0.915**0.5,
            example_error=0.05,
        )
        == 34
    ), "as large"
    assert (
        seeds_needed(
            PLAN,
            6.05,
            kind="difference",
            sd=1.0,
        )
        == 3
    ), "scipy has no far tail of two"
    for kind in get_args(Kind):
        assert (
            not_none(
                seeds_looked_at(
                    PLAN,
                    0.1,
                    kind=kind,
                    sd=1.0,
                )
            )
            > 40
        ), "more than the plan has"
        assert (
            seeds_looked_at(
                PLAN,
                0.3,
                kind=kind,
                sd=0.5,
                example_error=0.4,
            )
            is None
        )
        assert (
            seeds_looked_at(
                PLAN,
                0.0,
                kind=kind,
                sd=0.5,
            )
            is None
        )
    count = not_none(
        seeds_needed(
            PLAN,
            1.0,
            kind="equivalence",
            sd=1.5,
            prior_df=8,
        )
    )
    random = np.random.default_rng(0)
    gaps = random.normal(0, 1.5 / math.sqrt(count), 4000)
    df = count + 7
    sds = 1.5 * np.sqrt(random.chisquare(df, 4000) / df)
    answers = [
        of_gap(
            g,
            sd=s,
            df=df,
            seeds=count,
        ).answer
        for g, s in zip(gaps, sds, strict=True)
    ]
    assert answers.count("equivalent") / 4000 == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("kind", "effect", "sd"), [("equivalence", 1.0, 1.1), ("difference", 1.0, 1.2)]
)
@pytest.mark.parametrize("example_error", [0.0, 0.15])
def test_by_so_many_seeds_four_comparisons_of_five_have_closed_at_a_look(
    kind: Kind, effect: float, sd: float, example_error: float
) -> None:
    count = not_none(
        seeds_looked_at(
            PLAN,
            effect,
            kind=kind,
            sd=sd,
            example_error=example_error,
        )
    )
    assert count <= PLAN.after[-1]
    random = np.random.default_rng(7)

    def closes(gaps: np.ndarray) -> bool:
        alone = of_gap(
            gaps.mean(), sd=gaps.std(ddof=1), df=len(gaps) - 1, seeds=len(gaps), margin=effect
        )
        look = replace(alone, levels=PLAN.levels(len(gaps)), example_error=example_error)
        return look.size == "within the margin" if kind == "equivalence" else look.interval.low > 0

    closed = 0
    for _ in range(500):
        gaps = random.normal(0.0 if kind == "equivalence" else effect, sd, count)
        gaps += random.normal(0, example_error)
        closed += any(closes(gaps[:seeds]) for seeds in range(PLAN.after[0], count + 1))
    assert closed / 500 == pytest.approx(0.8, abs=0.06)


def test_lists_pair_only_if_asked_and_dictionaries_by_seed() -> None:
    pairs = not_none(compare(SECOND.tolist(), FIRST.tolist(), 1.0, paired=True))
    assert compare(dict(enumerate(SECOND)), dict(enumerate(FIRST)), 1.0) == pairs
    large = 5, 2**63 - 1, 2**63, 2**63 + 1
    by_large_seed = [dict(zip(large, scores, strict=True)) for scores in (SECOND, FIRST)]
    assert compare(by_large_seed[0], by_large_seed[1], 1.0) == pairs
    del by_large_seed[1][2**63]
    rest = not_none(compare(by_large_seed[0], by_large_seed[1], 1.0))
    assert rest.method == "3 shared seeds of 4 and 3, partly paired"
    with_rest = [{4: 9.0, **dict(enumerate(SECOND))}, {**dict(enumerate(FIRST)), 7: 1.0}]
    assert compare(with_rest[0], with_rest[1], 1.0, paired=True) == pairs
    student = stats.ttest_rel(SECOND, FIRST)
    for level in (0.05, 0.2):
        comparison = not_none(compare(SECOND, FIRST, 1.0, level=level, paired=True))
        assert comparison.interval == pytest.approx(tuple(student.confidence_interval(1 - level)))
    welch = not_none(compare(SECOND, FIRST, 1.0))
    assert welch.p == pytest.approx(stats.ttest_ind(SECOND, FIRST, equal_var=False).pvalue)
    labels = [dict(enumerate(SECOND)), dict(enumerate(FIRST))]
    assert compare(labels[0], labels[1], 1.0, paired=False) == welch
    assert compare(labels[0], FIRST, 1.0) == welch, "seeds of one side pair with nothing"
    stricter = not_none(compare(SECOND, FIRST, 1.0, levels=Levels(0.01, 0.02)))
    assert stricter.levels.equivalence == 0.02
    assert compare([1.0], [2.0, 3.0], 1.0) is None, "one score"
    assert compare([1.0, 2.0], [2.0, 3.0], 1.0, paired=True) is None, "equal gaps"
    assert compare([1.0, 1.0], [2.0, 2.0], 1.0) is None, "no noise"


@pytest.mark.parametrize("unit", [1e-129, 1e-90, 1e148])
@pytest.mark.parametrize("shared", [0, 2, 3])
def test_an_answer_does_not_depend_on_the_unit(unit: float, shared: int) -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.5, 2.0])
    seeds = [7 - shared + seed for seed in range(3)]

    def comparison(factor: float) -> Comparison:
        ours = dict(enumerate((factor * first).tolist(), 4))
        theirs = dict(zip(seeds, (factor * second).tolist(), strict=True))
        return not_none(compare(ours, theirs, 0.5 * factor))

    plain, scaled = comparison(1.0), comparison(unit)
    needed = [pair.seeds_to_show(pair.margin, "difference") for pair in (plain, scaled)]
    assert needed[0] == needed[1]
    assert (scaled.df, scaled.p) == pytest.approx((plain.df, plain.p))
    assert scaled.answer == plain.answer


def test_scores_margins_and_levels_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"seed a: scores such as nan must be finite"):
        compare({"a": math.nan, "b": 1.0}, {"a": 1.0, "b": 2.0}, 1.0)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="2 and 1 scores: name seeds"):
        compare([1.0, 2.0], [1.0], 1.0, paired=True)
    with pytest.raises(ValueError, match="name the seeds of all scores or of none"):
        compare({1: 1.0, 2: 2.0}, [1.0, 3.0], 1.0, paired=True)
    for margin in (0.0, math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match=f"margin={margin:g}: must be above 0"):
            compare(SECOND, FIRST, margin)
    for level in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match=f"level={level:g}: must be above 0 and below 1"):
            compare(SECOND, FIRST, 1.0, level=level)
    for score in (math.nan, math.inf, 1e308, 1e-310):
        with pytest.raises(ValueError, match=r"seed 7: scores .* must be finite"):
            compare({6: 1.0, 7: score, 8: 2.0}, {6: 1.0, 7: -1e308, 8: 3.0}, 1.0)
        with pytest.raises(ValueError, match=r"a list: scores .* must be finite"):
            compare([1.0, score], [2.0, 3.0], 1.0)
    levels = Looks((4, 8), 1.5).levels(4)
    assert not_none(compare(SECOND, FIRST, 1.0, levels=levels)).levels == levels
    with pytest.raises(ValueError, match="3 seeds: these are the levels of the look after 4"):
        compare(SECOND[:3], FIRST, 1.0, levels=levels)
    with pytest.raises(ValueError, match="both norms need the same test examples"):
        compare(np.ones((3, 4)), np.ones((3, 5)), 1.0)
    with pytest.raises(ValueError, match="numbers, or equally many for each seed"):
        compare({1: [1.0, 2.0], 2: [1.0]}, {1: [1.0, 2.0], 2: [2.0, 1.0]}, 1.0)
    with pytest.raises(ValueError, match="numbers, or equally many for each seed"):
        compare(np.ones((3, 4, 2)), np.ones((3, 4, 2)), 1.0)
    with pytest.raises(ValueError, match=r"seeds \[1, 'b'\]: must be all numbers or all names"):
        compare({1: 1.0, "b": 2.0}, {1: 1.0, 2: 2.0}, 1.0)  # type: ignore[dict-item]


def test_a_league_refuses_a_name_without_scores() -> None:
    with pytest.raises(ValueError, match="b: has no scores"):
        league({"a": {1: 1.0, 2: 2.0}, "b": {}}, 1.0)


def test_a_corrected_p_and_a_lead_beyond_the_margin_decide_the_sign_where_a_rule_says_so() -> None:
    ahead = of_gap(0.5, sd=0.3, margin=0.4)
    assert ahead.sign == "ahead"
    assert replace(ahead, family_p=0.05).sign == "not told apart"
    assert replace(ahead, family_p=0.049, beyond_margin=True).sign == "ahead"
    assert replace(ahead, margin=0.5, beyond_margin=True).sign == "not told apart", (
        "no more than the margin"
    )
