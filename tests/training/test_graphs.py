"""Graphs of micro-batches, by the stand-in that a CPU has: it computes again from the graph's tensors."""

import math
import weakref
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from adanorm.config.experiment import Experiment
from adanorm.data.examples import Batch
from adanorm.norms import PowerNorm
from adanorm.runs.execute import prepare, start_trainer
from adanorm.tasks import Loss
from adanorm.training import graphs
from adanorm.training.graphs import Graphs
from adanorm.training.loop import Trainer
from tests.conftest import Smoke

UPDATES = 30


def start(experiment: Experiment, *, replays: bool) -> Trainer:
    experiment = experiment.model_copy(update={"device": "cpu"})
    trainer = start_trainer(experiment, prepare(experiment))
    assert trainer.graphs is None, "only CUDA has graphs"
    if replays:
        trainer.graphs = trainer.make_graphs()
    trainer.model.train()
    return trainer


def losses(trainer: Trainer, updates: int) -> list[float]:
    results = [trainer.update(batches) for batches in islice(trainer.batches(), updates)]
    return [float(loss.total) / loss.units for loss in results]


def weights(trainer: Trainer) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def count(trainer: Trainer) -> int:
    assert trainer.graphs is not None
    return trainer.graphs.count


@pytest.mark.parametrize(
    ("task", "accumulate"),
    [("mnist", 1), ("rt", 2), ("ptb", 2), ("enwik8", 1), ("enwik8", 2), ("gaussian", 2)],
)
def test_replays_give_the_same_weights_to_the_bit(smoke: Smoke, task: str, accumulate: int) -> None:
    experiment = smoke(f"task={task}", f"training.accumulate={accumulate}")
    eager = start(experiment, replays=False)
    expected = losses(eager, UPDATES)
    replayed = start(experiment, replays=True)
    assert losses(replayed, UPDATES) == expected
    assert all(map(torch.equal, weights(replayed), weights(eager)))
    assert count(replayed) > 0


@pytest.mark.needs("fairseq")
def test_rounded_rows_change_only_the_rounding_of_losses(smoke: Smoke) -> None:
    experiment = smoke("task=de-en", "training.accumulate=3")
    expected = losses(start(experiment, replays=False), UPDATES)
    replayed = start(experiment, replays=True)
    assert losses(replayed, UPDATES) == pytest.approx(expected, rel=2e-7)
    assert count(replayed) > 5, "of several shapes"


@pytest.mark.parametrize("task", ["mnist", "rt", "ptb", "de-en", "enwik8"])
def test_a_run_resumed_amid_replays_goes_on_with_the_same_losses(
    smoke: Smoke, tmp_path: Path, task: str
) -> None:
    whole = start(smoke(f"task={task}"), replays=True)
    first, second = losses(whole, 20), losses(whole, 20)
    stopped = start(smoke(f"task={task}"), replays=True)
    assert losses(stopped, 20) == first
    stopped.save(tmp_path / "checkpoint.pt")
    resumed = start(smoke(f"task={task}"), replays=True)
    resumed.resume(tmp_path / "checkpoint.pt")
    assert losses(resumed, 20) == second


def test_a_longer_sentence_leaves_the_tables_that_older_graphs_read(smoke: Smoke) -> None:
    trainer = start(smoke("task=de-en"), replays=True)
    losses(trainer, 30)
    decoder: Any = trainer.model.decoder
    mask = weakref.ref(decoder._future_mask)
    positions = weakref.ref(decoder.embed_positions.weights)
    longest = max(decoder._future_mask.shape[0], decoder.embed_positions.weights.shape[0]) + 9
    ids = torch.full((1, longest), 5)
    before = count(trainer)
    with torch.no_grad():
        trainer.model(
            ids,
            ids,
            torch.zeros(2, 1, dtype=torch.long),
            has_padding=False,
        )
    assert decoder._future_mask.shape[0] == longest, "fairseq has made a larger mask"
    assert mask() is not None
    assert positions() is not None
    replayed = losses(trainer, 30)
    assert count(trainer) >= before
    assert all(map(math.isfinite, replayed))


class Counting:
    """A model's work on batches: counts how often it is computed eagerly, and sums the inputs."""

    def __init__(self) -> None:
        self.model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(self.model.parameters())
        self.graphs = Graphs(
            self.model,
            optimizer,
            torch.device("cpu"),
            add_gradient=self.add_gradient,
            step=lambda scale, lr: None,
        )
        self.inputs: list[int] = []  # the memory that each computation reads

    def add_gradient(self, batch: Batch, carried: object) -> Loss:
        self.inputs.append(batch.inputs.data_ptr())
        return Loss(batch.inputs.sum(), batch.units)

    def total(self, *values: float) -> float:
        batch = Batch(torch.tensor(values), torch.zeros(len(values)))
        return float(self.graphs.add_gradient(batch, ()).total)


def test_two_shapes_that_alternate_each_replay_their_own_graph() -> None:
    counting = Counting()
    totals = [counting.total(n, n) + counting.total(n, n, n) for n in range(5)]
    assert totals == [5 * n for n in range(5)]
    assert counting.graphs.count == 2
    # After the first batch of a shape, all of this shape are computed from the same memory.
    assert len(set(counting.inputs[2::2])) == 1
    assert len(set(counting.inputs[3::2])) == 1


def test_a_shape_is_recorded_when_it_comes_again_and_no_more_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    counting = Counting()
    for _ in range(3):
        for size in range(1, 5):
            assert counting.total(*range(size)) == sum(range(size))
    assert counting.graphs.count == 2


def test_facts_of_a_batch_that_choose_a_path_have_graphs_of_their_own(smoke: Smoke) -> None:
    trainer = start(smoke("task=enwik8"), replays=True)
    batches = list(islice(trainer.batches(), 1)) * 2
    for update in batches:
        trainer.update(update)
        trainer.carried = ()
    assert count(trainer) == 1, "first of its streams, without memory"
    losses(trainer, 3)
    assert count(trainer) == 2


def test_norms_that_read_a_count_on_the_host_stay_eager(smoke: Smoke) -> None:
    experiment = smoke("task=mnist", "norm=powernorm")
    trainer = start_trainer(experiment, prepare(experiment))
    assert any(isinstance(module, PowerNorm) for module in trainer.model.modules())
    assert trainer.make_graphs() is None


def test_where_recording_fails_a_run_goes_on_eagerly_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], smoke: Smoke
) -> None:
    expected = losses(start(smoke("task=mnist"), replays=False), 10)

    def fail(self: object, work: Callable[[], None]) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(graphs._Recorder, "_capture", fail)
    trainer = start(smoke("task=mnist"), replays=True)
    assert losses(trainer, 10) == expected
    assert count(trainer) == 0
    assert capsys.readouterr().err.splitlines() == [
        "graphs=on: not on this device, the run goes on without"
        " (operation not permitted when stream is capturing)"
    ]


def test_the_setting_is_no_part_of_a_runs_identity(smoke: Smoke) -> None:
    assert smoke("graphs=off").digest == smoke("graphs=on").digest == smoke().digest
    assert not smoke("graphs=off").graphs
