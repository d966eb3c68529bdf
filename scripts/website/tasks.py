"""A page a task: settings with their sources, data with their checksums, metric, scores on record."""

from __future__ import annotations

import re

from adanorm.config.compose import cached_experiment
from adanorm.config.paths import choices
from adanorm.config.titles import title
from adanorm.data.catalogue import SOURCES, File, Source
from adanorm.metrics.table import METRICS
from adanorm.reporting.tables.formats import markdown_table
from scripts.website.scores import scores_on_record, scores_table
from scripts.website.settings import SECTIONS, Setting, files_of, heading_of, settings_of
from scripts.website.text import Pages, code, contents, plain

FOLDER = "docs/reference/tasks"
PLACES = ("cache", "mirror", "mirrors")  # where this machine has its data: no part of the task


def task_pages() -> Pages:
    """Return a page for each task, and the page that lists them."""
    names = choices("task")
    lead = (
        "Each with its settings, its data and its scores on record. [Tasks](../../tasks.md) describes them."
    )
    pages = {f"{FOLDER}/{name}.md": task_page(name) for name in names}
    return {f"{FOLDER}/index.md": contents("Tasks", lead, names), **pages}


def task_page(name: str) -> str:
    """Return the page of a task in Markdown."""
    run = cached_experiment([f"task={name}"])
    metric, chosen = METRICS[run.task.metric], METRICS[run.task.selection_metric]
    direction = "higher" if metric.higher_is_better else "lower"
    lines = [f"# {title(name)} (`{name}`)", ""]
    for path in files_of(name):
        lines += [plain(heading_of(path)), ""]
    lines += [
        f"Score: **{metric.label}** of the test set, {direction} is better, with the weights of the best"
        f" validation {chosen.label}. A run takes about {run.cost.cpu_hours:g} hours on a CPU core and"
        f" {run.cost.cuda_hours:g} on a GPU.",
        "",
        "```sh",
        *task_commands(name),
        "```",
        "",
        "## Settings",
        "",
        "At the paper's scale. *Assumed*: the paper leaves it open; *recollected*: no public source confirms"
        " it. What each takes: [configuration](../configuration.md).",
        "",
        *settings_table(name),
        "",
        "## Data",
        "",
        *data_lines(run.data.source),
        "",
        "## On record",
        "",
    ]
    found = [score for score in scores_on_record() if score.task == name]
    titles = {score.norm: f"[{title(score.norm)}](../norms/{score.norm}.md)" for score in found}
    return "\n".join([*lines, *scores_table(found, first="norm", shown=titles), ""])


def task_commands(name: str) -> list[str]:
    """Return the commands on a task's page."""
    return [f"adanorm plan task={name} norm=adanorm", f"adanorm run task={name} norm=adanorm runs=runs"]


def settings_table(name: str) -> list[str]:
    """Return a table of a task's settings: key, value and comment."""
    rows = [
        [code(key), code(found.shown), marked_note(found)]
        for key, found in settings_of(name).items()
        if key.partition(".")[0] in SECTIONS and key.partition(".")[2] not in PLACES
    ]
    return markdown_table(("setting", "value", "comment"), rows)


def marked_note(setting: Setting) -> str:
    """Return the comment of a setting in Markdown, its mark in italics."""
    words = plain(setting.note)
    return re.sub(rf"\b({setting.mark})\b", r"*\1*", words, count=1) if setting.mark else words


def data_lines(source: str) -> list[str]:
    """Return what the catalogue says of a source and of its other editions."""
    if source not in SOURCES:
        return ["Drawn by the program; there is nothing to download."]
    entry = SOURCES[source]
    lines = []
    for name, edition in SOURCES.items():
        if edition is entry or (edition.edition_of is not None and SOURCES[edition.edition_of] is entry):
            lines += [_described(name, edition), "", *_files(edition), ""]
    return [*lines, "How they are fetched and verified, and formats for your own: [data](../../data.md)."]


def _described(name: str, source: Source) -> str:
    preset = f"; chosen by `preset={source.preset}`" if source.preset else ""
    counts = " / ".join(f"{count:,}" for count in source.counts or ())
    said = f"; {counts} examples of train, valid and test" if counts else ""
    return f"`{name}`, license: {plain(source.license)}{said}{preset}."


def _files(source: Source) -> list[str]:
    rows = [
        [
            code(file.name),
            "not published" if file.size is None else f"{file.size:,}",
            code(file.checksum or "") or "not published",
            ", ".join(code(host) for host in _hosts(file)) or f"taken out of `{source.instead}`",
        ]
        for file in source.files
    ]
    return markdown_table(("file", "bytes", "checksum", "from"), rows)


def _hosts(file: File) -> list[str]:
    """Return the hosts, or packages, that have a file, each once."""
    places = (re.sub(r"^\w+://", "", address).partition("#")[0] for address in file.addresses)
    return list(dict.fromkeys(place.partition("/")[0] for place in places))
