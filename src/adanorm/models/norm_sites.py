"""Where norms sit in a model: which sites take the variant and which stay plain LayerNorm."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

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
        self._in_layers: dict[str, nn.Module] = {}  # norms that live in the weights of a layer
        self._layers: dict[str, nn.Module] = {}

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
        norm = self._make_norm(dim, site=site) if takes_variant else LayerNorm(dim)
        if hasattr(norm, "attach"):
            self._in_layers[site] = norm
        return norm

    def follows(self, site: str, layer: nn.Module) -> None:
        """Tell which layer's output reaches a site, straight or as the last part of a residual sum."""
        self._layers[site] = layer

    def finish(self) -> None:
        """Hand each layer, its weights drawn, to the norm that lives in it, if it is such a norm.

        Raises ValueError, naming the sites, where a part of the placement matched none of them, or
        where such a norm has no layer to live in.
        """
        self._check_placement()
        for site, norm in self._in_layers.items():
            if site in self._layers:
                attach: Any = norm.attach
                attach(self._layers[site])
        if self._in_layers and not self._in_layers.keys() & self._layers.keys():
            raise ValueError(
                f"{type(next(iter(self._in_layers.values()))).__name__} lives in the layer before a site,"
                f" and none has a layer of its own before it: {', '.join(self._in_layers)}"
            )

    def _check_placement(self) -> None:
        sites = [*self.swapped, *self.kept]
        if self._placement == "final" and not self._final:
            raise ValueError(
                f"placement final: no norm closes a stack here; the sites are {', '.join(sites)}"
            )
        globs = [] if isinstance(self._placement, str) else self._placement
        for glob in globs:
            if not any(fnmatchcase(site, glob) for site in sites):
                raise ValueError(f"placement {glob!r} matches no site: the sites are {', '.join(sites)}")


def normalized(norm: nn.Module, x: Tensor, rows: Tensor) -> Tensor:
    """Return norm(x), (B, T, H); `rows` (B, T) is true at what is no padding.

    A norm whose statistics are taken over more than a row is told which rows count.
    """
    over_rows = getattr(norm, "depends_on_batch", False) or getattr(norm, "depends_on_positions", False)
    z: Tensor = norm(x, rows) if over_rows else norm(x)
    return z


def branch_norms(
    make_norm: PlacedNorms, site: str, position: str, attention_output: nn.Linear, ffn_output: nn.Linear
) -> tuple[nn.Module, nn.Module]:
    """Return the norms behind the two branches of a layer at `site`: nothing but for sandwich.

    And tell which of the layer's sites follow the two linear layers that end its branches.
    """
    branches = {"attention": attention_output, "ffn": ffn_output}
    norms: list[nn.Module] = []
    for branch, output in branches.items():
        behind = f"{site}.{branch}_output_norm"
        is_sandwich = position == "sandwich"
        norms.append(make_norm(output.out_features, site=behind) if is_sandwich else nn.Identity())
        if position != "pre":
            make_norm.follows(behind if is_sandwich else f"{site}.{branch}_norm", output)
    if position == "pre":
        make_norm.follows(f"{site}.ffn_norm", attention_output)
    return norms[0], norms[1]


def follow_one_another(make_norm: PlacedNorms, outputs: Sequence[nn.Module]) -> None:
    """Tell which pre-norm sites of a stack follow the last linear layer of the layer before."""
    for index, output in enumerate(outputs[:-1], start=1):
        make_norm.follows(f"layers.{index}.attention_norm", output)
    make_norm.follows("closing_norm", outputs[-1])
