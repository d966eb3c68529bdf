from typing import TypeVar

T = TypeVar("T")


def not_none(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value
