"""What reads a setting: a setting that the chosen task, model and norm do not read is a mistake."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from adanorm.config.data_sections import FULL_SIZE, DataConfig, ParallelConfig, TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import RecurrentConfig, ResidualConfig

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


def _is_plain_layernorm(run: Experiment) -> bool:
    norm = run.norm
    return norm.name == "layernorm" and not norm.params and norm.numerics == "paper"


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
        lambda run: not _is_plain_layernorm(run),
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
