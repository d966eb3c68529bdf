"""The sections of a configuration: the types and ranges of every setting.

The YAML under conf/ holds the values and their sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Param = bool | int | float | str
Positive = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A part of the configuration: immutable, no unknown keys, no infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Task(Section):
    """What is solved, and the validation metric that picks the best weights."""

    name: str
    kind: Literal["classification", "translation", "char_lm"]
    metric: str
    goal: Literal["max", "min"]
    selected_by: str | None = None  # validation metric that `goal` is of; null: `metric`

    @property
    def criterion(self) -> str:
        """The validation metric that picks the best weights."""
        return self.selected_by or self.metric


class Norm(Section):
    """Which norm, with which parameters, at which sites, in whose numerics."""

    name: str
    path: str | None
    params: dict[str, Param]
    placement: str | list[str]
    numerics: Literal["paper", "released"]

    @model_validator(mode="after")
    def _placement_is_known(self) -> Norm:
        if isinstance(self.placement, str) and self.placement not in ("all", "final"):
            raise ValueError(
                f"placement {self.placement!r}: choose all, final or a list of globs over the sites"
            )
        return self


class DataSection(Section):
    """Where data come from: `cache` and `mirror` are places, no part of a run's identity."""

    source: str
    cache: str | None
    mirror: str | None

    def own_files(self) -> dict[str, Path]:
        """Return the user's own files by role; empty where the catalogue's source is used."""
        raise NotImplementedError


class Images(DataSection):
    """Grey images of 28 x 28 pixels with labels, in IDX files."""

    reader: Literal["images"]
    path: str | None
    valid_size: Positive
    batch_size: Positive
    mean: float
    std: Annotated[float, Field(gt=0)]

    def own_files(self) -> dict[str, Path]:
        """Return the four IDX files under `path`, with or without `.gz`.

        Raises ValueError where one is missing.
        """
        if self.path is None:
            return {}
        return {name: _idx_file(Path(self.path), name) for name in IDX_NAMES}


IDX_NAMES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def _idx_file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    raise ValueError(f"data.path={folder}: holds neither {name}.gz nor {name}")


class Text(DataSection):
    """Labelled sentences."""

    reader: Literal["text"]
    train: str | None
    valid: str | None
    test: str | None
    train_fraction: Annotated[float, Field(gt=0, le=1)]
    batch_tokens: Positive
    lowercase: bool
    min_count: Positive

    def own_files(self) -> dict[str, Path]:
        """Return the user's three files by split.

        Raises ValueError where only some are given or one does not exist.
        """
        given = {split: getattr(self, split) for split in ("train", "valid", "test")}
        named = {split: Path(path) for split, path in given.items() if path is not None}
        if named and len(named) < 3:
            missing = ", ".join(f"data.{split}" for split in given if split not in named)
            raise ValueError(f"own text needs data.train, data.valid and data.test: {missing} is not set")
        for split, path in named.items():
            if not path.is_file():
                raise ValueError(f"data.{split}={path}: no such file")
        return named


class Parallel(DataSection):
    """Pairs of sentences that translate each other, and how they become subwords."""

    reader: Literal["parallel"]
    languages: tuple[str, str]
    path: str | None
    train: str | None
    valid: str | None
    test: str | None
    train_pairs: Positive | None
    valid_every: Annotated[int, Field(gt=1)] | None
    normalize: bool
    tokenize: bool
    lowercase: bool
    clean: Literal["words", "subwords"]
    longest: Positive
    ratio: Annotated[float, Field(ge=1)]
    bpe_merges: Positive | None
    joined_dictionary: bool
    dictionary_size: Positive | None
    batch_tokens: Positive

    def own_files(self) -> dict[str, Path]:
        """Return the user's own files by role: six texts, or those of a fairseq data-bin.

        Raises ValueError where only some are given or one does not exist.
        """
        given = {split: getattr(self, split) for split in ("train", "valid", "test")}
        if self.path is not None:
            if any(given.values()):
                raise ValueError("data.path (a data-bin) and data.train exclude each other")
            return data_bin_files(Path(self.path), self.languages)
        if not any(given.values()):
            return {}
        if missing := ", ".join(f"data.{split}" for split, prefix in given.items() if not prefix):
            raise ValueError(f"own text needs data.train, data.valid and data.test: {missing} is not set")
        return {
            f"{split}.{language}": _text_file(split, prefix, language)
            for split, prefix in given.items()
            for language in self.languages
        }


def _text_file(split: str, prefix: str, language: str) -> Path:
    for path in (Path(f"{prefix}.{language}"), Path(f"{prefix}.{language}.gz")):
        if path.is_file():
            return path
    raise ValueError(f"data.{split}={prefix}: there is no {prefix}.{language}, nor with .gz")


