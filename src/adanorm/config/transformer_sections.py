"""The sections of the Transformers among the models, and of where the norms of their layers sit."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from adanorm.config.data_sections import (
    ByteTextConfig,
    ColorImagesConfig,
    DataConfig,
    ImagesConfig,
    ParallelConfig,
    TextConfig,
)
from adanorm.config.model_base import ModelConfig, Sites
from adanorm.config.placements import POSITIONS, Heads, a_quarter, placements
from adanorm.config.sections import Fraction, Positive


class ResidualConfig(ModelConfig):
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
        stated = dict(settings)
        if position in ("pre", "post"):
            stated |= {"norm_position": None, "pre_norm": position == "pre"}
        layers = stated.get("layers")
        if position == "mix" and isinstance(layers, int) and stated.get("post_layers") == a_quarter(layers):
            stated["post_layers"] = None
        if POSITIONS[position].in_heads and stated.get("qk_norm") == "head":
            stated["qk_norm"] = None
        return stated

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


def _check_width(dim: int, heads: int = 1, *, sines: bool = True) -> None:
    """Raise ValueError where heads do not divide a width, or it is odd where positions are sines."""
    if dim % heads:
        raise ValueError(f"dim {dim}: must be a multiple of heads ({heads})")
    if sines and dim % 2:
        raise ValueError(f"dim {dim}: must be even, for sines and cosines")


class SentenceEncoderConfig(AttentionNormsConfig):
    """Settings of models.sentence_encoder."""

    reads = TextConfig

    name: Literal["sentence_encoder"]
    layers: Positive
    dim: Positive
    heads: Positive
    ffn_dim: Positive
    dropout: Fraction
    pooling: Literal["mean", "max", "first"]
    attention_dropout: Fraction | None = None
    init: Literal["xavier"] | None = None  # null: PyTorch's of linear layers, N(0, 1/d) of embeddings

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> SentenceEncoderConfig:
        _check_width(self.dim, self.heads)
        return self


class FairseqTransformerConfig(ResidualConfig):
    """Settings of models.fairseq_transformer; null: the architecture's own."""

    reads = ParallelConfig
    norm_sites = Sites(padding_known=False, after_layers=False)
    positions = ("pre", "post", "mix", "deepnorm")  # what fairseq's layers can be told

    name: Literal["fairseq_transformer"]
    architecture: Literal["transformer_iwslt_de_en", "transformer_wmt_en_de", "transformer_wmt_en_de_big_t2t"]
    layers: Positive | None
    dim: Positive | None
    ffn_dim: Positive | None
    heads: Positive | None
    init: Literal["km", "xavier", "released"]
    share_embeddings: Literal["all", "decoder", "none"]
    dropout: Fraction
    attention_dropout: Fraction
    activation_dropout: Fraction

    @model_validator(mode="before")
    @classmethod
    def _has_no_norms_in_heads(cls, settings: Any) -> Any:
        """Leave out a qk_norm of null, which the other Transformers have; raises ValueError for another."""
        stated = dict(settings)
        if (chosen := stated.pop("qk_norm", None)) is not None:
            raise ValueError(
                f"qk_norm={chosen}: not offered here, as fairseq's attention shows no queries and keys;"
                " choose null, or task=rt, sst5 or enwik8"
            )
        return stated

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> FairseqTransformerConfig:
        if self.dim and self.heads:
            _check_width(self.dim, self.heads)
        return self


class TransformerXlConfig(AttentionNormsConfig):
    """Settings of models.transformer_xl."""

    reads = ByteTextConfig
    carries = "positions"
    norm_sites = Sites(causal=True)

    name: Literal["transformer_xl"]
    layers: Positive
    dim: Positive
    heads: Positive
    head_dim: Positive
    ffn_dim: Positive
    dropout: Fraction

    @model_validator(mode="after")
    def _dim_is_even(self) -> TransformerXlConfig:
        _check_width(self.dim)
        return self


class VisionTransformerConfig(ModelConfig):
    """Settings of models.vision_transformer."""

    reads = (ImagesConfig, ColorImagesConfig)

    name: Literal["vision_transformer"]
    image_size: Positive
    patch_size: Positive
    layers: Positive
    dim: Positive
    heads: Positive
    ffn_dim: Positive
    dropout: Fraction

    @model_validator(mode="after")
    def _sizes_divide(self) -> VisionTransformerConfig:
        _check_width(self.dim, self.heads, sines=False)
        if self.image_size % self.patch_size:
            raise ValueError(f"patch_size {self.patch_size}: must divide image_size ({self.image_size})")
        return self

    def misfit(self, data: DataConfig) -> str | None:
        """Return that the images are of another size."""
        assert isinstance(data, self.reads)
        if data.side == self.image_size:
            return None
        return f"model.image_size={self.image_size}: the images are of {data.side} x {data.side} pixels"
