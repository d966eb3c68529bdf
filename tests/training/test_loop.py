"""The loop on real, tiny experiments."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.data.examples import TextExamples
from adanorm.runs.setup import prepare, start_trainer
from adanorm.tasks.base import Loss, TrainingTask
from adanorm.tasks.classification import Classification
from adanorm.training import checkpoint
from adanorm.training.distributed import World, reshard
from adanorm.training.loop import Trainer
from adanorm.training.optimizer import learning_rate
from adanorm.training.progress import Progress
from adanorm.training.state import Outcome, Row, SelectionMetric, State, set_tf32

Smoke = Callable[..., Experiment]


class KillError(Exception):
    """Stands for a kill in the middle of an epoch."""


def start(experiment: Experiment, task: TrainingTask | None = None, *, minutes: float = 1e9) -> Trainer:
    experiment = experiment.model_copy(update={"checkpoint_minutes": minutes, "device": "cpu"})
    return start_trainer(experiment, prepare(experiment, task))


def run(trainer: Trainer, path: Path) -> tuple[Outcome, list[Row]]:
    rows: list[Row] = []
    with Progress(trainer.settings, 6, "accuracy", shown=False) as progress:
        outcome = trainer.train(path, rows.append, progress)
    return outcome, [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


class Stops(Classification):
    """The task, cut off after a number of batches."""

    left: int

    def loss(self, model: nn.Module, batch: Any, carried: Sequence[Tensor] = ()) -> Loss:
        self.left -= 1
        if self.left < 0:
            raise KillError
        return super().loss(model, batch, carried)


@pytest.mark.parametrize(
    ("norm", "accumulate"),
    [("layernorm", 1), ("layernorm", 2), ("batchnorm-noisy", 1), ("powernorm", 2), ("weightnorm", 1)],
)
def test_resumed_equals_uninterrupted_bit_for_bit(
    smoke: Smoke, tmp_path: Path, norm: str, accumulate: int
) -> None:
    experiment = smoke(
        f"norm={norm}", "training.max_epochs=3", f"training.accumulate={accumulate}",
        "training.average={of: best, count: 2}",
    )  # fmt: skip
    whole, rows = run(start(experiment), tmp_path / "whole.pt")
    for stop_after in (1, 5, 6, 9, 14):
        path = tmp_path / f"broken after {stop_after}.pt"
        stopping = Stops(experiment)
        stopping.left = stop_after
        broken = start(experiment, stopping, minutes=0)  # a checkpoint after each update
        kept: list[Row] = []
        with pytest.raises(KillError), Progress(experiment.training, 6, "accuracy", shown=False) as progress:
            broken.train(path, kept.append, progress)
        torch.rand(100)  # another process would have another random state
        resumed = start(experiment)
        resumed.resume(path)
        assert resumed.state.update == stop_after // accumulate
        outcome, later = run(resumed, path)
        kept = [{key: value for key, value in row.items() if key != "seconds"} for row in kept]
        assert kept + later == rows, stop_after
        assert outcome.test == whole.test
        assert all(torch.equal(outcome.weights[name], whole.weights[name]) for name in whole.weights)
        final, reference = resumed.model.state_dict(), outcome.weights
        assert final.keys() == reference.keys()


def test_what_a_language_model_carries_on_is_taken_up_again(smoke: Smoke, tmp_path: Path) -> None:
    stopped, resumed = (start(smoke("task=enwik8")) for _ in range(2))
    stopped.update(next(stopped.batches()))
    stopped.save(tmp_path / "checkpoint.pt")
    resumed.resume(tmp_path / "checkpoint.pt")
    assert len(stopped.carried) > 0
    assert all(torch.equal(*rows) for rows in zip(stopped.carried, resumed.carried, strict=True))


@pytest.mark.parametrize("broken", ["checkpoint", "both", "kept", "missing"])
def test_a_run_goes_on_from_the_last_checkpoint_that_is_whole(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    experiment = smoke("training.max_epochs=3", "training.average={of: last, count: 2}")
    (tmp_path / "whole").mkdir()
    whole, rows = run(start(experiment), tmp_path / "whole" / "checkpoint.pt")
    stopping = Stops(experiment)
    stopping.left = 15
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(KillError):
        run(start(experiment, stopping), path)
    before = path.with_name("checkpoint-before.pt")
    assert {p.name for p in tmp_path.glob("*.pt")} == {path.name, before.name, "kept-6.pt", "kept-12.pt"}
    flip = {"checkpoint": [path], "both": [path, before], "kept": [tmp_path / "kept-12.pt"], "missing": []}
    for file in flip[broken]:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content))
    if broken == "missing":
        (tmp_path / "kept-12.pt").unlink()
    resumed = start(experiment)
    resumed.resume(path)
    assert resumed.state.update == (0 if broken == "both" else 6)
    assert [row["update"] for row in resumed.state.rows] == [6][: resumed.state.update]
    said = capsys.readouterr().err.splitlines()
    assert len(said) == (2 if broken == "both" else 1)
    assert all("goes on from the checkpoint before or from its start" in line for line in said)
    outcome, _ = run(resumed, path)
    assert [{k: v for k, v in row.items() if k != "seconds"} for row in outcome.state.rows] == rows
    assert outcome.test == whole.test
    assert all(torch.equal(outcome.weights[name], whole.weights[name]) for name in whole.weights)


def test_the_checkpoint_of_another_version_is_not_taken_up(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.save(tmp_path / "checkpoint.pt", {"state": {"rows": 3}})
    trainer = start(smoke())
    trainer.resume(tmp_path / "checkpoint.pt")
    assert trainer.state.update == 0
    assert "checkpoint.pt: written by another version of the suite" in capsys.readouterr().err


def test_test_scores_are_tracked_at_every_evaluation_and_choose_nothing(smoke: Smoke, tmp_path: Path) -> None:
    experiment, tested = smoke("training.max_epochs=2"), list[Row]()
    plain, rows = run(start(experiment), tmp_path / "plain.pt")
    trainer = start(experiment)
    with Progress(trainer.settings, 6, "accuracy", shown=False) as progress:
        tracked = trainer.train(tmp_path / "c.pt", lambda row: None, progress, log_test=tested.append)
    places = [{key: row[key] for key in ("update", "epoch")} for row in rows]
    assert [{key: row[key] for key in ("update", "epoch")} for row in tested] == places
    assert tested == tracked.state.test_rows
    (best,) = (row for row in tested if row["update"] == tracked.state.best_update)
    assert tracked.test is not None
    assert tracked.test.metrics == {name: best[f"test_{name}"] for name in tracked.test.metrics}
    assert (tracked.test, tracked.state.rows[-1]["train_loss"]) == (plain.test, rows[-1]["train_loss"])


@pytest.mark.parametrize("before", [0.0, 100.0])
def test_a_run_lasts_as_long_as_all_its_starts_together(smoke: Smoke, tmp_path: Path, before: float) -> None:
    started, trainer = time.monotonic(), start(smoke("training.max_updates=1"))
    trainer.state.seconds += before
    outcome, _ = run(trainer, tmp_path / "c.pt")
    assert before < outcome.state.seconds < before + time.monotonic() - started


def test_the_best_weights_by_validation_are_tested(smoke: Smoke, tmp_path: Path) -> None:
    experiment = smoke("training.lr=0.003", "training.max_epochs=7")
    trainer = start(experiment)
    outcome, rows = run(trainer, tmp_path / "c.pt")
    scores = [row["valid_accuracy"] for row in rows]
    best = scores.index(max(scores))
    assert outcome.state.best_update == rows[best]["update"] < rows[-1]["update"], "the first of the best"
    shorter = start(smoke("training.lr=0.003", f"training.max_epochs={best + 1}"))
    run(shorter, tmp_path / "d.pt")
    for name, weight in shorter.model.state_dict().items():
        assert torch.equal(outcome.weights[name], weight), "not those of the last update"
    trainer.model.load_state_dict(outcome.weights)
    trainer.model.eval()
    assert trainer.task.evaluate(trainer.model, "valid").metrics["accuracy"] == max(scores)
    assert outcome.test == trainer.task.evaluate(trainer.model, "test")


@pytest.mark.parametrize("of", ["last", "best"])
def test_the_weights_tested_are_the_mean_over_the_evaluations_asked_for(
    smoke: Smoke, tmp_path: Path, of: str
) -> None:
    experiment = smoke("training.max_epochs=5", f"training.average={{of: {of}, count: 2}}")
    trainer = start(experiment)
    outcome, rows = run(trainer, tmp_path / "c.pt")
    ranked = rows if of == "last" else sorted(rows, key=lambda row: row["valid_accuracy"])
    wanted = {row["update"] for row in ranked[-2:]}
    kept = {update for _, update in outcome.state.kept}
    scores = {row["update"]: row["valid_accuracy"] for row in rows}
    assert sorted(scores[update] for update in kept) == sorted(scores[update] for update in wanted)
    files = [tmp_path / f"kept-{update}.pt" for update in sorted(kept)]
    assert {*files} <= {*tmp_path.glob("kept-*.pt")}
    assert len(list(tmp_path.glob("kept-*.pt"))) <= 3, "those of the last two checkpoints"
    first, second = (torch.load(path, weights_only=True)["model"] for path in files)
    for name, weight in outcome.weights.items():
        torch.testing.assert_close(weight, (first[name] + second[name]) / 2)
    for split, said in (("test", outcome.test), ("valid", outcome.state.valid)):
        measured = trainer.task.evaluate(trainer.model.eval(), split)
        assert said == (measured if split == "test" else measured.metrics)


class Scaled(Classification):
    """The task with a loss that is multiplied by a number of the update."""

    factors: Iterator[float]

    def loss(self, model: nn.Module, batch: Any, carried: Sequence[Tensor] = ()) -> Loss:
        loss = super().loss(model, batch, carried)
        return Loss(loss.total * next(self.factors), loss.units)


def scaled(experiment: Experiment, factors: list[float]) -> Trainer:
    task = Scaled(experiment)
    task.factors = iter([*factors, *([factors[-1]] * 1000)])
    return start(experiment, task)


def test_a_loss_that_is_not_finite_is_divergence(smoke: Smoke, tmp_path: Path) -> None:
    experiment = smoke("training.max_epochs=3")
    outcome, rows = run(scaled(experiment, [1.0] * 8 + [float("nan")]), tmp_path / "c.pt")
    assert outcome.state.diverged == "loss not finite at update 12"
    assert len(rows) == 1
    assert outcome.test is None, "although there are weights of the first evaluation"


def test_between_evaluations_a_loss_that_is_not_finite_ends_a_run_at_the_next_twentieth_update(
    smoke: Smoke, tmp_path: Path
) -> None:
    experiment = smoke("training.max_epochs=50", "training.evaluate_every=100")
    outcome, rows = run(scaled(experiment, [1.0] * 22 + [float("inf")]), tmp_path / "c.pt")
    assert outcome.state.diverged == "loss not finite at update 40"
    assert rows == []
    assert (outcome.weights, outcome.state.best_update, outcome.state.best_score) == ({}, 0, None)


def test_between_evaluations_a_checkpoint_comes_when_its_minutes_have_passed_and_not_before(
    smoke: Smoke, tmp_path: Path
) -> None:
    for minutes, updates in ((0.0, 5), (time.monotonic() / 40, 0)):  # much of what the clock already shows
        stopping, path = Stops(smoke()), tmp_path / f"{updates}" / "checkpoint.pt"
        stopping.left = 5
        path.parent.mkdir()
        with pytest.raises(KillError):
            run(start(smoke(), stopping, minutes=minutes), path)
        resumed = start(smoke())
        resumed.resume(path)
        assert resumed.state.update == updates


def test_the_training_loss_logged_is_the_mean_over_the_units_of_an_epochs_updates(
    smoke: Smoke, tmp_path: Path
) -> None:
    outcome, (row,) = run(start(smoke("training.max_epochs=1")), tmp_path / "c.pt")
    by_hand = start(smoke())
    by_hand.model.train()
    losses = [by_hand.update([batch]) for batch in by_hand.task.train_batches(0)]
    mean = sum(float(loss.total) for loss in losses) / sum(loss.units for loss in losses)
    assert row["train_loss"] == pytest.approx(mean, rel=1e-9)
    assert outcome.state.first_loss == pytest.approx(float(losses[0].total) / losses[0].units, rel=1e-9)


def test_a_loss_above_its_start_three_times_in_a_row_is_divergence(smoke: Smoke, tmp_path: Path) -> None:
    experiment = smoke("training.max_epochs=9", "training.lr=1e-6")
    outcome, rows = run(scaled(experiment, [1.0] * 6 + [5.0]), tmp_path / "c.pt")
    assert outcome.state.diverged is not None
    assert "above its start at 3 evaluations in a row" in outcome.state.diverged
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("losses", "diverges_at"),
    [
        ([0.80, 0.74, 0.70, 0.65], None),  # falls all along: the first batch was an easy one
        ([9.0, 8.0, 7.0, 7.5], 4),
        ([9.0, 8.0, 8.5], 3),
        ([9.0, 0.5, 9.0, 9.0, 9.0], 5),
        ([9.0, float("inf"), 9.0], 3),
    ],
)
def test_a_loss_above_its_start_is_divergence_once_it_no_longer_falls(
    losses: list[float], diverges_at: int | None
) -> None:
    state, ended = State(first_loss=0.6), None
    for evaluation, loss in enumerate(losses, 1):
        state.loss_sum, state.loss_units = loss, 1
        state.mean_loss(diverge_after=3)
        if state.diverged is not None:
            ended = evaluation
            break
    assert ended == diverges_at


def test_a_gradient_is_clipped_to_its_norm(smoke: Smoke) -> None:
    experiment = smoke("training.clip_norm=0.01")
    trainer = start(experiment)
    trainer.update([next(iter(trainer.task.train_batches(0)))])
    total = torch.stack([p.grad.norm() for p in trainer.model.parameters() if p.grad is not None]).norm()
    assert total.item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("clip_norm", ["null", "1000"])
def test_an_update_is_along_the_gradient_of_the_mean_loss_over_all_micro_batches(
    smoke: Smoke, clip_norm: str
) -> None:
    trainer = start(smoke(f"training.clip_norm={clip_norm}", "model.dropout=0"))
    batches = list(trainer.task.train_batches(0))[:2]
    trainer.model.train()
    losses = [trainer.task.loss(trainer.model, batch) for batch in batches]
    mean = torch.stack([loss.total for loss in losses]).sum() / sum(loss.units for loss in losses)
    named = dict(trainer.model.named_parameters())
    expected = torch.autograd.grad(mean, [*named.values()])
    trainer.update(batches)
    for name, gradient in zip(named, expected, strict=True):
        torch.testing.assert_close(named[name].grad, gradient, msg=name)


def test_every_norm_starts_from_the_same_weights_and_every_seed_from_others(smoke: Smoke) -> None:
    none, ada, other = (
        start(smoke(f"norm={norm}", f"seed={seed}")).model.state_dict()
        for norm, seed in (("none", 1), ("adanorm", 1), ("none", 2))
    )
    assert none.keys() == ada.keys()
    assert all(torch.equal(none[name], ada[name]) for name in none)
    assert not torch.equal(none["embedding.weight"], other["embedding.weight"])


def test_a_run_has_the_epochs_asked_for_and_an_evaluation_after_each(smoke: Smoke, tmp_path: Path) -> None:
    outcome, rows = run(start(smoke("training.max_epochs=2")), tmp_path / "c.pt")
    assert [(row["epoch"], row["update"]) for row in rows] == [(1, 6), (2, 12)]
    assert (outcome.state.epoch, outcome.state.update) == (2, 12)


def test_evaluation_comes_every_so_many_updates(smoke: Smoke, tmp_path: Path) -> None:
    experiment = smoke("training.evaluate_every=4", "training.max_updates=10")
    _, rows = run(start(experiment), tmp_path / "c.pt")
    assert [row["update"] for row in rows] == [4, 8, 10]


def test_the_learning_rate_warms_up_linearly_then_stays(smoke: Smoke) -> None:
    training = smoke("training.warmup_updates=4", "training.lr=0.4").training
    rates = [learning_rate(training, update) for update in range(1, 7)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_after_its_warm_up_the_rate_falls_with_the_root_of_the_updates_done_before(smoke: Smoke) -> None:
    training = smoke(
        "+training.schedule=inverse_sqrt", "training.warmup_updates=4", "training.lr=0.4",
        "+training.warmup_from=0.1",
    ).training  # fmt: skip
    rates = [learning_rate(training, update) for update in (1, 3, 5, 17, 65)]
    assert rates == pytest.approx([0.1, 0.25, 0.4, 0.2, 0.1])
    from_zero = training.model_copy(update={"warmup_from": None})
    assert [learning_rate(from_zero, update) for update in (1, 3, 5)] == pytest.approx([0.0, 0.2, 0.4])
    at_once = training.model_copy(update={"warmup_updates": 0})
    assert [learning_rate(at_once, update) for update in (1, 2, 5)] == pytest.approx([0.4, 0.4, 0.2])


def test_the_learning_rate_falls_along_a_cosine_to_zero_once_it_has_warmed_up() -> None:
    settings = compose_experiment(["task=enwik8", "training.max_updates=100", "training.lr=1.0"]).training
    rates = [learning_rate(settings, update) for update in (1, 26, 51, 101)]
    assert rates == pytest.approx([1.0, (1 + 0.5**0.5) / 2, 0.5, 0.0])
    warming = settings.model_copy(update={"warmup_updates": 4})
    assert [learning_rate(warming, update) for update in (1, 4, 51)] == pytest.approx([0.25, 1.0, 0.5])


def test_of_equal_validation_scores_the_first_is_the_best() -> None:
    for higher_is_better in (True, False):
        selection = SelectionMetric("score", higher_is_better)
        assert not selection.is_better(1.0, than=1.0)
        assert selection.is_better(2.0, than=1.0) == higher_is_better
        assert selection.worst([(1.0, 10), (2.0, 20)]) == ((1.0, 10) if higher_is_better else (2.0, 20))


def test_bfloat16_trains_to_about_the_same_loss(smoke: Smoke, tmp_path: Path) -> None:
    rows = {p: run(start(smoke(f"precision={p}")), tmp_path / f"{p}.pt")[1] for p in ("fp32", "bf16")}
    assert rows["bf16"] != rows["fp32"]
    assert rows["bf16"][-1]["train_loss"] == pytest.approx(rows["fp32"][-1]["train_loss"], rel=0.05)


def test_the_order_of_evaluation_batches_changes_nothing(smoke: Smoke) -> None:
    experiment = smoke()
    trainer = start(experiment)
    task = trainer.task
    assert isinstance(task, Classification)
    trainer.model.eval()
    whole = task.evaluate(trainer.model, "test")
    assert isinstance(task.splits.test, TextExamples)
    task.splits = replace(task.splits, test=replace(task.splits.test, batch_tokens=13))
    small = task.evaluate(trainer.model, "test")
    assert small.outputs == whole.outputs
    assert small.metrics == pytest.approx(whole.metrics)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 9))
def test_rows_carried_by_some_processes_are_shared_out_to_others(before: int, after: int, rows: int) -> None:
    whole = torch.arange(rows)[:, None] * torch.ones(1, 3)
    saved = [[whole[rank::before], 2 * whole[rank::before]] for rank in range(before)]
    for rank in range(after):
        first, second = reshard(saved, World(rank, after))
        assert torch.equal(first, whole[rank::after])
        assert torch.equal(second, 2 * whole[rank::after])
    assert reshard([[] for _ in range(before)], World(0, after)) == []


@pytest.mark.parametrize(("precision", "rounds"), [("fp32", False), ("tf32", True), ("bf16", False)])
def test_tf32_is_on_for_products_and_convolutions_under_its_name_alone(precision: str, rounds: bool) -> None:
    torch.backends.cudnn.allow_tf32 = not rounds
    set_tf32(precision)
    found = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    set_tf32("fp32")
    assert found == (rounds, rounds)


def test_a_cpu_has_no_tf32(smoke: Smoke) -> None:
    assert smoke("precision=tf32").digest() != smoke().digest()
    with pytest.raises(ValueError, match=r"^precision=tf32: a CPU has no TF32; choose fp32 or bf16"):
        prepare(smoke("precision=tf32", "device=cpu"))


def test_a_compiled_model_trains_as_it_is_and_only_where_graphs_can_be_replayed(smoke: Smoke) -> None:
    plainly = smoke("model.dropout=0")
    experiment = plainly.model_copy(update={"compile": "reduce-overhead"})
    assert experiment.digest() == plainly.digest(), "like the device, no part of the experiment"
    with torch.compiler.set_stance("force_eager"):  # which graphs are made and replayed is PyTorch's
        plain, compiled = (start_trainer(e, prepare(e)) for e in (plainly, experiment))
        first, second = (trainer.update(next(trainer.batches())) for trainer in (plain, compiled))
    assert first.total == second.total
    with pytest.raises(ValueError, match="nor for models that carry a memory"):
        start_trainer(run := smoke("task=enwik8", "compile=reduce-overhead"), prepare(run))
