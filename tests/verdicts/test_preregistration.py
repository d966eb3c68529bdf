"""The file of claims, margins and the stopping rule."""

from typing import Any

import pytest
from pydantic import ValidationError

from adanorm.config.paths import PROJECT
from adanorm.records.published import published_tasks
from adanorm.verdicts.preregistration import Claim, Preregistration, preregistration


def test_every_task_of_the_paper_has_a_margin_with_its_reason_and_claims_name_no_others() -> None:
    margins = preregistration().margins
    assert set(margins) == {*published_tasks()}
    assert all(len(margin.reason) > 20 for margin in margins.values())
    for claim in preregistration().claims:
        for task in claim.tasks:
            assert task in published_tasks()
            assert set(claim.norms(task)) <= {*preregistration().norms}, (
                "they share the task's variance"
            )


def test_the_digest_covers_what_was_registered_and_the_page_names_it() -> None:
    """The page on verdicts says what a new digest changed, and when: it names the digest that holds."""
    registered = preregistration()
    assert registered.digest in (PROJECT / "docs" / "verdicts.md").read_text("utf-8")
    values = registered.model_dump()
    values["margins"]["rt"]["test"] = 2.0
    assert Preregistration.model_validate(values).digest != registered.digest


def test_a_comparison_without_a_margin_is_refused() -> None:
    values = preregistration().model_dump()
    values["claims"][0]["quantity"] = "last_valid_loss"  # RT has no margin of losses
    with pytest.raises(ValidationError, match="affine: no margin of last_valid_loss on en-de"):
        Preregistration.model_validate(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"at_least": 9}, "at_least 9, of 3 tasks"),
        ({"at_least": 2}, "at_least 2, of 1 tasks"),
        ({"at": {"small": {"tasks": ["rt"]}}}, "rt at small, of enwik8, de-en, ptb"),
    ],
)
def test_a_claim_needs_and_shows_no_more_than_its_tasks(
    changes: dict[str, Any], message: str
) -> None:
    claim = next(claim for claim in preregistration().claims if claim.id == "over-fitting-train")
    assert (claim.needed("paper"), claim.needed("small")) == (3, 1)
    with pytest.raises(ValidationError, match=message):
        Claim.model_validate(claim.model_dump() | changes)
