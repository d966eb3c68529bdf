"""Batches collated ahead of the updates by a thread: a GPU need not wait for them."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def ahead(items: Iterator[T], prepare: Callable[[T], T], *, count: int) -> Iterator[T]:
    """Yield prepare(item) of each item, in order; a thread gets them ready, up to `count` ahead.

    What it raises is raised here in its turn. The thread ends when the items do or when the iterator is
    closed, whatever closes it.
    """
    end: Any = object()

    def following() -> T:
        item = next(items, end)
        return item if item is end else prepare(item)

    thread = ThreadPoolExecutor(1, "batches-ahead")
    try:
        ready = deque(thread.submit(following) for _ in range(count))
        while (item := ready.popleft().result()) is not end:
            ready.append(thread.submit(following))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


def pinned(batches: list[Any]) -> list[Any]:
    """Return batches with their tensors in memory that a GPU reads while others work, if there is one."""
    return [_pinned(batch) for batch in batches] if torch.cuda.is_available() else batches


def _pinned(batch: Any) -> Any:
    values = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    tensors = {name: value.pin_memory() for name, value in values.items() if isinstance(value, Tensor)}
    return dataclasses.replace(batch, **tensors)
