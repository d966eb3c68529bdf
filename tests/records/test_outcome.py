"""What a run came to, in a line."""

from __future__ import annotations

from adanorm.config.compose import compose_experiment
from adanorm.records.outcome import outcome
from adanorm.records.result import Result
from tests.records.test_result import FACTS


def test_a_line_has_the_test_score_and_the_validation_score_that_chose_or_why_there_are_none() -> None:
    rt, de_en = (compose_experiment([f"task={task}", "scale=smoke"]).task for task in ("rt", "de-en"))
    done = Result(status="done", **FACTS, valid={"accuracy": 76.5}, test={"accuracy": 75.25})
    assert outcome(rt, done) == "test accuracy 75.25, validation 76.50"
    by_loss = Result(
        status="done", **FACTS, valid={"loss": 4.0, "bleu": 1.0}, test={"bleu": 30.5, "loss": 3.0}
    )
    assert outcome(de_en, by_loss) == "test bleu 30.50, validation loss 4.00"
    ended = Result(status="diverged", **FACTS, diverged="loss not finite at update 4")
    assert outcome(rt, ended) == "diverged: loss not finite at update 4"
