"""Composes an experiment from overrides `key=value`; a mistake in them becomes an error of one line."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from functools import cache
from string import Template
from typing import Any

from adanorm.config.data_sections import FULL_SIZE
from adanorm.config.errors import is_of_hydra, one_line
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import GROUPS, parse_override, plain_value, prepare_overrides
from adanorm.config.paths import CONF, choices
from adanorm.config.readers import check_readers, setting, with_defaults
from adanorm.config.yaml_file import dotted, read_yaml_file

Values = dict[str, Any]
UNTUNED = "task=gaussian"  # on this task no norm has settings of its own: each keeps its defaults
MOST_UPDATES = 2  # the most updates of a dry run
MOST_VALID = 256  # the most images that a dry run validates on
LONGEST = 20  # the most subwords of a dry run's translation: an untrained model never ends one
IN_SECTIONS = (
    "norm",
    "logger",
)  # a file in these groups is one section; other files name their sections


def compose_experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment of overrides in Hydra's syntax; a mistake raises ValueError, in one line."""
    prepared = prepare_overrides(overrides)
    names = _chosen_names(prepared)
    try:
        return parse_experiment(compose_values(prepared), _from_files(names))
    except ValueError as error:
        preset = names.get("preset", "none")
        in_preset = str(error).partition("=")[0] in dict(dotted(_values_in(f"preset/{preset}")))
        suitable = [task for task in choices("task") if _suits(preset, task)] if in_preset else []
        if not suitable or names.get("task") in suitable:
            raise
        message = f"preset={preset}: choose a task that it suits: {', '.join(suitable)} ({error})"
        raise ValueError(message) from None


def _suits(preset: str, task: str) -> bool:
    """Return whether a task has the settings that a preset changes."""
    with suppress(ValueError):
        return bool(parse_experiment(_from_files({"preset": preset, "task": task})))
    return False


def cached_experiment(overrides: Sequence[str], *, runs: str | None = None) -> Experiment:
    """Return compose_experiment(overrides), composed once per process, with its records in `runs`."""
    experiment = _once((*overrides,))
    return experiment if runs is None else experiment.model_copy(update={"runs": runs})


_once, _read_once = cache(compose_experiment), cache(read_yaml_file)


@cache
def papers_sources(task: str) -> frozenset[str]:
    """Return the data sources behind the paper's numbers for a task: the task's own and those of presets."""
    own = cached_experiment([f"task={task}", "scale=paper"]).data.source
    presets = (read_yaml_file(CONF / "preset" / f"{name}.yaml") for name in choices("preset"))
    return frozenset((own, *(preset.get("data", {}).get("source", own) for preset in presets)))


def compose_values(overrides: Sequence[str]) -> Values:
    """Return the configuration of overrides, not yet checked; a mistake raises ValueError, in one line.

    Choices and plain settings are merged here, in the order of conf/run.yaml's defaults list,
    because Hydra takes a tenth of a second. Hydra composes all else: references to other settings,
    and every mistake.
    """
    prepared = prepare_overrides(overrides)  # changes nothing if they are prepared already
    with suppress(LookupError):
        return _composed_here(prepared)
    return _composed_by_hydra(prepared)


def _chosen_names(overrides: Sequence[str]) -> dict[str, str]:
    """Return the name chosen in each group, `[]` for no file; the last override of a group counts."""
    pairs = [override.partition("=") for override in overrides]
    return {
        group: name
        for group, _, name in pairs
        if group in GROUPS and name in ("[]", *choices(group))
    }


def _composed_here(overrides: Sequence[str]) -> Values:
    """Return the configuration of choices and plain settings; raises LookupError for any other override."""
    values = _from_files(_chosen_names(overrides))
    for override in (one for one in overrides if not _chosen_names([one])):
        key, value = override.partition("=")[0], plain_value(override)
        section, (*parents, last) = values, key.lstrip("+").split(".")
        for name in parents:
            if not isinstance(section := section[name], dict):
                raise LookupError(key)
        if isinstance(section.get(last), dict) or (
            last not in section and not key.startswith("++")
        ):
            raise LookupError(key)
        section[last] = deepcopy(value)  # plain_value caches its values
    return values


def _from_files(selection: Mapping[str, str]) -> Values:
    """Return the configuration of the chosen files, merged in the order of conf/run.yaml's defaults list."""
    run = _read_once(CONF / "run.yaml")
    values = {key: value for key, value in run.items() if key not in ("defaults", "hydra")}
    names: dict[str, str] = {}
    defaults = [
        entry for entry in run["defaults"] if entry != "_self_" and "hydra" not in str(entry)
    ]
    for ((entry, name),) in map(dict.items, defaults):
        _, optional, group = entry.rpartition("optional ")
        names[group] = selection.get(group) or Template(name).substitute(names)
        if names[group] in choices(group) or not (optional or names[group] == "[]"):
            values = _merged(values, _values_in(f"{group}/{names[group]}"))
    for group, key in (("task", "task.name"), ("norm", "norm.name"), ("scale", "scale")):
        if (name := setting(values, key)) not in (
            None,
            names[group],
        ):  # a copied file names its original
            raise ValueError(
                f"conf/{group}/{names[group]}.yaml: its name is {name!r}, not the file's"
            )
    task, scale = names["task"], names["scale"]
    scales = [
        one
        for one in choices("scale")
        if one == "paper" or f"{task}_{one}" in choices("task_scale")
    ]
    if (
        names["task_scale"] != "[]" and scale not in scales
    ):  # it would be scale=paper under another name
        raise ValueError(
            f"scale={scale}: {task} has no such scale: choose from {', '.join(scales)}"
        )
    return values


