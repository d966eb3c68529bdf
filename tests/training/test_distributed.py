"""What each process of a run computes, and how a lost process is recognized."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import nn

from adanorm.config.paths import PROJECT
from adanorm.runs.execute import prepare, start_trainer
from adanorm.training.distributed import World, is_lost_process_error, share, ties_rows, wrap
from scripts.processes import CASES, MASKED, differences
from tests.conftest import Smoke

LOST = RuntimeError("[enforce fail at pair.cc] Connection closed by peer [127.0.0.1]:4242")


@pytest.mark.parametrize(("count", "whole"), [(4, True), (3, True), (4, False)])
def test_processes_have_each_row_once_and_even_batches_whole(
    smoke: Smoke, count: int, whole: bool
) -> None:
    batches = prepare(smoke("task=mnist")).task.train_batches(0)
    shares = [
        share(
            batches,
            range(count),
            World(rank, 2),
            whole=whole,
        )
        for rank in (0, 1)
    ]
    everything = [batches.part(index) for index in range(count)]
    for rank in (0, 1):
        divided = [batch.inputs[rank::2] for batch in everything]
        expected = (
            [batch.inputs for batch in everything[rank::2]] if whole and count == 4 else divided
        )
        assert all(map(torch.equal, (part.inputs for part in shares[rank]), expected))
        assert len(shares[rank]) == len(expected)


def test_the_rows_of_a_batch_stay_together_where_a_norm_is_over_them(smoke: Smoke) -> None:
    for norm, ties in (("layernorm", False), ("batchnorm", True)):
        assert ties_rows(prepare(smoke(f"norm={norm}")).model) is ties


WITHOUT_DROPOUT = ("sentences", "translation", "bytes", "parsing")
PLAIN = [*(case for case in CASES if case not in WITHOUT_DROPOUT), *MASKED]


@pytest.mark.long
@pytest.mark.parametrize(
    "chosen",
    [PLAIN, pytest.param(WITHOUT_DROPOUT, marks=pytest.mark.nightly)],
    ids=["dropout", "no dropout"],
)
def test_two_processes_then_one_then_three_train_every_kind_of_task_as_one_does(
    tmp_path: Path, chosen: Sequence[str]
) -> None:
    """With dropout of every kind: of words, features, attention's weights and matrices."""
    cases = [case for case in chosen if "translation" not in case or find_spec("fairseq")]
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "scripts.processes",
        str(tmp_path),
        "cpu",
        "3",
        *cases,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    gaps = differences(tmp_path)
    assert [*gaps] == cases
    assert max(gaps.values()) < 1e-6, gaps


def test_processes_on_a_cpu_draw_the_same_numbers_which_no_other_seed_draws(smoke: Smoke) -> None:
    drawn = set()
    for seed in (1, 2):
        for rank in (0, 1, 2):
            start_trainer(smoke(f"seed={seed}"), prepare(smoke()), World(rank, 1))
            drawn.add(float(torch.rand(())))
    assert len(drawn) == 2


def test_a_model_without_parameters_to_train_has_no_gradients_to_average() -> None:
    model = nn.Linear(1, 1).requires_grad_(False)
    assert wrap(model, World(0, 2)) is model


def test_a_lost_process_is_distinguished_from_other_errors_and_a_lone_run_loses_none() -> None:
    lost = LOST, dist.DistBackendError("NCCL error"), dist.DistNetworkError("no answer")
    others = RuntimeError("shapes do not match"), ValueError("Connection closed by peer")
    assert all(is_lost_process_error(error, World(0, 2)) for error in lost)
    assert not any(is_lost_process_error(error, World(0, 2)) for error in others)
    assert not any(is_lost_process_error(error, World(0, 1)) for error in (*lost, *others))
