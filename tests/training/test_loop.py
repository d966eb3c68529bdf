"""The loop on real, tiny experiments."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from adanorm.config.experiment import Experiment
from adanorm.norms import BatchNorm
from adanorm.runs.execute import describe_environment, prepare, start_trainer
from adanorm.tasks import Evaluation, Loss, TrainingTask
from adanorm.tasks.classification import Classification
from adanorm.training import state as checkpoint
from adanorm.training.distributed import World, reshard
from adanorm.training.loop import Log, Trainer, ahead
from adanorm.training.optimizer import learning_rate
from adanorm.training.progress import Progress
from adanorm.training.state import Outcome, Row, State, set_tf32
from tests.conftest import Smoke


class KillError(Exception):
    """Stands for a kill in the middle of an epoch."""


def start(
    experiment: Experiment,
    task: TrainingTask | None = None,
    *,
    minutes: float = 1e9,
    ahead: int = 0,
) -> Trainer:
    experiment = experiment.model_copy(update={"checkpoint_minutes": minutes, "device": "cpu"})
    trainer = start_trainer(experiment, prepare(experiment, task))
    trainer.context = trainer.context._replace(batches_ahead=ahead)
    return trainer


def run(trainer: Trainer, path: Path, log_test: Log | None = None) -> tuple[Outcome, list[Row]]:
    rows: list[Row] = []
    with Progress(
        trainer.settings,
        6,
        "accuracy",
        shown=False,
    ) as progress:
        outcome = trainer.train(
            path,
            rows.append,
            progress,
            log_test=log_test,
        )
    return outcome, untimed(rows)


def untimed(rows: list[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def stopped(experiment: Experiment, path: Path, after: int, *, minutes: float = 1e9) -> None:
    """Make a run that is cut off after this many batches."""
    path.parent.mkdir(exist_ok=True)
    with pytest.raises(KillError):
        run(scaled(experiment, repeat(1.0, after), minutes=minutes), path)


def resumed(experiment: Experiment, path: Path) -> Trainer:
    torch.rand(100)  # another process would have another random state
    trainer = start(experiment)
    trainer.resume(path)
    return trainer


def is_the_same(outcome: Outcome, other: Outcome) -> bool:
    same = all(torch.equal(outcome.weights[name], weight) for name, weight in other.weights.items())
    return (
        same
        and outcome.test == other.test
        and untimed(outcome.state.rows) == untimed(other.state.rows)
    )


class Scaled(Classification):
    """The task with each batch's loss multiplied by a factor, and a kill after the last factor."""

    factors: Iterator[float]

    def loss(self, model: nn.Module, batch: Any, carried: Sequence[Tensor] = ()) -> Loss:
        factor = next(self.factors, None)
        if factor is None:
            raise KillError
        loss = super().loss(model, batch, carried)
        return Loss(loss.total * factor, loss.units)


def scaled(experiment: Experiment, factors: Iterable[float], *, minutes: float = 1e9) -> Trainer:
    task = Scaled(experiment)
    task.factors = iter(factors)
    return start(experiment, task, minutes=minutes)


@pytest.mark.parametrize(
    ("norm", "accumulate", "stops"),
    [("layernorm", 1, (1, 5, 6, 9, 14)), ("batchnorm-noisy", 1, (9,)), ("powernorm", 2, (5,))],
)
def test_a_resumed_run_is_equal_to_the_bit(
    smoke: Smoke, tmp_path: Path, norm: str, accumulate: int, stops: tuple[int, ...]
) -> None:
    experiment = smoke(
        f"norm={norm}", "training.max_epochs=3", f"training.accumulate={accumulate}",
        "training.average={of: best, count: 2}",
    )  # fmt: skip
    whole, _ = run(start(experiment), tmp_path / "whole.pt")
    for after in stops:
        path = tmp_path / f"broken after {after}" / "checkpoint.pt"
        stopped(experiment, path, after, minutes=0)  # a checkpoint after each update
        trainer = resumed(experiment, path)
        assert trainer.state.update == after // accumulate
        assert is_the_same(run(trainer, path)[0], whole), after


