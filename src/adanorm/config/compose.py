"""Composes an experiment from overrides `key=value`; a mistake becomes an error of one line.

There are two composers: Hydra's is the grammar and the flags, and it composes what is more than a
choice or a plain value, in a tenth of a second. Ours is the merge of the chosen files, which takes
less than a millisecond, because one table composes a thousand runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from functools import cache
from string import Template
from typing import Any

from adanorm.config.data_sections import FULL_SIZE
from adanorm.config.errors import is_of_hydra, one_line, unknown_key
from adanorm.config.experiment import Experiment, check_readers, setting, with_defaults
from adanorm.config.overrides import GROUPS, parse_override, plain_value, prepare_overrides
from adanorm.config.paths import CONF, choices
from adanorm.config.values import dotted, read_conf

Values = dict[str, Any]
Choices = tuple[tuple[str, str], ...]  # (group, name of a file), sorted; the name [] is of no file
UNTUNED = "task=gaussian"  # on this task no norm has settings of its own: each keeps its defaults
MOST_UPDATES = 2  # the most updates of a dry run
MOST_VALID = 256  # the most images that a dry run validates on
LONGEST = 20  # the most subwords of a dry run's translation: an untrained model never ends one
# A file in these groups is one section; other files name their sections.
IN_SECTIONS = ("norm", "logger")


def compose_experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment of overrides in Hydra's syntax.

    Raises ValueError, in one line, for a mistake.
    """
    prepared = prepare_overrides(overrides)
    chosen = _chosen_files(prepared)
    try:
        return parse_experiment(_composed(prepared), _from_files(chosen))
    except ValueError as error:
        preset, task = dict(chosen).get("preset", "none"), dict(chosen).get("task")
        key = str(error).partition("=")[0]
        if key not in dict(dotted(_values_in(f"preset/{preset}"))):
            raise
        scale = preset_scale(preset) or "paper"
        suitable = [name for name in choices("task") if suits(preset, name, scale)]
        if task in suitable or not suitable:
            raise
        message = f"preset={preset}: choose a task that it suits: {', '.join(suitable)} ({error})"
        raise ValueError(message) from None


@cache
def suits(preset: str, task: str, scale: str = "paper") -> bool:
    """Return whether a task has, at a scale, the settings that a preset changes."""
    chosen = (("preset", preset), ("scale", scale), ("task", task))
    with suppress(ValueError):
        parse_experiment(_copied(_from_files(chosen)))
        return True
    return False


def cached_experiment(overrides: Sequence[str], *, runs: str | None = None) -> Experiment:
    """Return compose_experiment(overrides), composed once, with its records in `runs`."""
    experiment = _composed_once(tuple(overrides))
    return experiment if runs is None else experiment.model_copy(update={"runs": runs})


_composed_once = cache(compose_experiment)


def compose_values(overrides: Sequence[str]) -> Values:
    """Return the configuration of overrides, not yet checked; a mistake raises ValueError."""
    return _composed(prepare_overrides(overrides))


def _composed(prepared: Sequence[str]) -> Values:
    """Return the configuration of overrides: from the files if all are plain, else Hydra's."""
    with suppress(LookupError):
        return _composed_here(prepared)
    return _composed_by_hydra(prepared)


def _chosen_files(prepared: Sequence[str]) -> Choices:
    """Return the file chosen in each group that overrides name; the last one of a group counts."""
    return tuple(sorted(dict(filter(None, map(_choice, prepared))).items()))


@cache
def _choice(override: str) -> tuple[str, str] | None:
    """Return the group and the file that an override chooses, None for an override of a setting."""
    group, _, name = override.partition("=")
    is_choice = group in GROUPS and (name == "[]" or name in choices(group))
    return (group, name) if is_choice else None


def _composed_here(prepared: Sequence[str]) -> Values:
    """Return the configuration of choices and plain settings.

    Raises LookupError for any other override.
    """
    values = _copied(_from_files(_chosen_files(prepared)))
    for override in prepared:
        if _choice(override) is None:
            _set(
                values,
                override.partition("=")[0],
                plain_value(override),
            )
    return values


def _set(values: Values, key: str, value: Any) -> None:
    """Set a dotted key in place.

    Raises LookupError for a section, or a new key that has no `++` in front.
    """
    *parents, last = key.lstrip("+").split(".")
    section = values
    for name in parents:
        section = section[name]
        if not isinstance(section, dict):
            raise LookupError(key)
    is_new = last not in section
    if isinstance(section.get(last), dict) or (is_new and not key.startswith("++")):
        raise LookupError(key)
    section[last] = deepcopy(value)  # plain_value caches its values


@cache
def _from_files(chosen: Choices) -> Values:
    """Return the configuration of the chosen files; do not change it.

    The files are merged in the order of the defaults list in conf/run.yaml. Raises ValueError for
    a file with another file's name, and for a scale that the task does not have.
    """
    run = read_conf("run")
    values = {key: value for key, value in run.items() if key not in ("defaults", "hydra")}
    names: dict[str, str] = {}
    for entry, default in _defaults(run):
        group = entry.removeprefix("optional ")
        names[group] = dict(chosen).get(group) or Template(default).substitute(names)
        is_there = names[group] in choices(group)
        if is_there or (group == entry and names[group] != "[]"):
            values = _merged(values, _values_in(f"{group}/{names[group]}"))
    scale = preset_scale(names["preset"])
    if scale not in (None, names["scale"]):
        raise ValueError(f"preset={names['preset']}: has the data of scale={scale} alone")
    for group, key in (("task", "task.name"), ("norm", "norm.name"), ("scale", "scale")):
        name = setting(values, key)
        if name not in (None, names[group]):  # a copied file names its original
            file = f"conf/{group}/{names[group]}.yaml"
            raise ValueError(f"{file}: its name is {name!r}, not the file's")
    task, chosen_scale = names["task"], names["scale"]
    if names["task_scale"] != "[]" and chosen_scale not in scales_of(task):
        # It would be scale=paper under another name.
        known = ", ".join(scales_of(task))
        raise ValueError(f"scale={chosen_scale}: {task} has no such scale: choose from {known}")
    return values


