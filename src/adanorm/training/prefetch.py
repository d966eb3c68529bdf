"""Batches collated ahead of the updates by a thread: a GPU need not wait for them."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from queue import Full, Queue
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")

LOOK = 0.1  # seconds between two looks of a waiting thread at whether it is still needed


def ahead(items: Iterator[T], prepare: Callable[[T], T], *, count: int) -> Iterator[T]:
    """Yield prepare(item) of each item, in order; a thread gets them ready, up to `count` ahead.

    What it raises is raised here in its turn. The thread ends when the items do or when the iterator is
    closed, whatever closes it.
    """
    ready: Queue[tuple[str, Any]] = Queue(count)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            try:
                ready.put((kind, value), timeout=LOOK)
            except Full:
                continue
            return

    def work() -> None:
        try:
            for item in items:
                put("item", prepare(item))
                if stopped.is_set():
                    return
        except BaseException as error:
            put("error", error)
        else:
            put("end", None)

    thread = threading.Thread(target=work, name="batches-ahead", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stopped.set()
        thread.join()


def pinned(batches: list[Any]) -> list[Any]:
    """Return batches with their tensors in memory that a GPU reads while others work, if there is one."""
    if not torch.cuda.is_available():
        return batches
    return [_pinned(batch) for batch in batches]


def _pinned(batch: Any) -> Any:
    tensors = {
        field.name: value.pin_memory()
        for field in dataclasses.fields(batch)
        if isinstance(value := getattr(batch, field.name), Tensor)
    }
    return dataclasses.replace(batch, **tensors)
