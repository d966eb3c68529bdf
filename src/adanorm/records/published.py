"""The paper's numbers, from results/published.csv, and in which settings a run differs from its."""

import csv
import math
from functools import cache
from typing import Any, NamedTuple

from adanorm.config.compose import cached_experiment, compose_values, preset_scale, suits
from adanorm.config.data_sections import SPLITS
from adanorm.config.experiment import Experiment
from adanorm.config.paths import SHIPPED, choices
from adanorm.config.values import dotted, read_conf

UNCONFIRMED = "†"  # behind a number that no public source confirms
PAPERS_CONVERSION = "stanford-"  # of the Penn Treebank's trees; the version is not known
READ_OFF = 0.0005  # the least error to expect of a value read off a drawn curve


class Published(NamedTuple):
    """One number of the paper; `value` is None where the paper says Diverge."""

    metric: str
    value: float | None
    text: str
    source: str
    confirmed: bool

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        decimals = len(self.text.partition(".")[2])
        return 0.5 * 10.0**-decimals


def _csv_rows(name: str) -> list[dict[str, str]]:
    path = SHIPPED / "results" / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def _numbers() -> dict[tuple[str, str], Published]:
    numbers = {}
    for row in _csv_rows("published.csv"):
        text = row["value"]
        value = None if text == "Diverge" else float(text)
        number = Published(
            row["metric"],
            value,
            text,
            row["source"],
            row["confirmed"] == "yes",
        )
        numbers[row["task"], row["norm"]] = number
    return numbers


def published(task: str, norm: str) -> Published | None:
    """Return the paper's number for a task and a norm, or None if there is none."""
    return _numbers().get((task, norm))


def published_tasks() -> list[str]:
    """Return the tasks of the paper in the order of its columns."""
    return list(dict.fromkeys(task for task, _ in _numbers()))


@cache
def published_curves(
    task: str,
) -> tuple[str, dict[tuple[str, str], list[tuple[float, float]]]] | None:
    """Return the x axis of the paper's curves of a task, and their points (x, y) by (norm, part).

    Or None.
    """
    name = f"published-curves/{task}.csv"
    if not (SHIPPED / "results" / name).exists():
        return None
    rows = _csv_rows(name)
    x_axis, *columns = rows[0]
    points = {}
    for column in columns:
        norm, part = column.lower().split()
        drawn = [row for row in rows if row[column]]
        points[norm, part] = [(float(row[x_axis]), float(row[column])) for row in drawn]
    return x_axis, points


def published_last_loss(task: str, norm: str, part: str) -> float | None:
    """Return the last value of a curve of the paper, in nats.

    None if the paper does not show the curve. The paper gives Enwiki8 in bits and De-En to base 2.
    It states no unit for PTB, which we take as nats.
    """
    _, points = published_curves(task) or ("", {})
    if (norm, part) not in points:
        return None
    _, last = points[norm, part][-1]
    return last if task == "ptb" else last * math.log(2)


@cache
def papers_sources(task: str) -> frozenset[str]:
    """Return the sources of the data behind the paper's numbers: the task's and of presets."""
    source = compose_values([f"task={task}", "scale=paper"])["data"]["source"]
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
    if settings == _settings(_papers_run(run.task.name, run.norm.name)):
        return None  # soon: composing every preset takes a while
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
    entries = [_settings(_papers_run(task, norm))]
    for preset in choices("preset"):
        if preset != "none" and suits(preset, task):
            entries.append(_settings(_papers_run(task, norm, f"preset={preset}")))
    scoring = entries[0].get("data.scoring")
    return [entry for entry in entries if entry.get("data.scoring") == scoring]


def _papers_run(task: str, norm: str, *preset: str) -> Experiment:
    return cached_experiment([f"task={task}", f"norm={norm}", "scale=paper", *preset])


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