def data_bin_files(folder: Path, languages: tuple[str, str]) -> dict[str, Path]:
    """Return the files of a fairseq data-bin by name.

    Raises ValueError where one is missing.
    """
    first, second = languages
    pair = next(
        (p for p in (f"{first}-{second}", f"{second}-{first}") if any(folder.glob(f"train.{p}.*"))), None
    )
    if pair is None:
        raise ValueError(f"data.path={folder}: holds no train.{first}-{second}.{first}.bin")
    names = [f"dict.{language}.txt" for language in languages]
    for split in ("train", "valid", "test"):
        names += [f"{split}.{pair}.{language}.{end}" for language in languages for end in ("bin", "idx")]
    for name in names:
        if not (folder / name).is_file():
            raise ValueError(f"data.path={folder}: holds no {name}")
    return {name: folder / name for name in names}


class ByteText(DataSection):
    """One text of bytes, cut into training, validation and test parts."""

    reader: Literal["bytes"]
    path: str | None
    fractions: tuple[Fraction, Fraction, Fraction]
    streams: Positive
    evaluation_streams: Positive

    @model_validator(mode="after")
    def _fractions_are_of_one(self) -> ByteText:
        if abs(sum(self.fractions) - 1) > 1e-9 or 0 in self.fractions:
            raise ValueError(f"fractions {list(self.fractions)}: three parts above 0 that add up to 1")
        return self

    def own_files(self) -> dict[str, Path]:
        """Return the user's own text; raises ValueError where it does not exist."""
        if self.path is None:
            return {}
        if not Path(self.path).is_file():
            raise ValueError(f"data.path={self.path}: no such file")
        return {"text": Path(self.path)}


class MnistCnn(Section):
    """Settings of models.mnist_cnn."""

    name: Literal["mnist_cnn"]
    channels: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    kernel_size: Annotated[int, Field(ge=1, le=9)]
    norm_axes: Literal["all", "channels"]


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

    @model_validator(mode="after")
    def _dim_is_even(self) -> TransformerXl:
        if self.dim % 2:
            raise ValueError(f"dim {self.dim}: must be even, for sines and cosines")
        return self


class Segment(Section):
    """How a text is read: positions a segment, positions remembered, the largest distance told."""

    length: Positive
    memory: Positive
    clamp: Positive | None = None
    same_length: bool = False

    @model_validator(mode="after")
    def _memory_is_no_shorter(self) -> Segment:
        if self.memory < self.length:
            raise ValueError(f"memory {self.memory}: must be no shorter than length {self.length}")
        return self


class Segments(Section):
    """The reading of a text in training, in validation and in the test."""

    train: Segment
    valid: Segment
    test: Segment


class Decoding(Section):
    """Beam search; a translation has at most `max_ratio` x source length + `max_extra` subwords."""

    beam: Positive
    length_penalty: float
    max_ratio: Annotated[float, Field(ge=0)]
    max_extra: Positive
    batch_tokens: Positive


class Average(Section):
    """Weights averaged over evaluations before the test: the last ones or the best by validation."""

    of: Literal["last", "best"]
    count: Positive


class Training(Section):
    """Optimization, evaluation and the rule of divergence."""

    lr: Annotated[float, Field(gt=0)]
    betas: tuple[Fraction, Fraction]
    eps: Annotated[float, Field(gt=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    warmup_updates: Annotated[int, Field(ge=0)]
    clip_norm: Annotated[float, Field(gt=0)] | None
    accumulate: Positive
    max_epochs: Positive | None
    max_updates: Positive | None
    evaluate_every: Positive | None
    diverge_after: Positive
    schedule: Literal["inverse_sqrt", "cosine"] | None = None  # null: constant after the warm-up
    warmup_from: Annotated[float, Field(ge=0)] | None = None  # null: zero
    label_smoothing: Fraction | None = None
    average: Average | None = None

    @model_validator(mode="after")
    def _has_an_end(self) -> Training:
        if self.max_epochs is None and self.max_updates is None:
            raise ValueError("one of max_epochs and max_updates must be set")
        if self.schedule == "cosine" and self.max_updates is None:
            raise ValueError("schedule cosine falls to zero at max_updates, which is not set")
        return self


class Logger(Section):
    """Where metrics go beside the run folder."""

    name: Literal["files", "tensorboard", "wandb"]
    project: str = "adanorm"
    mode: Literal["offline", "online"] = "offline"


class Cost(Section):
    """About how long a run takes: it decides what scale=auto means."""

    cpu_hours: float
    cuda_hours: float
