"""Settings of the model that a run trains, one class per model."""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from adanorm.config import data_sections
from adanorm.config.data_sections import DataConfig
from adanorm.config.placements import POSITIONS, Heads, Placement, placements, quarter
from adanorm.config.sections import Config, Fraction, Layers, Positive, Width

if TYPE_CHECKING:
    from adanorm.norms import Norm


class Sites(NamedTuple):
    """What a model's norm sites offer a norm; the defaults hold for most models."""

    positions: bool = True  # an example has one row per position; False: it is one row
    positions_with: str | None = None  # the setting that makes `positions` true, if there is one
    padding_known: bool = True  # the sites say which positions are padding, or have no padding
    causal: bool = False  # no position may see later ones
    after_layers: bool = True  # some site follows a layer of its own

    def why_unsupported(self, norm: "Norm", batch_size: int | None = None) -> str | None:
        """Return why a norm, by its declarations, is not defined at these sites, or None if it is.

        `batch_size` is the number of examples in a training batch, or None if it is not fixed.
        """
        over_batch, over_positions = norm.depends_on_batch, norm.depends_on_positions
        hint = f"; choose {self.positions_with}" if self.positions_with else ""
        if not self.padding_known and (over_batch or over_positions):
            return "its sites do not say which positions are padding"
        if self.causal and over_positions:
            return (
                "over positions, a norm tells a language model of the bytes that it is to predict"
            )
        if norm.needs_positions and not self.positions:
            of_batch = "a position's, and the sites show it one row per example or per time step"
            problem = of_batch if over_batch else "over positions, and the sites show it none"
            return f"its statistics are {problem}{hint}"
        if over_batch and not self.positions and batch_size == 1:
            return f"a batch of one example has no statistics{hint}"
        if norm.lives_in_layer and not self.after_layers:
            return "no site has a layer of its own before it"
        return None


WIDTHS = ("dim", "ffn_dim", "embedding_dim", "hidden")
MOST_WEIGHTS = 10**10  # 40 GB


class ModelConfig(Config):
    """Settings of a model, with what it requires of its data and its norms."""

    reads: ClassVar[tuple[type[DataConfig], ...]]  # the data sections that suit
    carries: ClassVar[Literal["positions", "state"] | None] = (
        None  # what passes on to a text's next segment
    )
    norm_sites: ClassVar[Sites] = Sites()

    name: str

    @model_validator(mode="after")
    def _weights_are_not_too_many(self) -> Self:
        sizes = self.__dict__
        layers = sizes.get("layers") or 1
        widest = max([sizes.get(name) or 1 for name in WIDTHS])
        if layers * widest**2 > MOST_WEIGHTS:
            raise ValueError(
                f"layers {layers:,} of width {widest:,}: such models have over"
                f" {MOST_WEIGHTS:,} weights"
            )
        return self

    def sites(self) -> Sites:
        """Return what the norm sites offer under these settings."""
        return self.norm_sites


class TransformerConfig(ModelConfig):
    """Sizes and dropout of a Transformer."""

    heads_divide_dim: ClassVar[bool] = True

    layers: Layers
    dim: Width
    heads: Width
    ffn_dim: Width
    dropout: Fraction

    @model_validator(mode="after")
    def _width_fits(self) -> Self:
        if self.heads_divide_dim and self.dim and self.heads and self.dim % self.heads:
            raise ValueError(f"dim {self.dim}: must be a multiple of heads ({self.heads})")
        if self.dim and self.dim % 2:
            raise ValueError(f"dim {self.dim}: must be even, for sines and cosines")
        return self


