"""Norms of other packages: by an entry point in the group `adanorm.norms`, or by package.module:Class."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from adanorm.config.outside_code import source_of
from adanorm.config.paths import choices

GROUP = "adanorm.norms"


def outside_norms() -> list[str]:
    """Return the names of norms that installed packages offer as entry points, sorted."""
    return sorted(point.name for point in entry_points(group=GROUP))


def find_outside(name: str, path: str | None) -> Any:
    """Return the class at a path, package.module:Class, or of the entry point of that name, or None.

    A name of the suite's own is no entry point's. Raises ValueError for a path where there is no class.
    """
    place = _place(name, path)
    if place is None:
        return None
    module, attribute = place
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever another's module does when it is imported
        said = (
            error if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        )
        raise ValueError(f"norm.path='{module}:{attribute}': {said}") from error


def outside_code(name: str, path: str | None) -> dict[str, bytes]:
    """Return the source files of a norm from outside, by relative path; none of the suite's own.

    Nothing is imported. Raises ValueError where there is no such module.
    """
    place = _place(name, path)
    if place is None:
        return {}
    try:
        return source_of(place[0])
    except (OSError, ValueError) as error:
        raise ValueError(f"norm.path='{':'.join(place)}': {error}") from None


def _place(name: str, path: str | None) -> tuple[str, str] | None:
    """Return module and class of a norm from outside, None of the suite's own or an unknown one."""
    if path is None:
        points = entry_points(group=GROUP, name=name) if name not in choices("norm") else ()
        return next(((point.module, point.attr) for point in points), None)
    module, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), attribute]):
        raise ValueError(f"norm.path={path!r}: write it as package.module:Class")
    return module, attribute
