"""Settings `key=value` as they are written, before Hydra, which no command waits for, reads them."""

from __future__ import annotations

from collections.abc import Iterable


def check_each_once(written: Iterable[str]) -> None:
    """Raise ValueError where a `key=value` is given twice, as it is not said which counts."""
    keys = [key.lstrip("+") for key, equals, _ in (each.partition("=") for each in written) if equals]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise ValueError(f"{twice} is given twice")