class ResidualConfig(TransformerConfig):
    """Settings of a Transformer whose norms have a position; `positions` are the choices."""

    positions: ClassVar[tuple[str, ...]] = tuple(POSITIONS)

    pre_norm: bool
    norm_position: str | None = None  # null: as pre_norm says
    post_layers: Positive | None = None  # for mix; null: a quarter of the layers, at least one

    @model_validator(mode="before")
    @classmethod
    def _one_run_has_one_identity(cls, settings: Any) -> Any:
        """Write defaults as null: equal runs have one identity.

        Raises ValueError for an unknown position.
        """
        position = settings.get("norm_position") if isinstance(settings, dict) else None
        if position is None:
            return settings
        if position not in cls.positions:
            raise ValueError(f"norm_position={position!r}: choose {', '.join(cls.positions)}")
        values = dict(settings)
        if position in ("pre", "post"):
            values |= {"norm_position": None, "pre_norm": position == "pre"}
        layers = values.get("layers")
        default = quarter(layers) if isinstance(layers, int) else None
        if position == "mix" and values.get("post_layers") == default:
            values["post_layers"] = None
        if POSITIONS[position].in_heads and values.get("qk_norm") == "head":
            values["qk_norm"] = None
        return values

    @model_validator(mode="after")
    def _post_layers_leave_some(self) -> Self:
        if self.layers is not None:
            placements(
                self.position,
                self.layers,
                post_layers=self.post_layers,
            )
        return self

    @property
    def position(self) -> str:
        """The name of the position."""
        return self.norm_position or ("pre" if self.pre_norm else "post")


class AttentionNormsConfig(ResidualConfig):
    """Settings of a model whose attention can normalize queries and keys."""

    qk_norm: Heads | None = None  # queries and keys normalized over each head, or over all heads

    def stack(self) -> list[Placement]:
        """Return the placement of each layer."""
        return placements(
            self.position, self.layers, post_layers=self.post_layers, qk_norm=self.qk_norm
        )


class SentenceEncoderConfig(AttentionNormsConfig):
    """Settings of models.sentence_encoder."""

    reads = (data_sections.TextConfig,)

    name: Literal["sentence_encoder"]
    pooling: Literal["mean", "max", "first"]
    attention_dropout: Fraction | None = None
    word_dropout: Fraction | None = None  # share of the words of a training batch made unknown
    init: Literal["xavier"] | None = (
        None  # null: PyTorch's for linear layers, N(0, 1/d) for embeddings
    )


class FairseqTransformerConfig(ResidualConfig):
    """Settings of models.fairseq_transformer; a size of null is the architecture's own."""

    reads = (data_sections.ParallelConfig,)
    norm_sites = Sites(padding_known=False, after_layers=False)
    positions = ("pre", "post", "mix", "deepnorm")  # those that fairseq's layers offer

    name: Literal["fairseq_transformer"]
    architecture: Literal[
        "transformer_iwslt_de_en", "transformer_wmt_en_de", "transformer_wmt_en_de_big_t2t"
    ]
    layers: Layers | None  # type: ignore[assignment]
    dim: Width | None  # type: ignore[assignment]
    ffn_dim: Width | None  # type: ignore[assignment]
    heads: Width | None  # type: ignore[assignment]
    init: Literal["km", "xavier", "released"]
    share_embeddings: Literal["all", "decoder", "none"]
    attention_dropout: Fraction
    activation_dropout: Fraction

    @model_validator(mode="before")
    @classmethod
    def _has_no_norms_in_heads(cls, settings: Any) -> Any:
        """Drop qk_norm=null, which other Transformers have.

        Raises ValueError for any other qk_norm.
        """
        values = dict(settings)
        qk_norm = values.pop("qk_norm", None)
        if qk_norm is not None:
            why = "fairseq's attention shows no queries and keys"
            raise ValueError(
                f"qk_norm={qk_norm}: not offered here, as {why};"
                " choose null, or task=rt, sst5 or enwik8"
            )
        return values


class TransformerXlConfig(AttentionNormsConfig):
    """Settings of models.transformer_xl."""

    reads = (data_sections.ByteTextConfig,)
    carries = "positions"
    norm_sites = Sites(causal=True)
    heads_divide_dim = False

    name: Literal["transformer_xl"]
    head_dim: Width


# Null puts the norm in front of the activation, as the paper does.
AroundActivation = Literal["pre", "post", "sandwich"] | None


