"""What is computed from records once, as long as no record changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")
# What `once` has computed in the blocks of `unchanging`.
_COMPUTED: list[dict[Any, Any]] = []


@contextmanager
def unchanging() -> Iterator[None]:
    """In this block, or decorated function, no record changes, so that each is looked up once."""
    _COMPUTED.append({})
    try:
        yield
    finally:
        _COMPUTED.pop()


def once(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """Return a function of records that computes once per arguments while no record changes."""

    @wraps(function)
    def computed(*arguments: Arguments.args, **options: Arguments.kwargs) -> Value:
        if not _COMPUTED:
            return function(*arguments, **options)
        key = function, arguments, *options.items()
        values = _COMPUTED[-1]
        if key not in values:
            values[key] = function(*arguments, **options)
        return cast("Value", values[key])

    return computed
