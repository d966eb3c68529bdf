"""The command line of a script: key=value arguments, and one line and code 2 at the user's mistakes."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


def parse_keys(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the `key=value` arguments over their defaults; raises ValueError for any other argument."""
    given = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in defaults:
            known = ", ".join(f"{key}={value}" for key, value in defaults.items())
            raise ValueError(f"unknown argument {argument!r}: the keys and their defaults are {known}")
        given[key] = value
    return {**defaults, **given}


@contextmanager
def ended_by_mistakes() -> Iterator[None]:
    """End the process with one line and code 2 where a block raises ValueError, a mistake of the user's."""
    try:
        yield
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
