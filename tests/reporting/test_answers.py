"""The answer to the question in words, from comparisons made by hand."""

import numpy as np

from adanorm.reporting.figures.leads import answer_figure
from adanorm.reporting.tables.answers import answer_rows, corrections, headline
from adanorm.stats.comparison import Comparison, PaperGap, compare_gaps
from adanorm.verdicts.claims import TaskAnswer
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.preregistration import preregistration
from tests.verdicts import not_none

SAME = [-0.1, 0.1, 0.0, 0.05, -0.05, 0.02, -0.02, 0.1, -0.1, 0.0]


def compared(lead: float, *, paper: float | None = None, margin: float = 0.5) -> Comparison:
    gap = None if paper is None else PaperGap(paper, 0.01, confirmed=True)
    return not_none(compare_gaps([lead + noise for noise in SAME], margin, paper=gap))


OF_RT = compared(0.0, paper=0.29)


def plan(task: str) -> Plan:
    return preregistration().plans_of(task)[-1]


RT = TaskAnswer(
    plan("rt"),
    OF_RT,
    12,
    family_p=1.0,
)
DE_EN = TaskAnswer(
    plan("de-en"),
    compared(-0.8),
    10,
    family_p=0.001,
)
EN_VI = TaskAnswer(
    plan("en-vi"),
    compared(0.8),
    10,
    family_p=0.001,
)
PTB = TaskAnswer(plan("ptb"), None, 1)


def test_the_headline_names_the_data_sets_with_each_answer_and_what_is_missing() -> None:
    assert headline([RT, DE_EN, EN_VI, PTB]) == (
        "AdaNorm is better than LayerNorm on one of four data sets (En-Vi); worse on De-En;"
        " equivalent on RT. No answer yet: PTB. The paper reports it on seven of eight."
        " The paper's gain is excluded on RT."
    )


def test_a_row_has_the_gain_and_the_answer_each_with_the_interval_that_decides_it() -> None:
    low, high = OF_RT.margin_interval
    title, row = answer_rows([RT], "page.md")
    assert title == ["**The paper's size**", "", "", "", ""]
    assert row == [
        "[RT](page.md#rt) (accuracy)",
        "+0.29",
        f"+0.00 (90 %: {low:+.2f} to {high:+.2f})",
        "10",  # seeds of the last look, not all on record
        "equivalent; paper's excluded",
    ]


def test_data_sets_at_the_papers_size_stand_apart_from_those_with_smaller_data() -> None:
    names = [row[0] for row in answer_rows([DE_EN, RT, EN_VI])]
    smaller = ["Smaller data", "De-En (BLEU)", "En-Vi (BLEU)"]
    assert names == ["The paper's size", "RT (accuracy)", *smaller]


def test_a_lead_has_the_digits_that_its_margin_needs() -> None:
    of_bpc = not_none(compare_gaps([0.011, 0.012, 0.010], 0.02))
    row = answer_rows([TaskAnswer(plan("enwik8"), of_bpc, 3)])[1]
    assert row[2] == "+0.011 (90 %: +0.009 to +0.013)"
    assert row[4] == "equivalent"


def test_a_task_without_an_answer_says_how_many_seeds_it_waits_for() -> None:
    assert answer_rows([PTB])[1][1:] == ["(+0.11)", "", "1 of 3", "no answer yet"]
    assert answer_rows([DE_EN])[1][1] == "(+0.10)", "the paper's gain is of another size"


def test_answers_are_corrected_for_their_number_and_translations_pooled() -> None:
    text = corrections([RT, DE_EN, EN_VI, PTB])
    assert text.startswith(
        "Corrected for four data sets (Holm), AdaNorm is better or worse on De-En and En-Vi."
    )
    assert "Over two translations together the gain is +0.00 BLEU" in text
    assert corrections([RT]).endswith(
        "one data set (Holm), AdaNorm is better or worse on none of them."
    )


def test_the_figure_has_one_row_per_answer_with_both_intervals_and_says_which_side_is_whose() -> (
    None
):
    axes = not_none(answer_figure([RT, DE_EN, PTB])).figure.axes
    assert [axis.get_yticklabels()[0].get_text().split(",")[0] for axis in axes] == ["RT", "De-En"]
    titles = [axes[0].get_title(side) for side in ("left", "right")]
    assert titles == ["◄ LayerNorm better", "AdaNorm better ►"]
    lines = {tuple(np.asarray(line.get_xdata()).tolist()) for line in axes[0].get_lines()}
    assert {tuple(OF_RT.interval), tuple(OF_RT.margin_interval)} < lines
    assert answer_figure([PTB]) is None
