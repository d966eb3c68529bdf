"""The sections of a configuration that say what model a run trains, one class a model."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from adanorm.config.data_sections import (
    ByteTextConfig,
    ColorImagesConfig,
    DataConfig,
    GaussianConfig,
    ImagesConfig,
    TreebankConfig,
)
from adanorm.config.model_base import ModelConfig, Sites
from adanorm.config.sections import Fraction, Positive
from adanorm.config.transformer_sections import (
    FairseqTransformerConfig,
    SentenceEncoderConfig,
    TransformerXlConfig,
    VisionTransformerConfig,
)

AROUND_ACTIVATION = ("pre", "post", "sandwich")


def _pre_is_null(position: Any) -> Any:
    """Say `pre` as null does: in front of an activation is where the paper has the norm."""
    if position not in (None, *AROUND_ACTIVATION):
        raise ValueError(f"choose {', '.join(AROUND_ACTIVATION)}")
    return None if position == "pre" else position


AroundActivation = Annotated[Literal["post", "sandwich"] | None, BeforeValidator(_pre_is_null)]


class ImageModelConfig(ModelConfig):
    """A model of images, whose norms are over channels or over all units of a layer of an image."""

    norm_axes: Literal["all", "channels"]

    def sites(self) -> Sites:
        """Return positions where the norms are not over all units."""
        return Sites(positions=self.norm_axes != "all", positions_with="model.norm_axes=channels")


class MnistCnnConfig(ImageModelConfig):
    """Settings of models.mnist_cnn."""

    reads = ImagesConfig

    name: Literal["mnist_cnn"]
    norm_axes: Literal["all", "channels", "width"]  # type: ignore[assignment]
    channels: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    kernel_size: Annotated[int, Field(ge=1, le=9)]
    hidden: Positive | None = None  # units of a hidden layer, its norm before its ReLU; null: none
    norm_position: AroundActivation = None


class VggConfig(ImageModelConfig):
    """Settings of models.vgg."""

    reads = ColorImagesConfig

    name: Literal["vgg"]
    blocks: Annotated[list[Annotated[list[Positive], Field(min_length=1)]], Field(min_length=1)]


class DeepLinearConfig(ModelConfig):
    """Settings of models.deep_linear."""

    reads = GaussianConfig
    norm_sites = Sites(positions=False)

    name: Literal["deep_linear"]
    layers: Annotated[int, Field(ge=2)]
    dim: Positive
    init: Literal["xavier", "default"]


class RecurrentConfig(ModelConfig):
    """Settings of models.recurrent."""

    reads = ByteTextConfig
    carries = "state"
    norm_sites = Sites(positions=False, causal=True, after_layers=False)  # a time step's rows alone

    name: Literal["recurrent"]
    cell: Literal["lstm", "gru", "rnn"]
    layers: Positive
    dim: Positive
    embedding_dim: Positive
    embedding_bound: Annotated[float, Field(gt=0)]
    input_dropout: Fraction
    hidden_dropout: Fraction
    output_dropout: Fraction
    weight_dropout: Fraction


class TransitionParserConfig(ModelConfig):
    """Settings of models.transition_parser."""

    reads = TreebankConfig
    norm_sites = Sites(positions=False)

    name: Literal["transition_parser"]
    embedding_dim: Positive
    embedding_sd: Annotated[float, Field(gt=0)]
    layers: Positive
    dim: Positive
    activation: Literal["relu", "tanh", "cube"]
    dropout: Fraction
    norm_position: AroundActivation = None


# What builds the model of each section: called as built(make_norm, **sizes, **settings).
MODELS: dict[type[ModelConfig], str] = {
    MnistCnnConfig: "adanorm.models.mnist_cnn:MnistCnn",
    VggConfig: "adanorm.models.vgg:Vgg",
    VisionTransformerConfig: "adanorm.models.vision_transformer:VisionTransformer",
    DeepLinearConfig: "adanorm.models.deep_linear:DeepLinear",
    SentenceEncoderConfig: "adanorm.models.sentence_encoder:SentenceEncoder",
    FairseqTransformerConfig: "adanorm.models.fairseq_transformer:build",
    TransformerXlConfig: "adanorm.models.transformer_xl:TransformerXl",
    RecurrentConfig: "adanorm.models.recurrent:Recurrent",
    TransitionParserConfig: "adanorm.models.transition_parser:TransitionParser",
}

if TYPE_CHECKING:
    AnyModel: TypeAlias = ModelConfig
    AnyData: TypeAlias = DataConfig
else:  # one of the sections, by its `name` or `reader`
    AnyModel = Annotated[reduce(or_, MODELS), Field(discriminator="name")]
    _read = dict.fromkeys(data for model in MODELS for data in model.data_sections())
    AnyData = Annotated[reduce(or_, _read), Field(discriminator="reader")]
