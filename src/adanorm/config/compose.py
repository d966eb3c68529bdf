"""From a command line's overrides to an experiment, and from any mistake in them to one line."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import deepcopy
from functools import cache
from string import Template
from typing import Any

from adanorm.config.data_sections import FULL_SIZE
from adanorm.config.errors import is_of_hydra, one_line
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import GROUPS, parsed, plain_value, prepare_overrides
from adanorm.config.paths import CONF, choices
from adanorm.config.readers import check_readers, setting, with_defaults
from adanorm.config.yaml_file import dotted, read_yaml_file

Values = dict[str, Any]
UNTUNED = "task=gaussian"  # no norm has settings of its own on this task: norms as they come
MOST_UPDATES = 2  # of a dry run, in every task
MOST_VALID = 256  # images that a dry run validates on
LONGEST = 20  # subwords of a dry run's translation: an untrained model never ends one
IN_SECTIONS = ("norm", "logger")  # groups whose files are a section; those of others say which


def compose_experiment(overrides: Sequence[str]) -> Experiment:
    """Return the experiment of overrides in Hydra's syntax; ValueError, in one line, for any mistake."""
    prepared = prepare_overrides(overrides)
    chosen = _chosen(prepared)
    try:
        return parse_experiment(compose_values(prepared), _of_choices(chosen))
    except ValueError as error:
        preset = chosen.get("preset", "none")
        is_of_preset = str(error).partition("=")[0] in {key for key, _ in dotted(_file(f"preset/{preset}"))}
        suited = [task for task in choices("task") if _suits(preset, task)] if is_of_preset else []
        if not suited or chosen.get("task") in suited:
            raise
        line = f"preset={preset}: choose a task that it suits: {', '.join(suited)} ({error})"
        raise ValueError(line) from None


def _suits(preset: str, task: str) -> bool:
    """Return whether a task has the settings that a preset changes."""
    with suppress(ValueError):
        return bool(parse_experiment(_of_choices({"preset": preset, "task": task})))
    return False


def cached_experiment(overrides: Sequence[str], *, runs: str | None = None) -> Experiment:
    """Return compose_experiment(overrides) with its records in `runs`, composed once a process."""
    experiment = _once((*overrides,))
    return experiment if runs is None else experiment.model_copy(update={"runs": runs})


_once, _read_once = cache(compose_experiment), cache(read_yaml_file)


@cache
def papers_sources(task: str) -> frozenset[str]:
    """Return the sources of data behind the paper's numbers for a task: the task's own and its presets'."""
    own = cached_experiment([f"task={task}", "scale=paper"]).data.source
    presets = (read_yaml_file(CONF / "preset" / f"{name}.yaml") for name in choices("preset"))
    return frozenset((own, *(preset.get("data", {}).get("source", own) for preset in presets)))


def compose_values(overrides: Sequence[str]) -> Values:
    """Return the configuration of these overrides, not yet checked; raises ValueError as above.

    Choices and plain settings are put together here, as conf/run.yaml's defaults list says: Hydra takes a
    tenth of a second. All else, such as a reference to another setting and every mistake, is left to it.
    """
    prepared = prepare_overrides(overrides)  # which are left as they are where they are prepared already
    with suppress(LookupError):
        return _with_settings(prepared)
    return _composed_by_hydra(prepared)


def _chosen(overrides: Sequence[str]) -> dict[str, str]:
    """Return the choices among overrides by group, `[]` for none; the last of a group counts."""
    pairs = [override.partition("=") for override in overrides]
    return {group: name for group, _, name in pairs if group in GROUPS and name in ("[]", *choices(group))}


def _with_settings(overrides: Sequence[str]) -> Values:
    """Return the configuration of choices and settings; LookupError where one is something else."""
    values = _of_choices(_chosen(overrides))
    for override in (one for one in overrides if not _chosen([one])):
        key, value = override.partition("=")[0], plain_value(override)
        section, (*within, last) = values, key.lstrip("+").split(".")
        for name in within:
            if not isinstance(section := section[name], dict):
                raise LookupError(key)
        if isinstance(section.get(last), dict) or (last not in section and not key.startswith("++")):
            raise LookupError(key)
        section[last] = deepcopy(value)  # plain_value keeps its own
    return values


