"""The page of the Python interface: the names that `adanorm` and `adanorm.norms` offer."""

from __future__ import annotations

import inspect

import adanorm
from adanorm import norms
from scripts.website.text import Pages, fenced

OF_ADANORM = ("swap", "restore")


def api_pages() -> Pages:
    """Return the page of the interface, on which Sphinx writes signatures and docstrings."""
    lines = [
        "# Python interface",
        "",
        "`import adanorm` needs PyTorch alone; [norms in any model](../any-model.md) has examples.",
        "",
        "## Norms in a model",
        "",
        *(_documented("function", f"adanorm.{name}") for name in OF_ADANORM),
        "",
        "## Norms",
        "",
        "A norm maps `(..., H)` to the same shape. Those with `backend` have a fused kernel, where a compiler"
        " is installed.",
        "",
        *(_documented(_kind(name), f"adanorm.norms.{name}") for name in norms.__all__ if name != "NORMS"),
    ]
    assert set(adanorm.__all__) == {*OF_ADANORM}, "every public name has its line"
    return {"docs/reference/api.md": "\n".join([*lines, ""])}


def _kind(name: str) -> str:
    return "class" if inspect.isclass(getattr(norms, name)) else "function"


def _documented(kind: str, name: str) -> str:
    return fenced("{eval-rst}", f".. auto{kind}:: {name}") + "\n"