@cache
def _values_in(name: str) -> Values:
    """Return the part of the configuration that a file sets, merged with the files in its defaults list."""
    own = read_yaml_file(CONF / f"{name}.yaml")
    folder, values = name.rpartition("/")[0], Values()
    for part in own.pop("defaults", ["_self_"]):
        values = _merged(values, own if part == "_self_" else _values_in(f"{folder}/{part}"))
    return {folder: values} if folder in IN_SECTIONS else values


def _merged(values: Values, others: Values) -> Values:
    """Return a copy of `values` in which `others` override them, section by section."""
    merged = {
        key: _merged(value, {}) if isinstance(value, dict) else value
        for key, value in values.items()
    }
    for key, value in others.items():
        section = merged[key] if isinstance(merged.get(key), dict) else {}
        merged[key] = _merged(section, value) if isinstance(value, dict) else value
    return merged


def _composed_by_hydra(overrides: Sequence[str]) -> Values:
    """Return the configuration as Hydra composes it; raises ValueError, in one line, if Hydra refuses."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    for override in overrides:
        parse_override(override)
    is_job = GlobalHydra.instance().is_initialized()  # this is a Hydra job: Hydra is set up already
    try:
        with nullcontext() if is_job else initialize_config_dir(str(CONF), version_base="1.3"):
            values: Any = OmegaConf.to_container(compose("run", [*overrides]), resolve=True)
    except Exception as error:
        if not is_of_hydra(error):
            raise
        files = _from_files(_chosen_names(overrides))
        line = one_line(error, [*files, *dict(dotted(files))])
        unknown = line.split("'")[1] + "." if line.startswith("unknown key") else "."
        keys = {task: dotted(_values_in(f"task/{task}")) for task in choices("task")}
        tasks = [
            task
            for task, own in keys.items()
            if any(f"{key}.".startswith(unknown) for key, _ in own)
        ]
        raise ValueError(
            f"{line}; it is a key of task={', '.join(tasks)}" if tasks else line
        ) from None
    return dict(values)


def parse_experiment(values: Values, file_values: Values | None = None) -> Experiment:
    """Return the experiment that a composed configuration describes; changes `values` in place.

    Raises ValueError naming the key and what it takes. With `file_values`, the settings of the
    chosen files, a setting that nothing reads is an error too, unless it is as in those files.
    """
    for section in ("norm", "task"):
        if not isinstance(values.get(section), dict):
            raise ValueError(f"{section}={values.get(section)!r}: choose with {section}=NAME")
        values[section].pop("title", None)  # for tables; it does not identify a run
    norm = values["norm"]
    if isinstance(path := norm.get("path"), str) and path:
        norm["name"] = (
            path.rpartition(":")[2] or "unnamed"
        )  # a path that ends in a colon is refused later
    is_ours = not path and norm.get("name") in choices("norm")
    with_defaults(values, _values_in(f"norm/{norm['name']}")["norm"] if is_ours else {})
    composed = deepcopy(values)
    if values["updates"] is not None:
        as_dry_run(values)
    run = Experiment.checked(values)
    if file_values is not None:
        check_readers(run, composed, file_values)
    return run


def as_dry_run(values: Values) -> None:
    """Change values in place to a dry run's: few updates on made-up data; the model's sizes stay."""
    updates, data, training = values["updates"], values["data"], values["training"]
    if isinstance(updates, int) and updates > MOST_UPDATES:
        raise ValueError(f"updates={updates}: a dry run has at most {MOST_UPDATES}")
    reader = data["reader"]
    if reader == "parallel":
        data["dictionary_size"] = data["dictionary_size"] or data["bpe_merges"]
        data |= {
            "bpe_merges": None,
            "valid_every": None,
            "clean": "words",
            "longest": 175,
            "ratio": 100,
        }
        data |= dict.fromkeys(("tokenize", "normalize", "lowercase"), False)
        values["decoding"] |= {"max_ratio": 0.0, "max_extra": LONGEST}
    if reader in ("parallel", "text", "bytes", "trees"):
        data["source"] = FULL_SIZE
    elif reader != "gaussian":
        data["source"] = "synthetic"  # synthetic images have their full size
        data["valid_size"] = min(data["valid_size"], MOST_VALID)
    # Accumulating more than two batches costs time and shows nothing new.
    training |= {
        "max_updates": updates,
        "evaluate_every": None,
        "accumulate": min(training["accumulate"], 2),
    }