def _of_choices(chosen: Mapping[str, str]) -> Values:
    """Return the configuration of the chosen files, put together as conf/run.yaml's defaults list says."""
    run = _read_once(CONF / "run.yaml")
    values = {key: value for key, value in run.items() if key not in ("defaults", "hydra")}
    names: dict[str, str] = {}
    defaults = [entry for entry in run["defaults"] if entry != "_self_" and "hydra" not in str(entry)]
    for ((entry, name),) in map(dict.items, defaults):
        _, optional, group = entry.rpartition("optional ")
        names[group] = chosen.get(group) or Template(name).substitute(names)
        if names[group] in choices(group) or not (optional or names[group] == "[]"):
            values = _merged(values, _file(f"{group}/{names[group]}"))
    for group, key in (("task", "task.name"), ("norm", "norm.name"), ("scale", "scale")):
        if (name := setting(values, key)) not in (None, names[group]):  # that of the file it was copied from
            raise ValueError(f"conf/{group}/{names[group]}.yaml: its name is {name!r}, not the file's")
    task, scale = names["task"], names["scale"]
    known = [one for one in choices("scale") if one == "paper" or f"{task}_{one}" in choices("task_scale")]
    if names["task_scale"] != "[]" and scale not in known:  # it would be the paper's under another name
        raise ValueError(f"scale={scale}: {task} has no such scale: choose from {', '.join(known)}")
    return values


@cache
def _file(name: str) -> Values:
    """Return what a file and those that it builds on say of the whole configuration."""
    own = read_yaml_file(CONF / f"{name}.yaml")
    folder, values = name.rpartition("/")[0], Values()
    for part in own.pop("defaults", ["_self_"]):
        values = _merged(values, own if part == "_self_" else _file(f"{folder}/{part}"))
    return {folder: values} if folder in IN_SECTIONS else values


def _merged(values: Values, others: Values) -> Values:
    """Return new values with others on top, section by section."""
    merged = {key: _merged(value, {}) if isinstance(value, dict) else value for key, value in values.items()}
    for key, value in others.items():
        within = merged[key] if isinstance(merged.get(key), dict) else {}
        merged[key] = _merged(within, value) if isinstance(value, dict) else value
    return merged


def _composed_by_hydra(overrides: Sequence[str]) -> Values:
    """Return the configuration as Hydra composes it; raises ValueError, in one line, where it does not."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    for override in overrides:
        parsed(override)
    inside = GlobalHydra.instance().is_initialized()  # a Hydra job, whose settings stay as they are
    try:
        with nullcontext() if inside else initialize_config_dir(str(CONF), version_base="1.3"):
            values: Any = OmegaConf.to_container(compose("run", [*overrides]), resolve=True)
    except Exception as error:
        if not is_of_hydra(error):
            raise
        files = _of_choices(_chosen(overrides))
        line = one_line(error, [*files, *(key for key, _ in dotted(files))])
        unknown = line.split("'")[1] if line.startswith("unknown key") else ""
        keys = {task: dotted(_file(f"task/{task}")) for task in choices("task")}
        others = [
            task for task, of in keys.items() if any(f"{key}.".startswith(f"{unknown}.") for key, _ in of)
        ]
        raise ValueError(f"{line}; it is a key of task={', '.join(others)}" if others else line) from None
    return dict(values)


def parse_experiment(values: Values, chosen: Values | None = None) -> Experiment:
    """Return the experiment that a composed configuration describes; changes `values`.

    Raises ValueError naming the key and what it takes; for a setting that nothing reads too, where it
    differs from what the `chosen` files say.
    """
    for section in ("norm", "task"):
        if not isinstance(values.get(section), dict):
            raise ValueError(f"{section}={values.get(section)!r}: choose with {section}=NAME")
        values[section].pop("title", None)  # tables call it so; it does not identify a run
    norm = values["norm"]
    if isinstance(path := norm.get("path"), str) and path:
        norm["name"] = path.rpartition(":")[2] or "unnamed"  # which the path is refused for
    is_ours = not path and norm.get("name") in choices("norm")
    with_defaults(values, _file(f"norm/{norm['name']}")["norm"] if is_ours else {})
    given = deepcopy(values)
    if values["updates"] is not None:
        as_dry_run(values)
    run = Experiment.checked(values)
    if chosen is not None:
        check_readers(run, given, chosen)
    return run


def as_dry_run(values: Values) -> None:
    """Change values in place into a dry run's, few updates on made-up data; the model's sizes stay."""
    updates, data, training = values["updates"], values["data"], values["training"]
    if isinstance(updates, int) and updates > MOST_UPDATES:
        raise ValueError(f"updates={updates}: a dry run has at most {MOST_UPDATES}")
    reader = data["reader"]
    if reader == "parallel":
        data["dictionary_size"] = data["dictionary_size"] or data["bpe_merges"]
        data |= {"bpe_merges": None, "valid_every": None, "clean": "words", "longest": 175, "ratio": 100}
        data |= dict.fromkeys(("tokenize", "normalize", "lowercase"), False)
        values["decoding"] |= {"max_ratio": 0.0, "max_extra": LONGEST}
    if reader in ("parallel", "text", "bytes", "trees"):
        data["source"] = FULL_SIZE
    elif reader != "gaussian":
        data["source"] = "synthetic"  # of images, which have their full size
        data["valid_size"] = min(data["valid_size"], MOST_VALID)
    # Of accumulated batches, more than two cost time and find nothing more.
    training |= {"max_updates": updates, "evaluate_every": None, "accumulate": min(training["accumulate"], 2)}