@pytest.mark.parametrize("broken", ["checkpoint", "both", "kept", "missing"])
def test_a_run_goes_on_from_the_last_checkpoint_that_is_whole(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: str
) -> None:
    experiment = smoke("training.max_epochs=3", "training.average={of: last, count: 2}")
    whole, _ = run(start(experiment), tmp_path / "whole.pt")
    path = tmp_path / "broken" / "checkpoint.pt"
    stopped(experiment, path, 15)
    before = path.with_name("checkpoint-before.pt")
    last = path.with_name("kept-12.pt")
    assert {*path.parent.iterdir()} == {path, before, path.with_name("kept-6.pt"), last}
    files = {"checkpoint": [path], "both": [path, before], "kept": [last], "missing": []}
    for file in files[broken]:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content))
    if broken == "missing":
        last.unlink()
    trainer = resumed(experiment, path)
    assert trainer.state.update == (0 if broken == "both" else 6)
    assert [row["update"] for row in trainer.state.rows] == [6][: trainer.state.update]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == (2 if broken == "both" else 1)
    assert all("goes on from the checkpoint before or from its start" in line for line in lines)
    assert is_the_same(run(trainer, path)[0], whole)


def test_the_checkpoint_of_another_version_is_not_resumed(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.save(tmp_path / "checkpoint.pt", {"state": {"rows": 3}})
    assert resumed(smoke(), tmp_path / "checkpoint.pt").state.update == 0
    assert "checkpoint.pt: written by another version of the suite" in capsys.readouterr().err


def test_the_checkpoint_of_another_run_is_not_resumed(
    smoke: Smoke, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = (tmp_path / name / "checkpoint.pt" for name in ("smoke-seed1-1", "smoke-seed1-2"))
    stopped(smoke(), here, 3, minutes=0)
    there.parent.mkdir()
    there.write_bytes(here.read_bytes())
    assert resumed(smoke(), here).state.update > 0
    assert resumed(smoke(), there).state.update == 0
    assert "checkpoint.pt: of the run smoke-seed1-1; the run goes on" in capsys.readouterr().err


def test_test_scores_are_tracked_at_every_evaluation_and_choose_nothing(
    smoke: Smoke, tmp_path: Path
) -> None:
    experiment = smoke("training.max_epochs=2")
    tested: list[Row] = []
    plain, rows = run(start(experiment), tmp_path / "plain.pt")
    tracked, _ = run(start(experiment), tmp_path / "c.pt", tested.append)
    evaluations = [(row["update"], row["epoch"]) for row in rows]
    assert [(row["update"], row["epoch"]) for row in tested] == evaluations
    assert tested == tracked.state.test_rows
    (best,) = (row for row in tested if row["update"] == tracked.state.best_update)
    assert tracked.test is not None
    for name, score in tracked.test.metrics.items():
        assert score == best[f"test_{name}"]
    assert tracked.test == plain.test
    assert tracked.state.rows[-1]["train_loss"] == rows[-1]["train_loss"]


@pytest.mark.parametrize("before", [0.0, 100.0])
def test_a_run_lasts_as_long_as_all_its_starts_together(
    smoke: Smoke, tmp_path: Path, before: float
) -> None:
    started = time.monotonic()
    trainer = start(smoke("training.max_updates=1"))
    trainer.state.seconds += before
    outcome, _ = run(trainer, tmp_path / "c.pt")
    assert before < outcome.state.seconds < before + time.monotonic() - started


def test_the_best_weights_by_validation_are_tested(smoke: Smoke, tmp_path: Path) -> None:
    experiment = smoke("training.lr=0.003", "training.max_epochs=7")
    trainer = start(experiment)
    outcome, rows = run(trainer, tmp_path / "c.pt")
    scores = [row["valid_accuracy"] for row in rows]
    best = scores.index(max(scores))
    assert outcome.state.best_update == rows[best]["update"], "the first of the best"
    assert outcome.state.best_update < rows[-1]["update"]
    shorter = start(smoke("training.lr=0.003", f"training.max_epochs={best + 1}"))
    run(shorter, tmp_path / "d.pt")
    for name, weight in shorter.model.state_dict().items():
        assert torch.equal(outcome.weights[name], weight), "not those of the last update"
    trainer.model.load_state_dict(outcome.weights)
    trainer.model.eval()
    assert trainer.task.evaluate(trainer.model, "valid").metrics["accuracy"] == max(scores)
    assert outcome.test == trainer.task.evaluate(trainer.model, "test")


@pytest.mark.parametrize("of", ["last", "best"])
def test_the_tested_weights_are_the_mean_of_those_chosen(
    smoke: Smoke, tmp_path: Path, of: str
) -> None:
    experiment = smoke("training.max_epochs=5", f"training.average={{of: {of}, count: 2}}")
    trainer = start(experiment)
    outcome, rows = run(trainer, tmp_path / "c.pt")
    accuracies = [row["valid_accuracy"] for row in rows]
    expected = accuracies[-2:] if of == "last" else sorted(accuracies)[-2:]
    updates = sorted(update for _, update in outcome.state.kept)
    kept = [row["valid_accuracy"] for row in rows if row["update"] in updates]
    assert sorted(kept) == sorted(expected)
    files = [tmp_path / f"kept-{update}.pt" for update in updates]
    there = list(tmp_path.glob("kept-*.pt"))
    assert {*files} <= {*there}
    assert len(there) <= 3, "those of the last two checkpoints"
    first, second = (torch.load(path, weights_only=True)["model"] for path in files)
    for name, weight in outcome.weights.items():
        torch.testing.assert_close(weight, (first[name] + second[name]) / 2)
    trainer.model.eval()
    assert outcome.test == trainer.task.evaluate(trainer.model, "test")
    assert outcome.state.valid == trainer.task.evaluate(trainer.model, "valid").metrics


def test_a_loss_that_is_not_finite_is_divergence(smoke: Smoke, tmp_path: Path) -> None:
    experiment = smoke("training.max_epochs=3")
    factors = chain(repeat(1.0, 8), repeat(float("nan")))
    outcome, rows = run(scaled(experiment, factors), tmp_path / "c.pt")
    assert outcome.state.diverged == "loss not finite at update 12"
    assert len(rows) == 1
    assert outcome.test is None, "although there are weights of the first evaluation"
    experiment = smoke("training.max_epochs=50", "training.evaluate_every=100")
    for minutes in (1e9, 1e-9):  # however often checkpoints are written
        factors = chain(repeat(1.0, 22), repeat(float("inf")))
        trainer = scaled(experiment, factors, minutes=minutes)
        outcome, rows = run(trainer, tmp_path / f"{minutes}.pt")
        assert outcome.state.diverged == "loss not finite at update 40", "the next twentieth"
    assert rows == []
    assert outcome.weights == {}
    assert outcome.state.best_update == 0
    assert outcome.state.best_score is None


def test_the_checkpoint_of_a_run_on_the_cpu_asks_no_gpu_for_its_state(
    smoke: Smoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = start(smoke())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    # Either would take memory of a GPU, or wait for it.
    monkeypatch.delattr(torch.cuda, "get_rng_state")
    monkeypatch.delattr(torch.cuda, "set_rng_state")
    trainer.save(tmp_path / "checkpoint.pt")
    trainer.resume(tmp_path / "checkpoint.pt")


def test_between_evaluations_a_checkpoint_comes_when_it_is_due(
    smoke: Smoke, tmp_path: Path
) -> None:
    later = time.monotonic() / 40  # minutes: 1.5 times what the clock shows
    for minutes, updates in ((0.0, 5), (later, 0)):
        path = tmp_path / f"{updates}" / "checkpoint.pt"
        stopped(smoke(), path, 5, minutes=minutes)
        assert resumed(smoke(), path).state.update == updates


def test_the_training_loss_logged_is_the_mean_over_an_epochs_units(
    smoke: Smoke, tmp_path: Path
) -> None:
    outcome, (row,) = run(start(smoke("training.max_epochs=1")), tmp_path / "c.pt")
    by_hand = start(smoke())
    by_hand.model.train()
    losses = [by_hand.update([batch]) for batch in by_hand.task.train_batches(0)]
    total = sum(float(loss.total) for loss in losses)
    units = sum(loss.units for loss in losses)
    first = float(losses[0].total) / losses[0].units
    assert row["train_loss"] == pytest.approx(total / units, rel=1e-9)
    assert outcome.state.first_loss == pytest.approx(first, rel=1e-9)


def test_a_loss_above_its_start_three_times_in_a_row_is_divergence(
    smoke: Smoke, tmp_path: Path
) -> None:
    experiment = smoke("training.max_epochs=9", "training.lr=1e-6")
    factors = chain(repeat(1.0, 6), repeat(5.0))
    outcome, rows = run(scaled(experiment, factors), tmp_path / "c.pt")
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
def test_a_high_loss_diverges_once_it_stops_falling(
    losses: list[float], diverges_at: int | None
) -> None:
    state = State(first_loss=0.6)
    ended = None
    for evaluation, loss in enumerate(losses, 1):
        state.loss_sum, state.loss_units = loss, 1
        state.mean_loss(diverge_after=3)
        if state.diverged is not None and ended is None:
            ended = evaluation
    assert ended == diverges_at


def test_a_gradient_is_clipped_to_its_norm(smoke: Smoke) -> None:
    experiment = smoke("training.clip_norm=0.01")
    trainer = start(experiment)
    trainer.update([next(iter(trainer.task.train_batches(0)))])
    norms = [p.grad.norm() for p in trainer.model.parameters() if p.grad is not None]
    total = torch.stack(norms).norm()
    assert total.item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("clip_norm", ["null", "1000"])
def test_an_update_follows_the_gradient_of_the_mean_over_its_batches(
    smoke: Smoke, clip_norm: str
) -> None:
    trainer = start(smoke(f"training.clip_norm={clip_norm}", "model.dropout=0"))
    batches = list(trainer.task.train_batches(0))[:2]
    trainer.model.train()
    losses = [trainer.task.loss(trainer.model, batch) for batch in batches]
    total = torch.stack([loss.total for loss in losses]).sum()
    units = sum(loss.units for loss in losses)
    named = dict(trainer.model.named_parameters())
    expected = torch.autograd.grad(total / units, [*named.values()])
    trainer.update(batches)
    for name, gradient in zip(named, expected, strict=True):
        torch.testing.assert_close(named[name].grad, gradient, msg=name)


def test_every_norm_starts_from_the_same_weights_and_every_seed_from_others(smoke: Smoke) -> None:
    def weights(*settings: str) -> dict[str, Tensor]:
        return start(smoke(*settings)).model.state_dict()

    none, ada = weights("norm=none"), weights("norm=adanorm")
    assert none.keys() == ada.keys()
    assert all(torch.equal(none[name], ada[name]) for name in none)
    another_seed = weights("norm=none", "seed=2")
    assert not torch.equal(none["embedding.weight"], another_seed["embedding.weight"])


def test_a_run_has_the_epochs_or_updates_and_evaluations_that_are_set(
    smoke: Smoke, tmp_path: Path
) -> None:
    outcome, rows = run(start(smoke("training.max_epochs=2")), tmp_path / "c.pt")
    assert [row["epoch"] for row in rows] == [1, 2]
    assert [row["update"] for row in rows] == [6, 12]
    assert outcome.state.epoch == 2
    assert outcome.state.update == 12
    experiment = smoke("training.evaluate_every=4", "training.max_updates=10")
    _, rows = run(start(experiment), tmp_path / "d.pt")
    assert [row["update"] for row in rows] == [4, 8, 10]


@pytest.mark.parametrize(
    ("settings", "rates"),
    [
        ({}, {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4, 5: 0.4, 6: 0.4}),
        (
            {"schedule": "inverse_sqrt", "warmup_from": 0.1},
            {1: 0.1, 3: 0.25, 5: 0.4, 17: 0.2, 65: 0.1},
        ),
        ({"schedule": "inverse_sqrt"}, {1: 0.0, 3: 0.2, 5: 0.4}),
        ({"schedule": "inverse_sqrt", "warmup_updates": 0}, {1: 0.4, 2: 0.4, 5: 0.2}),
        ({"schedule": "cosine"}, {1: 0.1, 4: 0.4, 51: 0.2, 101: 0.0}),
        ({"schedule": "cosine", "warmup_updates": 0}, {1: 0.4, 26: 0.2 + 0.2 * 0.5**0.5, 51: 0.2}),
    ],
)
def test_the_rate_warms_up_and_falls(
    smoke: Smoke, settings: dict[str, Any], rates: dict[int, float]
) -> None:
    changes = {"warmup_updates": 4, "lr": 0.4, "max_updates": 100, **settings}
    training = smoke().training.model_copy(update=changes)
    assert {update: learning_rate(training, update) for update in rates} == pytest.approx(rates)


def test_averaged_weights_have_seen_the_positions_of_any_of_the_evaluations(tmp_path: Path) -> None:
    norm = BatchNorm(3, over="examples", positions=4)
    for positions in (1, 2, 3):
        norm(torch.randn(8, positions, 3))
        checkpoint.keep_weights(norm, positions, tmp_path)
    kept = [(1.0, 1), (1.0, 2), (1.0, 3)]
    norm.load_state_dict(checkpoint.mean_weights(kept, tmp_path, torch.device("cpu")))
    assert norm.seen.tolist() == [True, True, True, False]


@pytest.mark.parametrize(("metric", "sign"), [("accuracy", 1), ("loss", -1)])
def test_of_equal_scores_the_first_is_the_best(
    smoke: Smoke, tmp_path: Path, metric: str, sign: int
) -> None:
    trainer = start(smoke("training.max_epochs=4", "training.average={of: best, count: 2}"))
    scores = chain((50.0 + sign * score for score in (1, 3, 3, 2)), repeat(0.0))
    trainer.metric = metric
    trainer.measure = lambda split: Evaluation({metric: next(scores)}, [])  # type: ignore[method-assign]
    outcome, _ = run(trainer, tmp_path / "c.pt")
    assert outcome.state.best_update == 12
    assert [update for _, update in outcome.state.kept] == [12, 18]


def test_bfloat16_trains_to_about_the_same_loss(smoke: Smoke, tmp_path: Path) -> None:
    _, exact = run(start(smoke("precision=fp32")), tmp_path / "fp32.pt")
    _, rounded = run(start(smoke("precision=bf16")), tmp_path / "bf16.pt")
    assert rounded != exact
    assert rounded[-1]["train_loss"] == pytest.approx(exact[-1]["train_loss"], rel=0.05)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 9))
def test_rows_carried_by_some_processes_are_shared_out_to_others(
    before: int, after: int, rows: int
) -> None:
    whole = torch.arange(rows)[:, None] * torch.ones(1, 3)
    saved = [[whole[rank::before], 2 * whole[rank::before]] for rank in range(before)]
    for rank in range(after):
        first, second = reshard(saved, World(rank, after))
        assert torch.equal(first, whole[rank::after])
        assert torch.equal(second, 2 * whole[rank::after])
    assert reshard([[] for _ in range(before)], World(0, after)) == []


def test_tf32_is_on_under_precision_tf32_alone_and_is_refused_on_a_cpu(smoke: Smoke) -> None:
    for precision, rounds in (("tf32", True), ("bf16", False), ("tf32", True), ("fp32", False)):
        set_tf32(precision)
        assert torch.backends.cuda.matmul.allow_tf32 is rounds
        assert torch.backends.cudnn.allow_tf32 is rounds
        assert not torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction
    assert smoke("precision=tf32").digest != smoke().digest
    problem = "^precision=tf32: a CPU has no TF32; choose fp32 or bf16"
    with pytest.raises(ValueError, match=problem):
        prepare(smoke("precision=tf32", "device=cpu"))


@pytest.mark.parametrize("task", ["rt", "enwik8", "de-en"])
def test_compiled_layers_train_alike_and_are_an_experiment_of_their_own(
    smoke: Smoke, task: str
) -> None:
    plainly = smoke(f"task={task}", "model.dropout=0")
    compiled = smoke(f"task={task}", "model.dropout=0", "compile=layers")
    assert compiled.digest != plainly.digest
    with torch.compiler.set_stance("force_eager"):  # PyTorch itself makes the programs
        trainers = [start_trainer(e, prepare(e)) for e in (plainly, compiled)]
        first, second = (trainer.update(next(trainer.batches())) for trainer in trainers)
    assert first.total == second.total
    described = describe_environment(compiled, prepare(compiled), processes=1)
    assert described["norm_backend"] == "compiled: torch inductor"


def test_a_model_without_layers_is_not_compiled(smoke: Smoke) -> None:
    with pytest.raises(ValueError, match="compile=layers: this model has no layers"):
        start_trainer(run := smoke("task=ptb", "compile=layers"), prepare(run))


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches-ahead")]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_items_come_in_their_order_and_an_error_after_them(count: int) -> None:
    def breaks() -> Iterator[int]:
        yield from range(20)
        raise OSError("the disk is gone")

    items: list[int] = []
    with pytest.raises(OSError, match="the disk is gone"):
        items.extend(ahead(breaks(), count=count))
    assert items == list(range(20))
    assert list(ahead(iter(range(20)), count=count)) == list(range(20))
    assert threads() == []


def test_no_more_items_than_asked_for_are_ready_ahead() -> None:
    started: list[int] = []

    def counted(number: int) -> int:
        started.append(number)
        return number

    items = ahead(map(counted, range(1000)), count=3)
    assert next(items) == 0
    time.sleep(0.2)
    assert len(started) <= 1 + 3 + 1  # given out, ready, and one that waits for its place
    items.close()  # type: ignore[attr-defined]
    assert threads() == []


@pytest.mark.parametrize("count", [0, 2])
def test_a_thread_is_there_only_for_batches_ahead_and_none_outlives_an_interrupt(
    smoke: Smoke, tmp_path: Path, count: int
) -> None:
    def interrupted(row: Row) -> None:
        assert len(threads()) == (1 if count else 0)
        raise KeyboardInterrupt

    trainer = start(smoke("task=mnist"), ahead=count)
    with (
        pytest.raises(KeyboardInterrupt),
        Progress(
            trainer.settings,
            6,
            "accuracy",
            shown=False,
        ) as progress,
    ):
        trainer.train(tmp_path / "c.pt", interrupted, progress)
    assert threads() == []


@pytest.mark.parametrize("task", ["rt", "mnist", "de-en", "enwik8", "ptb"])
def test_a_run_with_batches_ahead_is_the_same_run(smoke: Smoke, tmp_path: Path, task: str) -> None:
    experiment = smoke(f"task={task}", "training.accumulate=2")
    here, _ = run(start(experiment), tmp_path / "here.pt")
    ahead, _ = run(start(experiment, ahead=3), tmp_path / "ahead.pt")
    assert is_the_same(ahead, here)
