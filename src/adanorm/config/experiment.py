"""The settings of one run: typed, checked, identified by a digest, and what reads each of them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from pydantic import Field, model_validator

from adanorm.config import sections
from adanorm.config.data_sections import (
    FULL_SIZE,
    SPLITS,
    DataConfig,
    ParallelConfig,
    TreebankConfig,
)
from adanorm.config.model_sections import AnyData, AnyModel, RecurrentConfig, ResidualConfig
from adanorm.config.paths import DRY_RUNS, runs_folder
from adanorm.config.sections import Config, Positive, Seed
from adanorm.config.titles import KIND_METRICS, METRICS
from adanorm.config.values import around_seed, digest_of, digests_of, sha256

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
            for name in ("identity", "_around_seed", "data_digest"):
                computed.pop(name, None)
        elif "identity" in computed:
            computed["identity"] = {**computed["identity"], "seed": copy.seed}
        return copy

    def with_seeds(self, seeds: Sequence[int]) -> list[Self]:
        """Return a copy for each seed; what their identities share is computed once."""
        copies = []
        for seed, digest in zip(seeds, self.digests(seeds), strict=True):
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
        (digest,) = self.digests([self.seed])
        return digest

    def digests(self, seeds: Sequence[int]) -> list[str]:
        """Return the digest of the run with each of the seeds in place of its own."""
        return digests_of(self._around_seed, seeds)

    @cached_property
    def _around_seed(self) -> tuple[str, str]:
        return around_seed(self.identity)

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
        return _path(
            runs,
            self.task.name,
            self.norm.name,
            name,
        )


@cache
def _path(folder: Path, *names: str) -> Path:
    """Return the path of these names in a folder: equal runs share one, which is fast to compare."""
    return folder.joinpath(*names)


# Norms that have released numerics too.
NUMERICS = (
    *("layernorm", "layernorm-simple", "detachnorm", "detach-mean", "detach-var", "adanorm"),
    *("gradnorm", "grad-only", "grad-mean", "grad-variance", "grad-scale"),
)
# The values of parameters that the YAML of a norm of the suite leaves out or sets to null.
DEFAULTS = {
    "eps": 1e-5,
    "gain": True,
    "bias": True,
    "zero_centered": False,
    "phi_gradient": False,
    "learn_C": False,
    "over": "rows",
    "positions": 256,
}
# The value of a setting that means the same as null; where OF_MODELS has the setting, in these
# models only.
NULLS: dict[str, Any] = {
    "data.label_noise": 0,
    "training.label_smoothing": 0,
    "training.momentum": 0,
    "training.warmup_from": 0,
    "training.average": {"of": "best", "count": 1},
    "training.optimizer": "adam",
    "model.attention_dropout": 0,
    "model.word_dropout": 0,
    "model.norm_position": "pre",
}
OF_MODELS = {
    "model.attention_dropout": ("sentence_encoder",),
    "model.norm_position": ("mnist_cnn", "transition_parser"),
}


OWN_TREES = "data.path and data.train, your own trees"


def _has_own_trees(data: DataConfig) -> bool:
    return isinstance(data, TreebankConfig) and bool(data.path or data.train)


def _takes_validation_pairs(data: DataConfig) -> bool:
    """Return whether validation pairs are taken from the training pairs of a source."""
    if not isinstance(data, ParallelConfig) or data.path or data.train:
        return False
    return data.source not in ("synthetic", FULL_SIZE)


def _may_be_cut(data: ParallelConfig) -> bool:
    """Return whether the words of the user's own files may have been cut before."""
    is_own_text = bool(data.train) and data.bpe_merges is None
    return is_own_text or data.path is not None


def _position(run: Experiment) -> str | None:
    return run.model.norm_position if isinstance(run.model, ResidualConfig) else None


class Reading(NamedTuple):
    """Settings that not every run reads, what reads them, and whether a run does."""

    settings: str  # dotted keys or sections, with spaces between
    reader: str
    is_read: Callable[[Experiment], bool]


