"""The processes of one run, which torchrun starts. They communicate by torch.distributed."""

import os
import select
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from adanorm.tasks import EpochBatches


class World(NamedTuple):
    """The rank of this process among the processes of the run, and their number."""

    rank: int
    size: int

    @property
    def is_main(self) -> bool:
        """Whether this process writes the records."""
        return self.rank == 0


ALONE = World(0, 1)

LOST = "another process of this run has ended: the next start resumes from the last checkpoint"
SECONDS_TO_NOTICE = 5.0

# Groups that this process has left, referenced here to its end. If DistributedDataParallel's
# reducer had the last reference, it would join the group's threads while holding the interpreter's
# lock. They may wait for that lock: after the loss of a process, or to release what the last
# collective held.
_LEFT_GROUPS: list[Any] = []
_JOINED: Counter[str] = Counter()  # how many groups this process has joined, by the store's port


@contextmanager
def init_distributed(device: torch.device) -> Iterator[World]:
    """Join torchrun's processes, if any, for a block; exit with 2 soon after another ends."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    patience = timedelta(
        hours=6
    )  # the others wait while the first evaluates: decoding may take long
    store, rank, size = next(rendezvous("env://", timeout=patience))
    # A sweep joins once per run through the same store. The prefix hides what the last group wrote
    # there.
    port = os.environ["MASTER_PORT"]
    prefix = f"group {_JOINED[port]}"
    _JOINED[port] += 1
    own_store = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend,
        store=own_store,
        rank=rank,
        world_size=size,
        timeout=patience,
    )
    world, is_over = World(dist.get_rank(), dist.get_world_size()), Event()
    _end_with_others(world, is_over)
    has_failed = True
    try:
        yield world
        has_failed = False
    finally:
        is_over.set()
        if has_failed and device.type == "cuda":
            # NCCL leaves a group only with the other processes, which may wait for this one. So
            # this one does not leave, and a signal ends it if NCCL blocks its exit.
            signal.setitimer(signal.ITIMER_REAL, SECONDS_TO_NOTICE)
        else:
            leave_group()


def leave_group() -> None:
    """Leave the group of this run's processes."""
    _LEFT_GROUPS.append(dist.group.WORLD)
    dist.destroy_process_group()


def _end_with_others(world: World, is_over: Event) -> None:
    """End this process once another one here has ended, unless it ends itself or `is_over` is set.

    Collectives notice the loss of a process, except gloo's (PyTorch 2.13). If gloo writes a message
    to a connection that was just closed, it waits until the group's timeout for the message to be
    sent.
    """
    if not hasattr(os, "pidfd_open"):  # only Linux has it
        return
    machine = (
        Path("/proc/sys/kernel/random/boot_id").read_text("utf-8"),
        os.readlink("/proc/self/ns/pid"),
    )
    processes = select.poll()
    for host, process in all_gather((machine, os.getpid()), world):
        if host == machine and process != os.getpid():
            processes.register(os.pidfd_open(process), select.POLLIN)

    def watch() -> None:
        processes.poll()
        if not is_over.wait(SECONDS_TO_NOTICE):
            print(f"error: {LOST}", file=sys.stderr, flush=True)
            os._exit(2)  # an exception may not reach the main thread where it waits

    Thread(
        target=watch,
        name="other processes",
        daemon=True,
    ).start()


# Gloo's messages when the other end of a connection is gone; NCCL raises an error of its own.
GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket Timeout")


def is_lost_process_error(error: BaseException, world: World) -> bool:
    """Return whether an error means that another process of the run has ended."""
    is_gloo = isinstance(error, RuntimeError) and any(words in str(error) for words in GONE)
    return world.size > 1 and (
        is_gloo or isinstance(error, dist.DistBackendError | dist.DistNetworkError)
    )


def wrap(model: nn.Module, world: World) -> nn.Module:
    """Return the model, wrapped so that its gradients are averaged over the processes."""
    if world.size == 1 or not any(parameter.requires_grad for parameter in model.parameters()):
        return model
    return DistributedDataParallel(model)


def ties_rows(model: nn.Module) -> bool:
    """Return whether a norm has statistics over a batch, whose rows must then stay together."""
    return any(
        getattr(
            module,
            "depends_on_batch",
            False,
        )
        for module in model.modules()
    )


def share(batches: EpochBatches, update: range, world: World, *, whole: bool) -> list[Any]:
    """Return the batches of an update that this process computes: every n-th of n processes.

    Without `whole`, or if n does not divide their number, it is a part of each batch. Either way
    each row is computed once, and a process makes only its own rows. Whole batches use a device
    better than parts.
    """
    if whole and len(update) % world.size == 0:
        return [batches.part(index) for index in update[world.rank :: world.size]]
    return [
        batches.part(
            index,
            world.rank,
            world.size,
        )
        for index in update
    ]


T = TypeVar("T")


def broadcast(value: T, world: World) -> T:
    """Return the value of the first process, on every process."""
    return all_gather(value, world)[0]


def all_gather(value: T, world: World) -> list[T]:
    """Return the values of all processes, in the order of their ranks."""
    if world.size == 1:
        return [value]
    values: list[Any] = [None] * world.size
    dist.all_gather_object(values, value)
    return values


def reshard(parts: Sequence[Sequence[torch.Tensor]], world: World) -> list[torch.Tensor]:
    """Return this process's rows of tensors that n processes divided: each has every n-th row."""
    rows_of_rank = []
    for tensors in zip(*parts, strict=True):
        first, count = tensors[0], sum(map(len, tensors))
        whole = first.new_empty(count, *first.shape[1:])
        for rank, rows in enumerate(tensors):
            whole[rank :: len(tensors)] = rows
        rows_of_rank.append(whole[world.rank :: world.size])
    return rows_of_rank


def all_reduce(numbers: torch.Tensor, world: World) -> torch.Tensor:
    """Return the sum of a tensor over all processes, computed in place."""
    if world.size > 1:
        dist.all_reduce(numbers)
    return numbers
