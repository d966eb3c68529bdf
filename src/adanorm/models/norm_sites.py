"""Building a model; which of its norm sites get the chosen norm."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pkgutil import resolve_name
from typing import Any

from torch import nn

from adanorm.config.model_sections import MODELS, ModelConfig
from adanorm.models.fast_layers import replace_layers
from adanorm.norms import LayerNorm, MakeNorm, Norm


class PlacedNorms:
    """A make_norm that returns the chosen norm where its placement says, and LayerNorm elsewhere.

    `placement` is `all`, `final` (the norms that close a stack, the only ones that the released
    code changes) or a list of globs over site names. `swapped` lists the sites with the chosen
    norm, `kept` the others.
    """

    def __init__(self, make_norm: MakeNorm, placement: str | Sequence[str]) -> None:
        self._make_norm = make_norm
        self._placement = placement
        self.swapped: list[str] = []
        self.kept: list[str] = []
        self.in_layers: list[tuple[str, Norm, str | None]] = []  # site, norm, the layer before it

    def __call__(
        self, dim: int, *, site: str, after: str | None = None, closes_stack: bool = False
    ) -> Norm:
        """Return the norm for a site, the chosen one or LayerNorm; `site` is the module's name.

        `after` names the layer whose output reaches the site, directly or as the last part of a
        residual sum; None if there is no such layer.
        """
        if isinstance(self._placement, str):
            is_chosen = closes_stack or self._placement == "all"
        else:
            is_chosen = any(fnmatchcase(site, glob) for glob in self._placement)
        (self.swapped if is_chosen else self.kept).append(site)
        norm = self._make_norm(dim, site=site) if is_chosen else LayerNorm(dim)
        if norm.lives_in_layer:
            self.in_layers.append((site, norm, after))
        return norm


def build_with_norms(
    build: Callable[[PlacedNorms], nn.Module], make_norm: MakeNorm, placement: str | Sequence[str]
) -> tuple[nn.Module, PlacedNorms]:
    """Return the model that `build` makes with a PlacedNorms, and that PlacedNorms.

    A norm that lives in a layer is attached to the layer before its site, after those weights are
    drawn. Raises ValueError, naming the sites, if a part of the placement matches none, or if no
    norm that lives in a layer has one; also for a model without sites, whose record would name a
    norm that it does not have.
    """
    placed = PlacedNorms(make_norm, placement)
    model = build(placed)
    sites = [*placed.swapped, *placed.kept]
    if not sites:
        raise ValueError("the model has no norm that could be replaced")
    if placement == "final" and not placed.swapped:
        raise ValueError(
            f"placement final: no norm closes a stack here; the sites are {', '.join(sites)}"
        )
    for glob in [] if isinstance(placement, str) else placement:
        if not any(fnmatchcase(site, glob) for site in sites):
            raise ValueError(
                f"placement {glob!r} matches no site: the sites are {', '.join(sites)}"
            )
    for _, norm, after in placed.in_layers:
        if after is not None:
            norm.attach(model.get_submodule(after))
    if placed.in_layers and not any(after for _, _, after in placed.in_layers):
        kind, names = (
            type(placed.in_layers[0][1]).__name__,
            ", ".join(site for site, *_ in placed.in_layers),
        )
        lacking = f"none has a layer of its own before it: {names}"
        raise ValueError(f"{kind} works through the layer before a site, and {lacking}")
    return model, placed


def build_model(settings: ModelConfig, make_norm: PlacedNorms, **sizes: Any) -> nn.Module:
    """Return the model of a configuration, with weights drawn by torch's global generator.

    `sizes` are what its data decide, such as the number of `classes`.
    """
    model = resolve_name(MODELS[type(settings)])(
        make_norm,
        settings,
        **sizes,
    )
    replace_layers(model)
    return model
