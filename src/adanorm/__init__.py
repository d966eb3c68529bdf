"""Reproduction of "Understanding and Improving Layer Normalization" (Xu et al., NeurIPS 2019)."""

import sys

# `python -m adanorm` puts the current folder first. Remove it, or the imports below may find files
# there.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    del sys.path[0]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adanorm.norms.swap import restore, swap

__all__ = ["restore", "swap"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return `swap` or `restore`, importing PyTorch only at their first use."""
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("adanorm.norms.swap"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the module's names, with those that are imported at their first use."""
    return sorted({*globals(), *__all__})
