"""Where norms sit in a model: which sites take the variant and which stay plain LayerNorm."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from adanorm.norms import LayerNorm, MakeNorm


class PlacedNorms:
    """A make_norm that puts the variant at the sites some glob matches and LayerNorm elsewhere.

    `placement` is `all`, `final` (the norms that close a stack, all that the released code
    reaches) or a list of globs over site names. `swapped` and `kept` name the sites as they come.
    """

    def __init__(self, make_norm: MakeNorm, placement: str | Sequence[str]) -> None:
        self._make_norm = make_norm
        self._placement = placement
        self.swapped: list[str] = []
        self.kept: list[str] = []
        self._final: list[str] = []

    def __call__(self, dim: int, *, site: str, closes_stack: bool = False) -> nn.Module:
        """Return the norm for a site, the variant or LayerNorm; `site` is the module's own name."""
        if closes_stack:
            self._final.append(site)
        if self._placement == "all":
            takes_variant = True
        elif self._placement == "final":
            takes_variant = closes_stack
        else:
            takes_variant = any(fnmatchcase(site, glob) for glob in self._placement)
        (self.swapped if takes_variant else self.kept).append(site)
        return self._make_norm(dim, site=site) if takes_variant else LayerNorm(dim)

    def check(self) -> None:
        """Raise ValueError, naming the sites, where a part of the placement matched none of them."""
        sites = [*self.swapped, *self.kept]
        if self._placement == "final" and not self._final:
            raise ValueError(
                f"placement final: no norm closes a stack here; the sites are {', '.join(sites)}"
            )
        globs = [] if isinstance(self._placement, str) else self._placement
        for glob in globs:
            if not any(fnmatchcase(site, glob) for site in sites):
                raise ValueError(f"placement {glob!r} matches no site: the sites are {', '.join(sites)}")