READINGS = (
    Reading(
        "training.label_smoothing",
        "classification and translation",
        lambda run: run.task.kind in ("classification", "translation"),
    ),
    Reading(
        "training.warmup_from",
        "training.schedule=inverse_sqrt with training.warmup_updates above 0",
        lambda run: run.training.schedule == "inverse_sqrt" and run.training.warmup_updates > 0,
    ),
    Reading(
        "training.betas training.eps",
        "training.optimizer=adam or muon",
        lambda run: run.training.optimizer != "sgd",
    ),
    Reading(
        "training.momentum",
        "training.optimizer=sgd or muon; Adam's are its betas",
        lambda run: run.training.optimizer is not None,
    ),
    Reading(
        "decoding",
        "translation",
        lambda run: run.task.kind == "translation",
    ),
    Reading(
        "decoding.length_penalty",
        "decoding.length_penalties=null",
        lambda run: run.decoding is None or run.decoding.length_penalties is None,
    ),
    Reading(
        "segments",
        "language models",
        lambda run: run.task.kind == "char_lm",
    ),
    Reading(
        "segments.train.memory segments.train.clamp segments.train.same_length"
        " segments.valid.memory segments.valid.clamp segments.valid.same_length"
        " segments.test.memory segments.test.clamp segments.test.same_length",
        "models with attention; a recurrent one carries its state on",
        lambda run: run.model.carries != "state",
    ),
    Reading(
        "norm.numerics",
        f"norm={', '.join(NUMERICS)}",
        lambda run: not run.norm.is_ours or run.norm.name in NUMERICS,
    ),
    Reading(
        "norm.placement",
        "every norm but plain layernorm, which all other sites have anyway",
        lambda run: (
            run.norm.name != "layernorm" or bool(run.norm.params) or run.norm.numerics != "paper"
        ),
    ),
    Reading(
        "norm.params.positions",
        "norm.params.over=examples",
        lambda run: not run.norm.is_ours or run.norm.params.get("over") == "examples",
    ),
    Reading(
        "norm.params.zero_centered",
        "norm.params.gain=true",
        lambda run: not run.norm.is_ours or run.norm.params.get("gain") is not False,
    ),
    Reading(
        "model.pre_norm",
        "model.norm_position=null",
        lambda run: _position(run) is None,
    ),
    Reading(
        "model.post_layers",
        "model.norm_position=mix",
        lambda run: _position(run) == "mix",
    ),
    Reading(
        "model.dim model.hidden_dropout",
        "model.layers above 1, as the last is as wide as the embedding",
        lambda run: not isinstance(run.model, RecurrentConfig) or run.model.layers > 1,
    ),
    Reading(
        "data.normalize data.tokenize data.lowercase data.clean data.longest data.ratio"
        " data.bpe_merges data.joined_dictionary data.dictionary_size data.train_pairs",
        "data.path=null: a data-bin is prepared already",
        lambda run: not isinstance(run.data, ParallelConfig) or run.data.path is None,
    ),
    Reading(
        "data.subwords",
        "a data-bin, and your own text with data.bpe_merges=null",
        lambda run: not isinstance(run.data, ParallelConfig) or _may_be_cut(run.data),
    ),
    Reading(
        "data.valid_every",
        "sources without validation pairs of their own",
        lambda run: _takes_validation_pairs(run.data),
    ),
    Reading(
        "data.conversion",
        OWN_TREES,
        lambda run: _has_own_trees(run.data),
    ),
    Reading(
        "data.fold",
        "data.source=ptb-sample",
        lambda run: run.data.source == "ptb-sample",
    ),
    Reading(
        "data.tags",
        OWN_TREES,
        lambda run: _has_own_trees(run.data) or run.data.source == "penn",
    ),
)


def with_defaults(values: dict[str, Any], norm_file: Mapping[str, Any]) -> None:
    """Change values in place so that equal runs have equal values: what means null becomes null.

    `norm_file` is the YAML of a norm of the suite, {} for a norm from outside. A parameter of null,
    or one that an override has deleted, becomes the value that this file gives it.
    """
    model = setting(values, "model.name")
    for key, null in NULLS.items():
        if key == "training.momentum" and setting(values, "training.optimizer") == "muon":
            continue  # null is 0.95 there
        value = setting(values, key)
        if value == null and value is not False and model in OF_MODELS.get(key, (model,)):
            section, name = key.split(".")
            values[section][name] = None
    globs = values["norm"].get("placement")
    if isinstance(globs, list) and all(isinstance(glob, str) for glob in globs):
        values["norm"]["placement"] = "all" if "*" in globs else sorted({*globs})
    params = values["norm"].get("params")
    if not norm_file or not isinstance(params, dict):
        return
    file_params = norm_file.get("params") or {}
    for name in file_params.keys() - params.keys():
        params[name] = None
    for name, value in params.items():
        file_value = file_params.get(name)
        if value is None or (file_value is None and _is_default(name, value)):
            params[name] = file_value


def _is_default(name: str, value: Any) -> bool:
    """Return whether a parameter has its default, where true is not 1."""
    default = DEFAULTS.get(name)
    is_same_kind = isinstance(value, bool) == isinstance(default, bool)
    return value == default and is_same_kind


def check_readers(
    run: Experiment, values: Mapping[str, Any], file_values: Mapping[str, Any]
) -> None:
    """Raise ValueError for a setting that the run does not read; its one line names what reads it.

    `values` are the run's settings. `file_values` are those of its task, norm, scale and preset
    files, which may set more than the run reads.
    """
    for reading in READINGS:
        if reading.is_read(run):
            continue
        for key in reading.settings.split():
            value = setting(values, key)
            if value is not None and value != setting(file_values, key):
                raise ValueError(
                    f"{key}={value}: nothing reads it in this run; read by {reading.reader}"
                )


def setting(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None if there is none."""
    value: Any = values
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
