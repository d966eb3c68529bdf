"""In which settings an experiment differs from the paper's."""

from functools import cache
from typing import Any

from adanorm.config.compose import cached_experiment, preset_scale, suits
from adanorm.config.data_sections import SPLITS
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.config.yaml_file import dotted, read_conf

PAPERS_CONVERSION = "stanford-"  # of the Penn Treebank's trees; the version is not known


@cache
def papers_sources(task: str) -> frozenset[str]:
    """Return the sources of the data behind the paper's numbers: the task's and of presets."""
    source = cached_experiment([f"task={task}", "scale=paper"]).data.source
    sources = {source}
    for name in choices("preset"):
        if preset_scale(name) is None:
            sources.add(read_conf(f"preset/{name}").get("data", {}).get("source", source))
    return frozenset(sources)


def departures_from_paper(run: Experiment) -> str | None:
    """Return the settings in which a run differs from the paper's of the nearest preset.

    None if there is no difference: the run's score and the paper's number are comparable.
    """
    if run.norm.path is not None:
        return "a norm from outside"
    if run.own_data:
        return "own data"
    if run.scale != "paper":
        return f"{run.scale} scale"
    settings = _settings(run)
    by_preset = []
    for papers in _papers_settings(run.task.name, run.norm.name):
        keys = settings.keys() | papers.keys()
        by_preset.append(sorted(key for key in keys if settings.get(key) != papers.get(key)))
    nearest = min(by_preset, key=len)
    texts = [f"{key}={settings.get(key, 'null')}" for key in nearest[:3]]
    if len(nearest) > 3:
        texts.append("...")
    return ", ".join(texts) or None


@cache
def _papers_settings(task: str, norm: str) -> list[dict[str, Any]]:
    """Return a task's settings at scale paper by preset, of those that score as it does."""
    choice = [f"task={task}", f"norm={norm}", "scale=paper"]
    entries = [_settings(cached_experiment(choice))]
    for preset in choices("preset"):
        if preset != "none" and suits(preset, task):
            entries.append(_settings(cached_experiment([*choice, f"preset={preset}"])))
    scoring = entries[0].get("data.scoring")
    return [entry for entry in entries if entry.get("data.scoring") == scoring]


def _settings(run: Experiment) -> dict[str, Any]:
    """Return what identifies a run, by dotted key, without its seed and empty sections.

    The Penn Treebank cannot be downloaded: files that a user brings, as Stanford dependencies, are
    the paper's data.
    """
    settings = dict(dotted(run.identity))
    del settings["seed"]
    if str(settings.get("data.conversion")).startswith(PAPERS_CONVERSION):
        for key in ("data.conversion", *(f"data.files.{split}" for split in SPLITS)):
            settings.pop(key, None)
    return {key: value for key, value in settings.items() if value != {}}
