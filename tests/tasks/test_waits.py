"""No update of any kind of task waits for the device.

The meta device stands for a GPU: its tensors have no values, so whatever would wait for one raises
an error.
"""

from contextlib import nullcontext
from itertools import islice
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from adanorm.data.examples import Batches
from adanorm.norms import NORMS
from adanorm.runs.execute import prepare, start_trainer
from adanorm.training.optimizer import make_optimizer
from tests.conftest import Smoke

META = torch.device("meta")
TASKS = ["mnist", "cifar10", "rt", "ptb", "gaussian", "enwik8", "enwik8-lstm"]
WITHOUT = {"powernorm": ["norm.params.warmup=0"]}  # its first batches are counted on the device


@pytest.mark.parametrize(
    ("task", "norm"),
    [
        *((task, "adanorm") for task in TASKS),
        pytest.param("de-en", "adanorm", marks=pytest.mark.needs("fairseq")),
        *(("rt", norm) for norm in NORMS),
    ],
)
def test_an_update_waits_for_no_value_on_the_device(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch, task: str, norm: str
) -> None:
    monkeypatch.setattr(
        torch, "autocast", lambda *_, **__: nullcontext()
    )  # the meta device has none
    several = 2 if norm == "adanorm" else 1  # updates, and batches of an update
    settings = [
        f"norm={norm}",
        *WITHOUT.get(norm, []),
        "training.clip_norm=1",
        f"training.accumulate={several}",
    ]
    experiment = smoke(f"task={task}", *settings)
    prepared = prepare(experiment)
    prepared.model.to(META)
    trainer = start_trainer(experiment, prepared._replace(device=META))
    trainer.state.first_loss = 1.0  # the very first update's is fetched
    trainer.model.train()
    for batches in islice(trainer.batches(), several):
        assert trainer.update(batches).total.device == META
    with pytest.raises(RuntimeError, match="meta"):
        trainer._fetch_loss()


def test_adamws_counts_of_steps_lie_with_the_parameters_after_a_resume(smoke: Smoke) -> None:
    """Otherwise a step would fetch the count of every parameter from the device, or fail."""
    with FakeTensorMode():
        model = torch.nn.ParameterList([torch.empty(2, 2, device="cuda") for _ in range(2)])
        optimizer = make_optimizer(model, smoke().training)
        zeros = {name: torch.zeros(2, 2) for name in ("exp_avg", "exp_avg_sq")}
        saved = {index: {"step": torch.tensor(3.0), **zeros} for index in range(2)}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": saved})
    assert all(group["fused"] for group in optimizer.param_groups)
    assert {state["step"].device.type for state in optimizer.state.values()} == {"cuda"}


def test_a_resumed_run_makes_no_batch_that_is_done(
    smoke: Smoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = start_trainer(experiment := smoke("task=mnist"), prepare(experiment))
    trainer.state.position = 5
    indices: list[int] = []
    batches = trainer.task.train_batches(0)
    fifth, part = batches.part(5), Batches.part

    def watched(batches: Batches, index: int, rank: int = 0, world: int = 1) -> Any:
        indices.append(index)
        return part(batches, index, rank, world)

    monkeypatch.setattr(Batches, "part", watched)
    (batch,) = next(trainer.batches())
    assert indices == [5]
    assert torch.equal(batch.inputs, fifth.inputs)  # type: ignore[attr-defined]
