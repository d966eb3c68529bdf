"""The sections of a configuration that say what model a run trains, one class a model."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from adanorm.config.data_sections import (
    ByteTextConfig,
    ColorImagesConfig,
    DataConfig,
    GaussianConfig,
    ImagesConfig,
    ParallelConfig,
    TextConfig,
    TreebankConfig,
)
from adanorm.config.residual_sections import AttentionNormsConfig, ResidualConfig
from adanorm.config.sections import Config, Fraction, Positive

AROUND_ACTIVATION = ("pre", "post", "sandwich")


def _pre_is_null(position: Any) -> Any:
    """Say `pre` as null does: in front of an activation is where the paper has the norm."""
    if position not in (None, *AROUND_ACTIVATION):
        raise ValueError(f"choose {', '.join(AROUND_ACTIVATION)}")
    return None if position == "pre" else position


AroundActivation = Annotated[Literal["post", "sandwich"] | None, BeforeValidator(_pre_is_null)]


class Sites(NamedTuple):
    """What a model's norm sites offer a norm; the defaults are those of most models."""

    positions: bool = True  # an example has several positions, each a row; else it is one row
    positions_with: str | None = None  # the setting under which it has, where it has not
    padding_known: bool = True  # a site says which positions are padding, or has none
    causal: bool = False  # no position may know of those behind it
    after_layers: bool = True  # some site has a layer of its own before it


class ModelConfig(Config):
    """Settings of a model, and what the data and the norms must be that it takes."""

    reads: ClassVar[type[DataConfig] | tuple[type[DataConfig], ...]]
    carries: ClassVar[Literal["positions", "state"] | None] = None  # from segment to segment of a text
    norm_sites: ClassVar[Sites] = Sites()

    name: str

    @classmethod
    def data_sections(cls) -> tuple[type[DataConfig], ...]:
        """Return the sections of data that it reads."""
        return cls.reads if isinstance(cls.reads, tuple) else (cls.reads,)

    def misfit(self, data: DataConfig) -> str | None:
        """Return why data of a section that it reads do not suit these settings, None where they do."""
        return None

    def sites(self) -> Sites:
        """Return what the norm sites offer under these settings."""
        return self.norm_sites


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
        if self.dim % self.heads:
            raise ValueError(f"dim {self.dim}: must be a multiple of heads ({self.heads})")
        if self.image_size % self.patch_size:
            raise ValueError(f"patch_size {self.patch_size}: must divide image_size ({self.image_size})")
        return self

    def misfit(self, data: DataConfig) -> str | None:
        """Return that the images are of another size."""
        assert isinstance(data, self.reads)
        if data.side == self.image_size:
            return None
        return f"model.image_size={self.image_size}: the images are of {data.side} x {data.side} pixels"


class DeepLinearConfig(ModelConfig):
    """Settings of models.deep_linear."""

    reads = GaussianConfig
    norm_sites = Sites(positions=False)

    name: Literal["deep_linear"]
    layers: Annotated[int, Field(ge=2)]
    dim: Positive
    init: Literal["xavier", "default"]


class SentenceEncoderConfig(AttentionNormsConfig, ModelConfig):
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
        if self.dim % self.heads or self.dim % 2:
            raise ValueError(f"dim {self.dim}: must be even and a multiple of heads ({self.heads})")
        return self


class FairseqTransformerConfig(ResidualConfig, ModelConfig):
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
        said = dict(settings)
        if (chosen := said.pop("qk_norm", None)) is not None:
            raise ValueError(
                f"qk_norm={chosen}: not offered here, as fairseq's attention shows no queries and keys;"
                " choose null, or task=rt, sst5 or enwik8"
            )
        return said

    @model_validator(mode="after")
    def _heads_divide_dim(self) -> FairseqTransformerConfig:
        if self.dim and self.heads and (self.dim % self.heads or self.dim % 2):
            raise ValueError(f"dim {self.dim}: must be even and a multiple of heads ({self.heads})")
        return self


class TransformerXlConfig(AttentionNormsConfig, ModelConfig):
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
        if self.dim % 2:
            raise ValueError(f"dim {self.dim}: must be even, for sines and cosines")
        return self


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
