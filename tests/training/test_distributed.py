"""What each process of a run computes, and what is said of one that was lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice

import pytest
import torch
from torch import distributed as dist
from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.runs.setup import prepare, start_trainer
from adanorm.training.distributed import World, init_distributed, is_of_a_lost_process, share, ties_rows, wrap
from adanorm.training.loop import Trainer

Smoke = Callable[..., Experiment]
LOST = RuntimeError("[enforce fail at pair.cc] Connection closed by peer [127.0.0.1]:4242")


@pytest.mark.parametrize(("count", "whole"), [(4, True), (3, True), (4, False)])
def test_two_processes_have_each_row_once_whole_batches_where_they_go_round(
    smoke: Smoke, count: int, whole: bool
) -> None:
    batches = list(prepare(smoke()).task.train_batches(0))[:count]
    shares = [share(batches, World(rank, 2), whole=whole) for rank in (0, 1)]
    if whole and count == 4:
        assert shares == [batches[::2], batches[1::2]]
        return
    for first, second, batch in zip(*shares, batches, strict=True):
        assert torch.equal(first.inputs, batch.inputs[::2])
        assert torch.equal(second.inputs, batch.inputs[1::2])
        assert torch.equal(second.targets, batch.targets[1::2])


@pytest.mark.parametrize(("norm", "ties"), [("layernorm", False), ("batchnorm", True)])
def test_the_rows_of_a_batch_stay_together_where_a_norm_is_over_them(
    smoke: Smoke, norm: str, ties: bool
) -> None:
    assert ties_rows(prepare(smoke(f"norm={norm}")).model) is ties


def trainers(experiment: Experiment) -> tuple[Trainer, Trainer]:
    """A process alone, and the second of two."""
    alone, second = (start_trainer(experiment, prepare(experiment)) for _ in range(2))
    second.context = second.context._replace(world=World(1, 2))
    second.model.no_sync = nullcontext  # type: ignore[assignment]  # as DistributedDataParallel has it
    return alone, second


def test_each_process_carries_its_rows_on_through_all_batches_of_an_update(smoke: Smoke) -> None:
    alone, second = trainers(smoke("task=enwik8", "model.dropout=0"))
    batches = list(islice(alone.task.train_batches(0), 2))
    for trainer in (alone, second):
        trainer.backward(batches)
    assert len(alone.carried) > 0
    for rows, whole in zip(second.carried, alone.carried, strict=True):
        torch.testing.assert_close(rows, whole[1::2])


@pytest.mark.parametrize("norm", ["layernorm", "batchnorm"])
def test_a_norm_over_the_batch_has_rows_of_each_batch_in_both_processes(smoke: Smoke, norm: str) -> None:
    _, second = trainers(smoke(f"norm={norm}"))
    long, short = islice(second.task.train_batches(0), 2)
    short = short.shard(0, 4)
    parts = len(long.targets[1::2]) + len(short.targets[1::2])
    assert parts != len(short.targets)
    computed = second.backward([long, short]).units
    assert computed == (parts if norm == "batchnorm" else len(short.targets))


def test_a_model_without_parameters_to_train_has_no_gradients_to_average() -> None:
    model = nn.Linear(1, 1).requires_grad_(False)
    assert wrap(model, World(0, 2)) is model


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (LOST, True),
        (dist.DistBackendError("NCCL error"), True),
        (dist.DistNetworkError("no answer"), True),
        (RuntimeError("shapes do not match"), False),
        (ValueError("Connection closed by peer"), False),
    ],
)
def test_a_lost_process_is_told_from_other_errors_and_a_run_alone_has_none_to_lose(
    error: Exception, lost: bool
) -> None:
    assert is_of_a_lost_process(error, World(0, 2)) is lost
    assert not is_of_a_lost_process(error, World(0, 1))


def test_a_process_that_torchrun_did_not_start_is_alone_and_writes_the_records() -> None:
    with init_distributed(torch.device("cpu")) as world:
        assert world == World(rank=0, size=1)
        assert world.is_main
        assert not World(1, 2).is_main
        assert not dist.is_initialized()
