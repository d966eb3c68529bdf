"""The configuration of one run: composed, checked, typed, and identified by a digest."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from adanorm.config import sections
from adanorm.config.data_sections import SPLITS
from adanorm.config.digests import digest_of, digests_of
from adanorm.config.model_sections import AnyData, AnyModel
from adanorm.config.paths import DRY_RUNS, runs_folder
from adanorm.config.sections import Config, Positive, Seed
from adanorm.config.titles import KIND_METRICS, METRICS
from adanorm.config.yaml_file import dotted
from adanorm.files import sha256

# Settings that do not identify a run: it is the same run with other values of them.
LEFT_OUT = (
    "device", "graphs", "threads", "checkpoint_minutes", "track_test", "runs", "logger", "cost",
)  # fmt: skip


# Settings of the data that do not identify the data set.
BATCHING = ("batch_size", "batch_tokens", "streams", "evaluation_streams", "label_noise")


def _check_target(task: sections.TaskConfig) -> None:
    """Raise ValueError, naming choices, if a kind lacks the metric, the selection or its goal."""
    kind, metric, chosen = task.kind, task.metric, task.selection_metric
    if kind not in KIND_METRICS:
        raise ValueError(f"task.kind={kind}: choose from {', '.join(KIND_METRICS)}")
    test, valid = KIND_METRICS[kind].test, KIND_METRICS[kind].valid
    if metric not in test:
        raise ValueError(f"task.metric={metric}: the test of {kind} yields {', '.join(test)}")
    if chosen not in valid:
        setting = task.selected_by or f"null (so {metric})"
        raise ValueError(
            f"task.selected_by={setting}: the validation of {kind} yields {', '.join(valid)}"
        )
    expected = "max" if METRICS[chosen].higher_is_better else "min"
    if task.goal != expected:
        raise ValueError(f"task.goal={task.goal}: the goal of {chosen} is {expected}")


class Experiment(Config):
    """The settings of one run."""

    task: sections.TaskConfig
    norm: sections.NormConfig
    scale: sections.Scale
    seed: Seed
    updates: Positive | None = None  # of a dry run; null: a whole run
    data: AnyData
    model: AnyModel
    decoding: sections.DecodingConfig | None = None
    segments: sections.SplitSegmentsConfig | None = None
    training: sections.TrainingConfig
    device: Literal["auto", "cpu", "cuda"]
    precision: sections.Precision
    compile: Literal["layers"] | None = None
    graphs: bool = True
    threads: Annotated[int, Field(gt=0, le=1024)]
    checkpoint_minutes: Annotated[float, Field(gt=0)]
    track_test: bool = True
    runs: str | None
    logger: sections.LoggerConfig
    cost: sections.CostConfig

    @model_validator(mode="before")
    @classmethod
    def _no_value_is_empty(cls, values: Any) -> Any:
        """Refuse an empty text, which an unset variable leaves behind `key=`."""
        for key, value in dotted(values):
            if isinstance(value, str) and not value.strip() and not key.startswith("logger."):
                raise ValueError(f"{key}=: is empty: give a value, or null")
        return values

    @model_validator(mode="after")
    def _sections_go_together(self) -> Self:
        task, data, model = self.task, self.data, self.model
        _check_target(task)
        if not isinstance(data, model.reads):
            readers = [get_args(kind.model_fields["reader"].annotation)[0] for kind in model.reads]
            names = " or ".join(readers)
            raise ValueError(f"model.name={model.name} reads {names}, not {data.reader}")
        if data.kind != task.kind:
            raise ValueError(f"task.kind={task.kind}: data.reader={data.reader} is for {data.kind}")
        for split, segments in self.segments or ():
            if model.carries == "positions" and segments.memory is None:
                raise ValueError(
                    f"segments.{split}.memory: must be set, the number of positions remembered"
                )
        return self

    @property
    def has_gpu_hours(self) -> bool:
        """Whether the hours on a GPU are known in this run's precision."""
        return self.precision == "fp32" or self._measured_hours is not None

    @property
    def gpu_hours(self) -> float:
        """About how many hours this run takes on a GPU; in fp32 where its precision has no figure."""
        return self._measured_hours or self.cost.cuda_hours

    @property
    def _measured_hours(self) -> float | None:
        """Hours in a precision other than fp32, which have been measured at the paper's size."""
        return self.cost.cuda_hours_in.get(self.precision) if self.scale == "paper" else None

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The settings that identify this run, as plain values; do not change them.

        Device, the norms' backend and the places of files are left out. So is every null: a setting
        added later keeps older digests. The user's files and code count by content; ValueError if
        one is missing.
        """
        places = {"cache", "mirror", "mirrors", "path", "vectors"}
        if self.own_data:
            places |= {*SPLITS}
        excluded: dict[str, Any] = dict.fromkeys(LEFT_OUT, True)
        excluded |= {"norm": {"backend"}, "data": places}
        identity: dict[str, Any] = self.model_dump(
            mode="json",
            exclude=excluded,
            exclude_none=True,
        )
        if self.own_data:
            identity["data"]["source"] = "own"
        if self.data.draws_parts:
            identity["data"]["parts"] = "drawn"  # once the first ones
        files = self.data.local_files()
        if files:
            identity["data"]["files"] = {role: sha256(*paths) for role, paths in files.items()}
        code = self.norm.code
        if code:
            digests = {name: hashlib.sha256(content).hexdigest() for name, content in code.items()}
            identity["norm"]["code"] = digests
        return identity

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with the values of `update`, and with an identity of its own."""
        changed = update or {}
        copy = super().model_copy(update=changed, deep=deep)
        computed = copy.__dict__
        for name in ("digest", "_folder"):
            computed.pop(name, None)
        if not changed.keys() <= {"seed", *LEFT_OUT}:
            computed.pop("identity", None)
            computed.pop("data_digest", None)
        elif "identity" in computed:
            computed["identity"] = {**computed["identity"], "seed": copy.seed}
        return copy

    def with_seeds(self, seeds: Sequence[int]) -> list[Self]:
        """Return a copy for each seed; what their identities share is computed once."""
        copies = []
        digests = digests_of(self.identity, seeds)
        for seed, digest in zip(seeds, digests, strict=True):
            copy = self.model_copy(update={"seed": seed})
            copy.__dict__["digest"] = digest
            copies.append(copy)
        return copies

    @property
    def own_data(self) -> bool:
        """Whether the user's own files replace the task's data."""
        return bool(self.data.own_files())

    @cached_property
    def digest(self) -> str:
        """Eight hexadecimal digits that identify the run."""
        return digest_of(self.identity)

    @cached_property
    def data_digest(self) -> str:
        """Eight hexadecimal digits that identify the data set, whatever its batches."""
        data = self.identity["data"]
        return digest_of({key: value for key, value in data.items() if key not in BATCHING})

    def folder(self) -> Path:
        """Return the run's folder; it need not exist."""
        return self._folder

    @cached_property
    def _folder(self) -> Path:
        is_dry = self.updates is not None
        runs = DRY_RUNS if is_dry and not self.runs else runs_folder(self.runs)
        name = f"{self.scale}-seed{self.seed}-{self.digest}"
        if is_dry:
            name = f"dry-{name}"  # no table reads such folders
        return runs.joinpath(
            self.task.name,
            self.norm.name,
            name,
        )
