"""One number over all data sets, from comparisons made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from adanorm.config.paths import PROJECT
from adanorm.reporting.figures.forest import forest
from adanorm.reporting.tables.summary import (
    paper_sentence,
    protocol_sentence,
    summary_markdown,
    summary_sentence,
)
from adanorm.stats.comparison import Comparison, PaperGap, compare_gaps
from adanorm.stats.protocol import Tried
from adanorm.stats.summary import random_effects
from adanorm.verdicts.claims import TaskAnswer
from adanorm.verdicts.later_plans import later_plans
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.protocol import TaskProtocols
from adanorm.verdicts.summary import Summary, summary
from tests.verdicts import not_none

NOISE = np.array([-0.2, 0.2, 0.1, -0.1, 0.0, 0.05, -0.05, 0.0, 0.1, -0.1])


def compared(lead: float, margin: float) -> Comparison:
    return not_none(compare_gaps((lead + margin * NOISE).tolist(), margin))


def answers(leads: dict[str, tuple[float, float]]) -> list[TaskAnswer]:
    """Return an answer by task from the lead and the margin."""
    made = []
    for task, (lead, margin) in leads.items():
        comparison = compared(lead, margin)
        plan = preregistration().plans_of(task)[-1]
        made.append(
            TaskAnswer(
                plan,
                comparison,
                10,
                by_own_noise=comparison,
            )
        )
    return made


def summary_of(leads: dict[str, tuple[float, float]]) -> Summary:
    return not_none(summary(answers(leads)))


BEHIND = {"rt": (-0.15, 0.5), "sst5": (-0.1, 0.5), "mnist": (-0.03, 0.1), "de-en": (-0.2, 0.5)}


def test_leads_count_in_margins_so_the_unit_of_a_score_does_not_matter() -> None:
    made = summary_of(BEHIND)
    assert [lead.value for lead in made.leads] == pytest.approx([-0.3, -0.2, -0.3, -0.4])
    error = NOISE.std(ddof=1) / 10**0.5
    expected = random_effects(np.array([-0.3, -0.2, -0.3, -0.4]), np.full(4, error))
    assert made.effects.interval() == pytest.approx(expected.interval())


def test_the_noise_of_examples_is_the_pairs_own_and_not_the_registered_one() -> None:
    made = []
    for answer in answers({"rt": (0.1, 0.5), "sst5": (0.1, 0.5)}):
        pooled = replace(not_none(answer.comparison), example_error=9.0)
        made.append(replace(answer, comparison=pooled))
    assert not_none(summary(made)).effects.error < 0.1


@pytest.mark.parametrize(
    ("shift", "answer", "is_within", "end"),
    [
        (
            0.0,
            "equivalent",
            True,
            "within ±1).",
        ),
        (
            0.6,
            "equivalent",
            True,
            "within ±1).",
        ),
        (0.3, "equivalent", True, "within ±1)."),
        (
            -2.0,
            "worse",
            False,
            ").",
        ),
    ],
)
def test_the_answer_is_by_the_registered_rule(
    shift: float, answer: str, is_within: bool, end: str
) -> None:
    leads = {task: (lead + shift * margin, margin) for task, (lead, margin) in BEHIND.items()}
    made = summary_of(leads)
    assert (made.answer, made.is_within) == (answer, is_within)
    sentence = summary_sentence(made)
    sign = made.effects.interval()
    if is_within and sign.low > 0:
        answer = "better than LayerNorm, by less than the margin"
    elif is_within and sign.high < 0:
        answer = "worse than LayerNorm, by less than the margin"
    assert sentence.startswith(f"On average over four data sets AdaNorm is {answer}")
    assert sentence.endswith(end)


def test_a_lead_like_the_papers_is_a_multiple_of_one() -> None:
    leads = {"rt": (0.29, 0.5), "sst5": (1.31, 0.5), "mnist": (0.22, 0.1)}
    assert not_none(summary_of(leads).multiple).value == pytest.approx(1.0)


def test_fewer_than_two_data_sets_have_no_summary_and_the_page_says_so() -> None:
    one = answers({"rt": (0.1, 0.5)})
    assert summary(one) is None
    assert "No answer on two data sets yet." in summary_markdown(None, one)
    assert forest("summary", None) is None


def test_the_page_says_that_it_is_exploratory_and_has_a_row_per_data_set() -> None:
    made = answers(BEHIND)
    page = summary_markdown(summary(made), made)
    assert "exploratory until the next look" in page
    for row in ("| RT | fresh |", "| De-En | small |", "| **mean** |", "| a new data set |"):
        assert row in page
    figure = not_none(forest("summary", summary(made)))
    labels = [label.get_text() for label in figure.figure.axes[0].get_yticklabels()]
    assert labels == ["RT", "SST5", "MNIST", "De-En", "mean"]


def test_choosing_runs_is_said_to_make_leads_where_it_does() -> None:
    gap = PaperGap(0.3, 0.01, confirmed=True)
    small, large = (Tried(lead, 0.8, 0.5) for lead in (0.1, 0.29))
    results = [
        TaskProtocols(
            task,
            "paper",
            (9, 9),
            gap,
            (small, shown),
        )
        for task, shown in (("rt", small), ("sst5", large))
    ]
    where = "or more on one of the two data sets on which the paper has AdaNorm ahead."
    assert where in protocol_sentence(results)
    assert protocol_sentence([]) == ""


def test_what_is_excluded_is_a_true_lead_of_the_papers_size() -> None:
    made = answers(BEHIND)
    gaps = (-0.15 + NOISE).tolist()
    excluded = compare_gaps(gaps, 0.5, paper=PaperGap(0.9, 0.01, confirmed=True))
    made[0] = TaskAnswer(
        made[0].plan,
        excluded,
        10,
        by_own_noise=excluded,
    )
    text = paper_sentence(not_none(summary(made)), made)
    assert text.startswith(
        "In our settings a true lead of the paper's size is excluded on RT; our lead is"
    )


def test_the_readmes_headline_is_the_summary_on_record() -> None:
    page = (PROJECT / "results" / "tables" / "summary.md").read_text("utf-8")
    sentence = page.split("**")[1]
    assert sentence.startswith("On average over eight data sets")
    assert f"**{sentence}**" in (PROJECT / "README.md").read_text("utf-8")


def test_the_norms_are_those_that_were_registered() -> None:
    assert later_plans().norms_of_summary == ("layernorm", "adanorm")
