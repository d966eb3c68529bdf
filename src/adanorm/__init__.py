"""Reproduction of "Understanding and Improving Layer Normalization" (Xu et al., NeurIPS 2019)."""

import sys

# `python -m adanorm` has the current folder first: it goes before what follows is imported from there.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    del sys.path[0]

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adanorm.norms.swap import restore, swap

__all__ = ["restore", "swap"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return `swap` or `restore`, for which PyTorch is imported only when they are asked for."""
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("adanorm.norms.swap"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
