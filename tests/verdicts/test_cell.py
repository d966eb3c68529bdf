"""The score of a run that counts, and the runs that are compared with the paper's number."""

from pathlib import Path
from typing import Any

import pytest

from adanorm.config.compose import cached_experiment
from adanorm.records.published import departures_from_paper
from adanorm.verdicts.cell import cell, cell_of
from adanorm.verdicts.pair import published_score
from adanorm.verdicts.quantities import Scored, tail_mean, three_best
from tests.reporting.records import record, run_in


def test_the_level_is_the_mean_of_the_last_third_and_the_top_3_those_best_by_validation() -> None:
    assert (tail_mean([1, 1, 1, 9, 2, 4]), tail_mean([5, 7]), tail_mean([])) == (3, 7, None)
    valid = (1.0, 5.0, 3.0, 4.0, 3.0)
    evaluations = [(score, Scored(update, 0.0)) for update, score in enumerate(valid)]
    assert [score.update for score in three_best(evaluations)] == [1, 3, 2], "the first of a tie"
    assert [score.update for score in three_best(evaluations[:2])] == [1, 0]


@pytest.mark.parametrize(
    ("task", "metric", "expected"), [("rt", "accuracy", 73.0), ("enwik8", "bpc", -73.0)]
)
def test_the_top_3_mean_of_a_run_is_signed_like_its_test_score(
    tmp_path: Path, task: str, metric: str, expected: float
) -> None:
    """Validation is best at the second, third and fourth evaluation, by whichever metric and direction."""
    run = run_in(tmp_path, f"task={task}", "norm=adanorm", "scale=smoke")
    sign = 1 if run.task.goal == "max" else -1
    rows = [{f"valid_{run.task.selection_metric}": 50.0 + sign * x} for x in (1, 4, 3, 5)]
    ended: dict[str, Any] = {
        "valid": {run.task.selection_metric: 50 + sign * 5},
        "test": {metric: 74.0},
    }
    record(
        run,
        rows=rows,
        tests=(71.0, 72.0, 73.0, 74.0),
        **ended,
    )
    assert cell_of(run, [run], "top3").by_seed == {run.seed: expected}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("task=rt", None),
        ("task=rt seed=7 threads=2 norm.backend=eager", None),
        (
            "task=rt training.max_epochs=null training.max_updates=2",
            "=null, training.max_updates=2",
        ),
        ("task=rt task.metric=loss task.goal=min", "task.goal=min, task.metric=loss"),
        ("task=rt norm.params.k=0.3", "norm.params.k=0.3"),
        ("task=rt precision=bf16", "precision=bf16"),
        ("task=de-en decoding.beam=1", "decoding.beam=1"),
        ("task=rt scale=mini", "mini scale"),
        ("task=rt data.source=sst5", "data.source=sst5"),
        ("task=rt data.train={0}/own data.valid={0}/own data.test={0}/own", "own data"),
        ("task=rt norm=theirs:layernorm", "a norm from outside"),
        ("task=en-de preset=wmt14-raw", None),
        ("task=en-de preset=released", None),
        ("task=en-de preset=wmt14-raw decoding.beam=1", "decoding.beam=1"),
        ("task=ptb preset=ud", "data.scoring=ud"),
        ("task=ptb data.path={0}/wsj data.conversion=stanford-3.3.0", None),
        ("task=ptb data.path={0}/wsj data.conversion=other", "data.conversion=other"),
    ],
)
def test_a_run_of_other_settings_than_the_papers_gets_no_verdict_on_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, why: str | None
) -> None:
    (tmp_path / "own").write_text("a\tone\nb\ttwo\n")
    (tmp_path / "wsj").mkdir()
    for section in ("02", "22", "23"):
        (tmp_path / "wsj" / f"wsj_{section}01.dp").write_text("Go\tVB\t0\n\n")
    (tmp_path / "theirs.py").write_text("from torch import nn\nclass layernorm(nn.Identity): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    scale = [] if "scale=" in settings else ["scale=paper"]
    run = cached_experiment(
        ["norm=adanorm", *scale, *settings.format(tmp_path).split()], runs=str(tmp_path)
    )
    differs = departures_from_paper(run)
    assert differs is None if why is None else why in str(differs)
    record(run)
    assert (cell([run]).paper is None) == (why is not None)
    assert (cell([run]).verdict(None) == "") == (why is not None)


def test_a_number_of_the_paper_is_signed_as_scores_are_and_diverge_is_the_worst() -> None:
    assert published_score("rt", "adanorm") == 77.5
    assert published_score("enwik8", "layernorm") == -1.07
    assert published_score("en-de", "none") == -float("inf")
