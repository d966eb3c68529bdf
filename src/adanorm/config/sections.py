"""Types and ranges of the settings; the YAML under conf/ holds the values and their sources."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import ValidationError

from adanorm.config.errors import NUMBER, first_problem
from adanorm.config.outside_norms import find_outside, outside_code
from adanorm.config.paths import choices
from adanorm.config.values import UNGROUPED

if TYPE_CHECKING:
    from adanorm.norms import NormChoice

Param = bool | int | float | str
Positive = Annotated[int, Field(gt=0, lt=2**31)]
# Far above what any machine trains; more would take all memory before a run could say so.
Layers = Annotated[int, Field(gt=0, le=1000)]
Width = Annotated[int, Field(gt=0, le=2**16)]
Size = Annotated[int, Field(gt=0, le=10**7)]
Name = Annotated[str, Field(pattern=r"^\w[\w.+-]*$")]  # it becomes a folder's name
Fraction = Annotated[float, Field(ge=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
LONGEST_CPU_HOURS = 8.0  # a longer run needs a GPU
Scale = Literal["paper", "open", "small", "mini", "smoke"]
Precision = Literal["fp32", "tf32", "bf16"]
PRECISIONS = get_args(Precision)


def each_once(entries: list[Any]) -> list[Any]:
    """Return the list unchanged.

    Raises ValueError for an entry named twice, which would count double.
    """
    for entry in entries:
        if entries.count(entry) > 1:
            raise ValueError(f"{entry!r} is named twice")
    return entries


# The last seed of the first plan, of the plans after it (conf/claims/paper.yaml), of the tries of
# studies, and of the tries of trials (conf/trial.yaml).
SERIES = (40, 100, 200, 999_999)


def seed_series(seed: int) -> int:
    """Return the series of a seed.

    0: first plan, 1: later plans, 2: choosing settings, 3: tries of trials, 4: trials. Series are
    never mixed: seeds that chose a setting are no evidence for it, and what one plan decided is not
    decided again with the seeds of another.
    """
    return bisect_left(SERIES, seed)


def one_series(seeds: list[int]) -> list[int]:
    """Return the seeds unchanged; raises ValueError if they are of several series."""
    first_seeds: dict[int, int] = {}
    for seed in seeds:
        first_seeds.setdefault(seed_series(seed), seed)
    if len(first_seeds) > 1:
        starts = [1, *(last + 1 for last in SERIES)]
        known = ", ".join(f"{start} to {last}" for start, last in zip(starts, SERIES, strict=False))
        known += f", and from {starts[-1]} on"
        named = ", ".join(map(str, first_seeds.values()))
        raise ValueError(f"seeds {named}: of several series; take those of one: {known}")
    return seeds


EachOnce = AfterValidator(each_once)
Seeds = Annotated[list[Seed], Field(min_length=1), EachOnce, AfterValidator(one_series)]


class Config(BaseModel):
    """A part of the configuration: immutable, no unknown keys, no infinities."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
    )

    @classmethod
    def checked(cls, values: Any, name: str = "") -> Self:
        """Return the section with these values.

        Raises ValueError, `name` in front, if they are invalid.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ValueError(f"{name}{first_problem(error)}") from None

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_those_of_yaml(cls, settings: Any) -> Any:
        """Refuse what Pydantic takes for a number, and YAML 1.2 does not: true, '1_0', ' 10'."""
        if not isinstance(settings, dict):
            return settings
        for name in _numbers(cls):
            value = settings.get(name)
            if value is None or type(value) in (int, float):
                continue  # soon, because a table composes a thousand runs
            for entry in _entries(value):
                if isinstance(entry, bool):
                    raise ValueError(f"{name}={str(entry).lower()}: must be a number")
                if not isinstance(entry, str) or NUMBER.fullmatch(entry):
                    continue
                if re.search(r"\d", entry):  # Pydantic has a message for words
                    hint = UNGROUPED if "_" in entry else "must be a number"
                    raise ValueError(f"{name}={entry!r}: {hint}")
        return settings


@cache
def _numbers(section: type[BaseModel]) -> frozenset[str]:
    """Return the names of a section's settings that take numbers, and not true or false."""
    names = set()
    for name, field in section.model_fields.items():
        types = _types(field.annotation)
        if bool not in types and (int in types or float in types):
            names.add(name)
    return frozenset(names)


def _entries(value: Any) -> Iterator[Any]:
    """Yield the values in a list or mapping at any depth; else the value itself."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if not isinstance(value, list | tuple):
        yield value
        return
    for entry in value:
        yield from _entries(entry)


def _types(annotation: Any) -> frozenset[Any]:
    return frozenset([annotation]).union(*map(_types, get_args(annotation)))


class TaskConfig(Config):
    """The task, and the validation metric that picks the best weights."""

    name: Name
    kind: str
    metric: str
    goal: Literal["max", "min"]
    selected_by: str | None = None  # validation metric that picks the weights; null: `metric`

    @property
    def selection_metric(self) -> str:
        """The validation metric that picks the best weights."""
        return self.selected_by or self.metric


def _without_nulls(params: Any) -> Any:
    """Return params without nulls: null means the norm's default and identifies no run."""
    if not isinstance(params, dict):
        return params
    return {key: value for key, value in params.items() if value is not None}


