"""Norms of other packages: by an entry point in the group `adanorm.norms`, or by package.module:Class."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from adanorm.config.paths import choices

GROUP = "adanorm.norms"


def outside_norms() -> list[str]:
    """Return the names of norms that installed packages offer as entry points, sorted."""
    return sorted(point.name for point in entry_points(group=GROUP))


def find_outside(name: str, path: str | None) -> Any:
    """Return the class at a path, package.module:Class, or of the entry point of that name, or None.

    A name of the suite's own is no entry point's. Raises ValueError for a path where there is no class.
    """
    if path is None:
        points = entry_points(group=GROUP, name=name) if name not in choices("norm") else ()
        return next((point.load() for point in points), None)
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise ValueError(f"norm.path={path!r}: write it as package.module:Class")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"norm.path={path!r}: {error}") from None