class ImageModelConfig(ModelConfig):
    """Settings of an image model; its norms are over the channels or over all units of a layer."""

    norm_axes: Literal["all", "channels"]

    def sites(self) -> Sites:
        """Return the norm sites; they have positions unless the norms are over all units."""
        return Sites(positions=self.norm_axes != "all", positions_with="model.norm_axes=channels")


class MnistCnnConfig(ImageModelConfig):
    """Settings of models.convolutional.MnistCnn."""

    reads = (data_sections.ImagesConfig,)

    name: Literal["mnist_cnn"]
    norm_axes: Literal["all", "channels", "width"]  # type: ignore[assignment]
    channels: Annotated[list[Width], Field(min_length=2, max_length=2)]
    kernel_size: Annotated[int, Field(ge=1, le=9)]
    hidden: Width | None = (
        None  # units of a hidden layer with a norm before its ReLU; null: no such layer
    )
    norm_position: AroundActivation = None


class VggConfig(ImageModelConfig):
    """Settings of models.convolutional.Vgg."""

    reads = (data_sections.ColorImagesConfig,)

    name: Literal["vgg"]
    blocks: Annotated[list[Annotated[list[Width], Field(min_length=1)]], Field(min_length=1)]


class DeepLinearConfig(ModelConfig):
    """Settings of models.feed_forward.DeepLinear."""

    reads = (data_sections.GaussianConfig,)
    norm_sites = Sites(positions=False)

    name: Literal["deep_linear"]
    layers: Annotated[Layers, Field(ge=2)]
    dim: Width
    init: Literal["xavier", "default"]


class RecurrentConfig(ModelConfig):
    """Settings of models.recurrent."""

    reads = (data_sections.ByteTextConfig,)
    carries = "state"
    norm_sites = Sites(
        positions=False,
        causal=True,
        after_layers=False,
    )  # one time step at a time

    name: Literal["recurrent"]
    cell: Literal["lstm", "gru", "rnn"]
    layers: Layers
    dim: Width
    embedding_dim: Width
    embedding_bound: Annotated[float, Field(gt=0)]
    input_dropout: Fraction
    hidden_dropout: Fraction
    output_dropout: Fraction
    weight_dropout: Fraction


class TransitionParserConfig(ModelConfig):
    """Settings of models.feed_forward.TransitionParser."""

    reads = (data_sections.TreebankConfig,)
    norm_sites = Sites(positions=False)

    name: Literal["transition_parser"]
    embedding_dim: Width
    embedding_sd: Annotated[float, Field(gt=0)]
    layers: Layers
    dim: Width
    activation: Literal["relu", "tanh", "cube"]
    dropout: Fraction
    norm_position: AroundActivation = None


# The builder of each section's model; it is called with (make_norm, settings, **sizes).
MODELS: dict[type[ModelConfig], str] = {
    MnistCnnConfig: "adanorm.models.convolutional:MnistCnn",
    VggConfig: "adanorm.models.convolutional:Vgg",
    DeepLinearConfig: "adanorm.models.feed_forward:DeepLinear",
    SentenceEncoderConfig: "adanorm.models.sentence_encoder:SentenceEncoder",
    FairseqTransformerConfig: "adanorm.models.fairseq_transformer:build",
    TransformerXlConfig: "adanorm.models.transformer_xl:TransformerXl",
    RecurrentConfig: "adanorm.models.recurrent:Recurrent",
    TransitionParserConfig: "adanorm.models.feed_forward:TransitionParser",
}

if TYPE_CHECKING:
    AnyModel: TypeAlias = ModelConfig
    AnyData: TypeAlias = DataConfig
else:  # the section is found by its `name` or `reader`
    AnyModel = Annotated[reduce(or_, MODELS), Field(discriminator="name")]
    _data_sections = dict.fromkeys(data for model in MODELS for data in model.reads)
    AnyData = Annotated[reduce(or_, _data_sections), Field(discriminator="reader")]
