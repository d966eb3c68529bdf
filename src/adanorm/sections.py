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
    kind: Literal["classification"]
    metric: str
    goal: Literal["max", "min"]


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

    @model_validator(mode="after")
    def _has_an_end(self) -> Training:
        if self.max_epochs is None and self.max_updates is None:
            raise ValueError("one of max_epochs and max_updates must be set")
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
