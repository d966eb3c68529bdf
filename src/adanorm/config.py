"""What one run is: its composed configuration, checked, typed and identified by a digest.

The YAML under conf/ holds every value and its source; these classes hold the types and ranges.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

PROJECT = Path(__file__).resolve().parents[2]
CONF = PROJECT / "conf"

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


class Experiment(Section):
    """One run."""

    task: Task
    norm: Norm
    scale: Literal["paper", "mini", "smoke"]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    data: Annotated[Images | Text, Field(discriminator="reader")]
    model: Annotated[MnistCnn | SentenceEncoder, Field(discriminator="name")]
    training: Training
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["fp32", "bf16"]
    threads: Positive
    checkpoint_minutes: Annotated[float, Field(gt=0)]
    runs: str | None
    logger: Logger
    cost: Cost

    @model_validator(mode="after")
    def _model_reads_the_data(self) -> Experiment:
        reads = {"mnist_cnn": "images", "sentence_encoder": "text"}[self.model.name]
        if self.data.reader != reads:
            raise ValueError(f"model.name={self.model.name} reads {reads}, not {self.data.reader}")
        return self

    def identity(self) -> dict[str, Any]:
        """Return what makes this run the run it is, as plain values.

        Device and places are left out, and so is every null: a setting added later, null by
        default, leaves the digests of older runs as they are. The user's own files count by
        content. Raises ValueError where such a file is missing.
        """
        places = {"device", "threads", "checkpoint_minutes", "runs", "logger", "cost"}
        identity: dict[str, Any] = self.model_dump(mode="json", exclude=places, exclude_none=True)
        own = self.data.own_files()
        for key in ("cache", "mirror", "path", *own):
            identity["data"].pop(key, None)
        if own:
            identity["data"]["source"] = "own"
            identity["data"]["files"] = {role: sha256(path) for role, path in own.items()}
        return identity

    @property
    def own_data(self) -> bool:
        """Whether the user's own files replace the task's data."""
        return bool(self.data.own_files())

    def digest(self) -> str:
        """Return eight hexadecimal digits that identify the run.

        Numbers written alike in YAML count alike: 1 and 1.0 are one value.
        """
        text = json.dumps(_canonical(self.identity()), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def folder(self) -> Path:
        """Return the run's folder; it need not exist."""
        runs = Path(self.runs) if self.runs else PROJECT / "results" / "runs"
        name = f"{self.scale}-seed{self.seed}-{self.digest()}"
        return runs / self.task.name / self.norm.name / name


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse(config: DictConfig) -> Experiment:
    """Return the experiment that a composed configuration describes.

    Raises ValueError naming the key and what it takes.
    """
    values: Any = OmegaConf.to_container(config, resolve=True)
    if values["norm"]["path"]:
        values["norm"]["name"] = values["norm"]["path"].rpartition(":")[2]
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """Return the first of pydantic's complaints as one line that names the key and its value."""
    problem = error.errors()[0]
    tags = {"images", "text", "mnist_cnn", "sentence_encoder"}  # which class of a union was tried
    key = ".".join(str(part) for part in problem["loc"] if part not in tags)
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return f"{key}: {message}" if key else message
    return f"{key}={problem['input']!r}: {message[0].lower()}{message[1:]}"


def mirror_of(data: DataSection) -> str | None:
    """Return the mirror to try first: `data.mirror`, ADANORM_MIRROR, or ../shared/data if it exists."""
    beside = PROJECT.parent / "shared" / "data"
    return data.mirror or os.environ.get("ADANORM_MIRROR") or (str(beside) if beside.is_dir() else None)


def cache_of(data: DataSection) -> Path:
    """Return the folder that downloads land in."""
    return Path(data.cache) if data.cache else PROJECT / "data"


def choices(group: str) -> list[str]:
    """Return the names that a configuration group offers, such as the tasks, sorted."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))
