"""Processes of one run, as torchrun starts them: PyTorch's own distribution."""

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

from adanorm.tasks.base import EpochBatches


class World(NamedTuple):
    """A process's place among those of the run."""

    rank: int
    size: int

    @property
    def is_main(self) -> bool:
        """Whether this process writes the records."""
        return self.rank == 0


ALONE = World(0, 1)

LOST = "another process of this run has ended: the next start resumes from the last checkpoint"
SECONDS_TO_NOTICE = 5.0

# Groups that were left, to the process's end. Were DistributedDataParallel's reducer the last to know one, it
# would join the group's threads under the interpreter's lock, for which they may wait: a process was lost, or
# they still release what the last collective held.
_LEFT: list[Any] = []
_JOINED: Counter[str] = Counter()  # how often this process has joined a group, by the port of the store


@contextmanager
def init_distributed(device: torch.device) -> Iterator[World]:
    """Join torchrun's processes, if any, for a block; this one exits with 2 soon after another here ends."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    patience = timedelta(hours=6)  # the others wait while the first evaluates: decoding may take long
    store, rank, size = next(rendezvous("env://", timeout=patience))
    # A sweep joins again and again by torchrun's one store, where a group finds what the last one wrote.
    port = os.environ["MASTER_PORT"]
    prefix = f"group {_JOINED[port]}"
    _JOINED[port] += 1
    fresh = dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=fresh, rank=rank, world_size=size, timeout=patience)
    world, left = World(dist.get_rank(), dist.get_world_size()), Event()
    _end_with_others(world, left)
    has_failed = True
    try:
        yield world
        has_failed = False
    finally:
        left.set()
        if has_failed and device.type == "cuda":
            # To leave, NCCL waits for the others, and they may wait for this process. So it does not leave
            # the group, and a signal ends it where NCCL holds up its end.
            signal.setitimer(signal.ITIMER_REAL, SECONDS_TO_NOTICE)
        else:
            leave_group()


def leave_group() -> None:
    """Leave the group of this run's processes."""
    _LEFT.append(dist.group.WORLD)
    dist.destroy_process_group()


def _end_with_others(world: World, left: Event) -> None:
    """Have this process end once another on this machine has, unless it does so itself or has `left`.

    A collective notices that a process was lost, but for gloo's (PyTorch 2.13): a message that it writes to a
    connection just closed it takes for pending, and waits for it to be sent until the group's timeout.
    """
    if not hasattr(os, "pidfd_open"):  # Linux alone has it
        return
    machine = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8"), os.readlink("/proc/self/ns/pid")
    ends = select.poll()
    for where, process in all_gather((machine, os.getpid()), world):
        if where == machine and process != os.getpid():
            ends.register(os.pidfd_open(process), select.POLLIN)

    def watch() -> None:
        ends.poll()
        if not left.wait(SECONDS_TO_NOTICE):
            print(f"error: {LOST}", file=sys.stderr, flush=True)
            os._exit(2)  # the main thread may wait where no exception reaches it

    Thread(target=watch, name="other processes", daemon=True).start()


# What gloo says of a connection whose other end has gone; NCCL has an error of its own.
GONE = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Socket Timeout")


def is_of_a_lost_process(error: BaseException, world: World) -> bool:
    """Return whether an error comes of another process of the run having ended."""
    said = isinstance(error, RuntimeError) and any(words in str(error) for words in GONE)
    return world.size > 1 and (said or isinstance(error, dist.DistBackendError | dist.DistNetworkError))


def wrap(model: nn.Module, world: World) -> nn.Module:
    """Return the model with its gradients averaged over the processes."""
    if world.size == 1 or not any(parameter.requires_grad for parameter in model.parameters()):
        return model
    return DistributedDataParallel(model)


def ties_rows(model: nn.Module) -> bool:
    """Return whether a norm of the model takes statistics over a batch: its rows must stay together."""
    return any(getattr(module, "depends_on_batch", False) for module in model.modules())


def share(batches: EpochBatches, update: range, world: World, *, whole: bool) -> list[Any]:
    """Return what a process computes of an update's batches: every n-th one where they go round, else parts.

    Either way each row is computed once, and no process makes a batch of another's rows; a whole batch uses
    a device better than a part of each.
    """
    if whole and len(update) % world.size == 0:
        return [batches.part(index) for index in update[world.rank :: world.size]]
    return [batches.part(index, world.rank, world.size) for index in update]


T = TypeVar("T")


def broadcast(value: T, world: World) -> T:
    """Return the first process's value on every process."""
    return all_gather(value, world)[0]


def all_gather(value: T, world: World) -> list[T]:
    """Return every process's value, in the order of their ranks."""
    if world.size == 1:
        return [value]
    values: list[Any] = [None] * world.size
    dist.all_gather_object(values, value)
    return values


def reshard(parts: Sequence[Sequence[torch.Tensor]], world: World) -> list[torch.Tensor]:
    """Return this process's rows of what processes had, each every n-th row from its rank on."""
    mine = []
    for tensors in zip(*parts, strict=True):
        whole = torch.empty(sum(map(len, tensors)), *tensors[0].shape[1:], dtype=tensors[0].dtype)
        for rank, rows in enumerate(tensors):
            whole[rank :: len(tensors)] = rows
        mine.append(whole[world.rank :: world.size].to(tensors[0].device))
    return mine


def all_reduce(numbers: torch.Tensor, world: World) -> torch.Tensor:
    """Return the sum of a tensor over the processes; it is changed in place."""
    if world.size > 1:
        dist.all_reduce(numbers)
    return numbers