def preset_scale(preset: str) -> str | None:
    """Return the only scale that a preset is for, or None."""
    if preset not in choices("preset"):
        return None
    scale: str | None = read_conf(f"preset/{preset}").get("scale")
    return scale


def _defaults(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (group, name) of conf/run.yaml's defaults list, `optional` in front of some groups."""
    for entry in run["defaults"]:
        if entry != "_self_" and "hydra" not in str(entry):
            yield from entry.items()


def scales_of(task: str) -> list[str]:
    """Return the names of the scales that a task has."""
    sizes = choices("task_scale")
    return [name for name in choices("scale") if name == "paper" or f"{task}_{name}" in sizes]


@cache
def _values_in(name: str) -> Values:
    """Return what a file sets of the configuration, with its defaults list; do not change it."""
    file_values = {**read_conf(name)}
    folder = name.rpartition("/")[0]
    values: Values = {}
    for part in file_values.pop("defaults", ["_self_"]):
        part_values = file_values if part == "_self_" else _values_in(f"{folder}/{part}")
        values = _merged(values, part_values)
    return {folder: values} if folder in IN_SECTIONS else values


def _merged(values: Values, changes: Values) -> Values:
    """Return `values` in which `changes` override them; unchanged sections are shared."""
    merged = values.copy()
    for key, value in changes.items():
        if isinstance(value, dict):
            section = merged.get(key)
            merged[key] = _merged(section if isinstance(section, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _copied(values: Values) -> Values:
    """Return a copy of a section and of the sections within it; lists are shared."""
    copy = values.copy()
    for key, value in values.items():
        if isinstance(value, dict):
            copy[key] = _copied(value)
    return copy


def _composed_by_hydra(overrides: Sequence[str]) -> Values:
    """Return the configuration as Hydra composes it; ValueError, in one line, if Hydra refuses."""
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
        files = _from_files(_chosen_files(overrides))
        line = one_line(error, [*files, *dict(dotted(files))])
        tasks = _tasks_with(unknown_key(error))
        hint = f"; it is a key of task={', '.join(tasks)}" if tasks else ""
        raise ValueError(f"{line}{hint}") from None
    return dict(values)


def _tasks_with(key: str | None) -> list[str]:
    """Return the tasks whose files have a dotted key or section."""
    tasks = []
    for task in choices("task"):
        keys = [f"{name}." for name, _ in dotted(_values_in(f"task/{task}"))]
        if key is not None and any(name.startswith(f"{key}.") for name in keys):
            tasks.append(task)
    return tasks


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
    path = norm.get("path")
    if path and isinstance(path, str):
        # A path that ends in a colon is refused later.
        norm["name"] = path.rpartition(":")[2] or "unnamed"
    is_ours = not path and norm.get("name") in choices("norm")
    with_defaults(values, read_conf(f"norm/{norm['name']}") if is_ours else {})
    settings = dotted(values)
    for key, value in settings:
        # An unset variable leaves an empty text behind `key=`.
        if isinstance(value, str) and not value.strip() and not key.startswith("logger."):
            raise ValueError(f"{key}=: is empty: give a value, or null")
    is_dry = values["updates"] is not None
    run = Experiment.checked(_dry_run(values) if is_dry else values)
    _check_single_precision(settings)
    if file_values is not None:
        check_readers(run, values, file_values)
    return run


def _check_single_precision(settings: Sequence[tuple[str, Any]]) -> None:
    """Raise ValueError for a number that is 0 or infinite in single precision, as runs compute."""
    for key, value in settings:
        for number in value if isinstance(value, list) else [value]:
            is_number = type(number) in (int, float)
            if is_number and number and not 1.2e-38 < abs(number) < 3.4e38:
                raise ValueError(f"{key}={number}: is 0 or infinite in single precision")


def _dry_run(values: Values) -> Values:
    """Return the values of a dry run: few updates on made-up data; the model's sizes stay."""
    values = _copied(values)
    updates, data, training = values["updates"], values["data"], values["training"]
    if isinstance(updates, int) and updates > MOST_UPDATES:
        raise ValueError(f"updates={updates}: a dry run has at most {MOST_UPDATES}")
    reader = data["reader"]
    if reader == "parallel":
        data["dictionary_size"] = data["dictionary_size"] or data["bpe_merges"]
        data |= {"bpe_merges": None, "valid_every": None}
        data |= {"clean": "words", "longest": 175, "ratio": 100}
        data |= {"tokenize": False, "normalize": False, "lowercase": False}
        values["decoding"] |= {"max_ratio": 0.0, "max_extra": LONGEST}
    if reader in ("parallel", "text", "bytes", "trees"):
        data["source"] = FULL_SIZE
    elif reader != "gaussian":
        data["source"] = "synthetic"  # synthetic images have their full size
        data["valid_size"] = min(data["valid_size"], MOST_VALID)
    training["max_updates"] = updates
    training["evaluate_every"] = None
    # Accumulating more than two batches costs time and shows nothing new.
    training["accumulate"] = min(training["accumulate"], 2)
    return values