class NormConfig(Config):
    """The norm, its parameters, its sites, its numerics and the backend that computes it."""

    name: Name
    path: str | None
    params: Annotated[dict[str, Param], BeforeValidator(_without_nulls)]
    placement: str | list[str]
    numerics: Literal["paper", "released"]
    backend: Literal["auto", "eager", "fused"] = "auto"

    @property
    def is_ours(self) -> bool:
        """Whether the suite has the norm."""
        return self.path is None and self.name in choices("norm")

    @property
    def choice(self) -> "NormChoice":
        """What `norm_factory` makes the norm from.

        Raises ValueError if an outside norm is not there.
        """
        from adanorm.norms import NormChoice  # imports torch

        outside = None if self.is_ours else find_outside(self.name, self.path)
        return NormChoice(
            self.name,
            self.params,
            self.numerics,
            self.backend,
            outside,
        )

    @property
    def code(self) -> dict[str, bytes]:
        """An outside norm's source files by path, {} for the suite's norms.

        Raises ValueError if there are none.
        """
        return {} if self.is_ours else outside_code(self.name, self.path)

    @model_validator(mode="after")
    def _placement_is_known(self) -> Self:
        if not self.placement:
            raise ValueError(
                "placement []: names no site; with norm=layernorm every site keeps LayerNorm"
            )
        if isinstance(self.placement, str) and self.placement not in ("all", "final"):
            raise ValueError(
                f"placement {self.placement!r}: choose all, final or a list of globs over sites"
            )
        return self


class SegmentConfig(Config):
    """How a text is cut into segments; only models with attention have more than `length`."""

    length: Width  # positions per segment
    # Positions kept from before the segment, which attention sees too.
    memory: Size | None = None
    clamp: Positive | None = None  # the largest distance; greater ones count as this
    same_length: bool = False

    @model_validator(mode="after")
    def _memory_is_no_shorter(self) -> Self:
        if self.memory is not None and self.memory < self.length:
            raise ValueError(f"memory {self.memory}: must be no shorter than length {self.length}")
        return self


class SplitSegmentsConfig(Config):
    """The segments of a text in training, in validation and in the test."""

    train: SegmentConfig
    valid: SegmentConfig
    test: SegmentConfig


class DecodingConfig(Config):
    """Beam search; a translation has at most `max_ratio` x source length + `max_extra` subwords."""

    beam: Layers
    length_penalty: float
    # The test uses the first of those with the best validation BLEU; null: it uses length_penalty.
    length_penalties: Annotated[list[float], Field(min_length=1)] | None = None
    max_ratio: Annotated[float, Field(ge=0)]
    max_extra: Width
    batch_tokens: Size


class AverageConfig(Config):
    """Weights averaged over evaluations before the test: the last or the best ones."""

    of: Literal["last", "best"]
    count: Positive


class TrainingConfig(Config):
    """Optimization, evaluation and the rule of divergence."""

    lr: Annotated[float, Field(gt=0, le=1e30)]  # single precision's largest number: 3e38
    betas: tuple[Fraction, Fraction]
    # Single precision's smallest normal number is 1.2e-38.
    eps: Annotated[float, Field(ge=1e-37, le=1e30)]
    weight_decay: Annotated[float, Field(ge=0, le=1e6)]
    warmup_updates: Annotated[int, Field(ge=0, lt=2**31)]
    clip_norm: Annotated[float, Field(gt=0, le=1e30)] | None
    accumulate: Positive
    max_epochs: Positive | None
    max_updates: Positive | None
    evaluate_every: Positive | None
    diverge_after: Positive
    schedule: Literal["inverse_sqrt", "cosine"] | None = None  # null: constant after the warm-up
    warmup_from: Annotated[float, Field(ge=0)] | None = None  # null: zero
    label_smoothing: Fraction | None = None
    average: AverageConfig | None = None
    optimizer: Literal["adam", "sgd", "muon"] | None = None  # null: Adam
    momentum: Fraction | None = None  # null: zero with sgd, 0.95 with muon

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if self.max_epochs is None and self.max_updates is None:
            raise ValueError("one of max_epochs and max_updates must be set")
        if self.schedule == "cosine" and self.max_updates is None:
            raise ValueError("schedule cosine falls to zero at max_updates, which is not set")
        return self


class LoggerConfig(Config):
    """Where metrics go besides the run's folder."""

    name: Literal["files", "tensorboard", "wandb"]
    project: str = "adanorm"
    mode: Literal["offline", "online"] = "offline"
    group: str | None = None  # the study a run belongs to
    label: str | None = None  # the run's name in it


class CostConfig(Config):
    """About how many hours a run takes; scale=auto decides by them."""

    cpu_hours: float
    cuda_hours: float  # in fp32
    cuda_hours_in: dict[str, float] = {}  # in other precisions

    @property
    def needs_gpu(self) -> bool:
        """Whether the run takes too long without a GPU for scale=auto to choose it."""
        return self.cpu_hours > LONGEST_CPU_HOURS
