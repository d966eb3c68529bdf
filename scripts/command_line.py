"""The command line of a script: key=value arguments.

A user's mistake gives one line and exit code 2.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


def parse_keys(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults, replaced by `key=value` arguments.

    Raises ValueError for any other argument.
    """
    settings = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in defaults:
            choices = ", ".join(f"{key}={value}" for key, value in defaults.items())
            raise ValueError(
                f"unknown argument {argument!r}: the keys and their defaults are {choices}"
            )
        settings[key] = value
    return {**defaults, **settings}


@contextmanager
def ended_by_mistakes() -> Iterator[None]:
    """End the process with one line and exit code 2 if the block raises ValueError."""
    try:
        yield
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
