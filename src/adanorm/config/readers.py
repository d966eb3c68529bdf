"""What reads a setting: a setting that the chosen task, model and norm do not read is a mistake."""

from collections.abc import Callable, Mapping
from typing import Any

from adanorm.config.data_sections import FULL_SIZE, SPLITS, ParallelConfig, TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import RecurrentConfig, ResidualConfig
from adanorm.config.paths import choices

NUMERICS = (  # norms that have released numerics too
    "layernorm", "layernorm-simple", "detachnorm", "detach-mean", "detach-var", "adanorm", "gradnorm",
    "grad-only", "grad-mean", "grad-variance", "grad-scale",
)  # fmt: skip
# The values of parameters that the YAML of a norm of the suite leaves out or sets to null.
DEFAULTS = {
    "eps": 1e-5, "gain": True, "bias": True, "zero_centered": False, "phi_gradient": False, "learn_C": False,
    "over": "rows", "positions": 256,
}  # fmt: skip
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


def _is_outside(run: Experiment) -> bool:
    return run.norm.path is not None or run.norm.name not in choices("norm")


def _has_own_trees(run: Experiment) -> bool:
    return isinstance(run.data, TreebankConfig) and bool(run.data.path or run.data.train)


def _position(run: Experiment) -> str | None:
    return run.model.norm_position if isinstance(run.model, ResidualConfig) else None


# Settings (dotted keys or sections) that not every run reads, what reads them, and whether a run
# does.
READERS: tuple[tuple[str, str, Callable[[Experiment], bool]], ...] = (
    ("training.label_smoothing", "classification and translation",
     lambda run: run.task.kind in ("classification", "translation")),
    ("training.warmup_from", "training.schedule=inverse_sqrt with training.warmup_updates above 0",
     lambda run: run.training.schedule == "inverse_sqrt" and run.training.warmup_updates > 0),
    ("training.betas training.eps", "training.optimizer=adam",
     lambda run: run.training.optimizer is None),
    ("training.momentum", "training.optimizer=sgd; Adam's are its betas",
     lambda run: run.training.optimizer == "sgd"),
    ("decoding", "translation", lambda run: run.task.kind == "translation"),
    ("decoding.length_penalty", "decoding.length_penalties=null",
     lambda run: run.decoding is None or run.decoding.length_penalties is None),
    ("segments", "language models", lambda run: run.task.kind == "char_lm"),
    (" ".join(f"segments.{of}.{name}" for of in SPLITS for name in ("memory", "clamp", "same_length")),
     "models with attention; a recurrent one carries its state on",
     lambda run: run.model.carries != "state"),
    ("norm.numerics", f"norm={', '.join(NUMERICS)}",
     lambda run: _is_outside(run) or run.norm.name in NUMERICS),
    ("norm.placement", "every norm but plain layernorm, which all other sites have anyway",
     lambda run: run.norm.name != "layernorm" or bool(run.norm.params) or run.norm.numerics != "paper"),
    ("norm.params.positions", "norm.params.over=examples",
     lambda run: _is_outside(run) or run.norm.params.get("over") == "examples"),
    ("norm.params.zero_centered", "norm.params.gain=true",
     lambda run: _is_outside(run) or run.norm.params.get("gain") is not False),
    ("model.pre_norm", "model.norm_position=null", lambda run: _position(run) is None),
    ("model.post_layers", "model.norm_position=mix", lambda run: _position(run) == "mix"),
    ("model.dim model.hidden_dropout", "model.layers above 1, as the last is as wide as the embedding",
     lambda run: not isinstance(run.model, RecurrentConfig) or run.model.layers > 1),
    ("data.normalize data.tokenize data.lowercase data.clean data.longest data.ratio data.bpe_merges"
     " data.joined_dictionary data.dictionary_size data.train_pairs",
     "data.path=null: a data-bin is prepared already",
     lambda run: not isinstance(run.data, ParallelConfig) or run.data.path is None),
    ("data.valid_every", "sources without validation pairs of their own",
     lambda run: isinstance(run.data, ParallelConfig) and not (run.data.path or run.data.train)
     and run.data.source not in ("synthetic", FULL_SIZE)),
    ("data.conversion", "data.path and data.train, your own trees", _has_own_trees),
    ("data.fold", "data.source=ptb-sample", lambda run: run.data.source == "ptb-sample"),
    ("data.tags", "data.path and data.train, your own trees",
     lambda run: _has_own_trees(run) or run.data.source == "penn"),
)  # fmt: skip


def with_defaults(values: dict[str, Any], norm_file: Mapping[str, Any]) -> None:
    """Change values in place so that equal runs have equal values: what means null becomes null.

    `norm_file` is the YAML of a norm of the suite, {} for a norm from outside. A parameter of null
    becomes the value that this file gives it.
    """
    for key, value in NULLS.items():
        section, name = key.split(".")
        setting_value, model = setting(values, key), setting(values, "model.name")
        if (
            setting_value == value
            and setting_value is not False
            and model in OF_MODELS.get(key, (model,))
        ):
            values[section][name] = None
    if values["norm"].get("placement") == ["*"]:
        values["norm"]["placement"] = "all"
    params = values["norm"].get("params")
    for name, value in params.items() if norm_file and isinstance(params, dict) else ():
        file_value = (norm_file.get("params") or {}).get(name)
        default = DEFAULTS.get(name)
        is_default = value == default and isinstance(value, bool) == isinstance(default, bool)
        if value is None or (file_value is None and is_default):
            params[name] = file_value


def check_readers(
    run: Experiment, values: Mapping[str, Any], file_values: Mapping[str, Any]
) -> None:
    """Raise ValueError for a setting that the run does not read; its one line names what reads it.

    `values` are the run's settings. `file_values` are those of its task, norm, scale and preset
    files, which may set more than the run reads.
    """
    for settings, readers, is_read in READERS:
        for key in () if is_read(run) else settings.split():
            value = setting(values, key)
            if value is not None and value != setting(file_values, key):
                raise ValueError(f"{key}={value}: nothing reads it in this run; read by {readers}")


def setting(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None if there is none."""
    for name in key.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None  # type: ignore[assignment]
    return values
