"""The sections of a configuration that say what model a run trains, one class a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from adanorm.config.sections import Fraction, Positive, Section

POSITIONS = ("pre", "post", "sandwich")


def _position_is_pre_norm(settings: Any) -> Any:
    """Say `norm_position` pre and post as pre_norm does: one run has one identity."""
    if not isinstance(settings, dict) or settings.get("norm_position") in (None, "sandwich"):
        return settings
    position = settings["norm_position"]
    if position not in POSITIONS:
        raise ValueError(f"norm_position={position!r}: choose {', '.join(POSITIONS)}")
    return {**settings, "norm_position": None, "pre_norm": position == "pre"}


def _pre_is_null(position: Any) -> Any:
    """Say `pre` as null does: in front of an activation is where the paper has the norm."""
    if position not in (None, *POSITIONS):
        raise ValueError(f"choose {', '.join(POSITIONS)}")
    return None if position == "pre" else position


AroundActivation = Annotated[Literal["post", "sandwich"] | None, BeforeValidator(_pre_is_null)]


class MnistCnn(Section):
    """Settings of models.mnist_cnn."""

    name: Literal["mnist_cnn"]
    channels: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    kernel_size: Annotated[int, Field(ge=1, le=9)]
    norm_axes: Literal["all", "channels"]
    norm_position: AroundActivation = None


class Vgg(Section):
    """Settings of models.vgg."""

    name: Literal["vgg"]
    blocks: Annotated[list[Annotated[list[Positive], Field(min_length=1)]], Field(min_length=1)]
    norm_axes: Literal["channels", "all"]


class DeepLinear(Section):
    """Settings of models.deep_linear."""

    name: Literal["deep_linear"]
    layers: Annotated[int, Field(ge=2)]
    dim: Positive
    init: Literal["xavier", "default"]


class SentenceEncoder(Section):
    """Settings of models.sentence_encoder."""

    name: Literal["sentence_encoder"]
    layers: Positive
    dim: Positive
    heads: Positive
    ffn_dim: Positive
    dropout: Fraction
    pre_norm: bool
    pooling: Literal["mean", "max", "first"]
    norm_position: Literal["sandwich"] | None = None

    _position = model_validator(mode="before")(_position_is_pre_norm)

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> SentenceEncoder:
        if self.dim % self.heads or self.dim % 2:
            raise ValueError(f"dim {self.dim}: must be even and a multiple of heads ({self.heads})")
        return self


class FairseqTransformer(Section):
    """Settings of models.fairseq_transformer; null: the architecture's own."""

    name: Literal["fairseq_transformer"]
    architecture: Literal["transformer_iwslt_de_en", "transformer_wmt_en_de", "transformer_wmt_en_de_big_t2t"]
    layers: Positive | None
    dim: Positive | None
    ffn_dim: Positive | None
    heads: Positive | None
    pre_norm: bool
    init: Literal["km", "xavier", "released"]
    share_embeddings: Literal["all", "decoder", "none"]
    dropout: Fraction
    attention_dropout: Fraction
    activation_dropout: Fraction

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> FairseqTransformer:
        if self.dim and self.heads and (self.dim % self.heads or self.dim % 2):
            raise ValueError(f"dim {self.dim}: must be even and a multiple of heads ({self.heads})")
        return self


class TransformerXl(Section):
    """Settings of models.transformer_xl."""

    name: Literal["transformer_xl"]
    layers: Positive
    dim: Positive
    heads: Positive
    head_dim: Positive
    ffn_dim: Positive
    dropout: Fraction
    pre_norm: bool
    norm_position: Literal["sandwich"] | None = None

    _position = model_validator(mode="before")(_position_is_pre_norm)

    @model_validator(mode="after")
    def _dim_is_even(self) -> TransformerXl:
        if self.dim % 2:
            raise ValueError(f"dim {self.dim}: must be even, for sines and cosines")
        return self


class Recurrent(Section):
    """Settings of models.recurrent."""

    name: Literal["recurrent"]
    cell: Literal["lstm", "gru"]
    layers: Positive
    dim: Positive
    embedding_dim: Positive
    embedding_bound: Annotated[float, Field(gt=0)]
    input_dropout: Fraction
    hidden_dropout: Fraction
    output_dropout: Fraction
    weight_dropout: Fraction


class TransitionParser(Section):
    """Settings of models.transition_parser."""

    name: Literal["transition_parser"]
    embedding_dim: Positive
    embedding_sd: Annotated[float, Field(gt=0)]
    layers: Positive
    dim: Positive
    activation: Literal["relu", "tanh", "cube"]
    dropout: Fraction
    norm_position: AroundActivation = None
