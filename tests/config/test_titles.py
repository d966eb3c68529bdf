"""The table of metrics against what runs of every kind record, and against wrong configurations."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from adanorm import tasks
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.config.titles import KIND_METRICS, METRICS
from tests.data.sections import write_splits
from tests.data.treebanks.test_conll import UD
from tests.networks import placed

OF_KIND = {compose_experiment([f"task={task}"]).task.kind: task for task in choices("task")[::-1]}
GERMAN_ALONE = {"compound_bleu"}
WITH_WRONG_LABELS = {"memorized", "recovered"}
LABELED = (UD + "\n") * 3  # the synthetic trees have no labels


def test_every_kind_of_task_is_in_the_table() -> None:
    assert set(KIND_METRICS) == set(tasks.KINDS) == set(OF_KIND)


@pytest.mark.parametrize("kind", KIND_METRICS)
def test_a_kind_yields_the_metrics_that_the_table_says(
    smoke: Callable[..., Experiment], tmp_path: Path, kind: str
) -> None:
    run = smoke(
        f"task={OF_KIND[kind]}", *(write_splits(tmp_path, LABELED) if kind == "parsing" else ())
    )
    assert run.task.kind == kind
    torch.manual_seed(0)
    task = tasks.build(run)
    model = task.build_model(placed()).eval()
    names = {*KIND_METRICS[kind].test, *KIND_METRICS[kind].beside}
    assert set(task.evaluate(model, "test").metrics) == names - GERMAN_ALONE - WITH_WRONG_LABELS
    valid = set(task.evaluate(model, "valid").metrics)
    assert valid == {*KIND_METRICS[kind].valid}
    assert KIND_METRICS[kind].curve in valid & {"loss", *task.derived(1.0)}, "training has it too"
    assert {*KIND_METRICS[kind].test, *valid} <= set(METRICS)


def test_a_score_is_shown_with_two_decimals_a_loss_with_three_and_a_small_one_with_three_digits() -> (
    None
):
    scores = (99.354, 1.0449, 0.51234, -0.034567, 0.0, 1e-12)
    bpc, loss = METRICS["bpc"], METRICS["loss"]
    assert [bpc.text(score) for score in scores] == [
        "99.35",
        "1.04",
        "0.512",
        "-0.0346",
        "0.00",
        "0.00",
    ]
    assert [loss.text(score) for score in scores] == [
        "99.354",
        "1.045",
        "0.512",
        "-0.0346",
        "0.000",
        "0.000",
    ]
    assert loss.decimals(float("inf")) == loss.decimals(float("nan")) == 3
    assert METRICS["accuracy"].axis == "accuracy (%)"
    assert bpc.axis == "BPC, lower is better"


def test_scores_in_percent_are_at_most_100_and_better_if_higher_and_losses_are_neither() -> None:
    lower, neither = {"bpc", "loss", "memorized", "nll", "perplexity"}, {"length_ratio"}
    for name, metric in METRICS.items():
        assert metric.higher_is_better is (None if name in neither else name not in lower), name
        assert metric.largest == (math.inf if name in lower | neither else 100), name
    chosen_by = {name for kind in KIND_METRICS.values() for name in (*kind.test, *kind.valid)}
    assert "length_ratio" not in chosen_by
    for (
        kind,
        metrics,
    ) in KIND_METRICS.items():  # the paper's curves of translation are in bits, ours in nats
        assert metrics.factor == (1 / math.log(2) if kind == "translation" else 1), kind


@pytest.mark.needs("fairseq")
def test_a_metric_that_these_data_do_not_have_is_refused_before_training(
    smoke: Callable[..., Experiment], tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"task.metric=compound_bleu: .* only into German"):
        tasks.build(smoke("task=de-en", "task.metric=compound_bleu"))
    assert tasks.build(smoke("task=en-de", "task.metric=compound_bleu"))
    with pytest.raises(ValueError, match=r"task.metric=las: the training trees have no labels"):
        tasks.build(smoke("task=ptb", "task.metric=las"))
    assert tasks.build(smoke("task=ptb", "task.metric=las", *write_splits(tmp_path, LABELED)))
