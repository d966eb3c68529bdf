"""The settings that say where the norms of a model's residual layers sit."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from adanorm.config.placements import POSITIONS, Heads, a_quarter, placements
from adanorm.config.sections import Config, Positive


class ResidualConfig(Config):
    """Settings of a model of residual layers; `positions` are those that its layers can have."""

    positions: ClassVar[tuple[str, ...]] = tuple(POSITIONS)

    layers: Positive | None
    pre_norm: bool
    norm_position: str | None = None  # null: as pre_norm says
    post_layers: Positive | None = None  # of mix; null: a quarter of the layers, at least one

    @model_validator(mode="before")
    @classmethod
    def _one_run_has_one_identity(cls, settings: Any) -> Any:
        """Say with null what is a default; raises ValueError for an unknown position."""
        position = settings.get("norm_position") if isinstance(settings, dict) else None
        if position is None:
            return settings
        if position not in cls.positions:
            raise ValueError(f"norm_position={position!r}: choose {', '.join(cls.positions)}")
        said = dict(settings)
        if position in ("pre", "post"):
            said |= {"norm_position": None, "pre_norm": position == "pre"}
        layers = said.get("layers")
        if position == "mix" and isinstance(layers, int) and said.get("post_layers") == a_quarter(layers):
            said["post_layers"] = None
        if POSITIONS[position].in_heads and said.get("qk_norm") == "head":
            said["qk_norm"] = None
        return said

    @model_validator(mode="after")
    def _post_layers_are_of_mix(self) -> ResidualConfig:
        if self.norm_position != "mix" and self.post_layers is not None:
            raise ValueError(f"post_layers={self.post_layers}: norm_position=mix alone has them")
        if self.layers is not None:
            placements(self.position, self.layers, post_layers=self.post_layers)
        return self

    @property
    def position(self) -> str:
        """The name of the position."""
        return self.norm_position or ("pre" if self.pre_norm else "post")


class AttentionNormsConfig(ResidualConfig):
    """Settings of a model whose attention can normalize queries and keys."""

    qk_norm: Heads | None = None  # queries and keys normalized over each head, or over all heads
