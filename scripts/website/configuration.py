"""The reference of the configuration, from its sections: type, range, default, and the value in each task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import MODELS
from adanorm.config.paths import choices
from adanorm.config.sections import Config
from adanorm.config.titles import title
from adanorm.reporting.tables.formats import markdown_table
from adanorm.reporting.tables.notes import MARKS
from scripts.website.settings import settings_of, yaml_value
from scripts.website.tasks import marked_note
from scripts.website.text import Pages, code, plain

BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
    "null": "null",
}


def configuration_pages() -> Pages:
    """Return the page of every section's settings, and that of every assumed and recollected value."""
    return {"docs/reference/configuration.md": _configuration(), "docs/reference/assumed.md": _marked()}


def sections() -> Iterator[tuple[str, type[Config]]]:
    """Yield each section as (its key, such as `training`, its class); a key may have several classes."""
    readers = dict.fromkeys(data for model in MODELS for data in model.data_sections())
    for name, field in Experiment.model_fields.items():
        if name in ("data", "model"):
            yield from ((name, cls) for cls in (readers if name == "data" else MODELS))
            continue
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, Config):
                yield name, kind


def described(schema: dict[str, Any]) -> str:
    """Return what a setting takes, from its part of a JSON schema, in words."""
    if "$ref" in schema:
        return "a section"
    if "anyOf" in schema:
        return " or ".join(described(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{yaml_value(one)}`" for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        entries = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list of {' and '.join(dict.fromkeys(described(one) for one in entries))}"
    if schema.get("type") == "object":
        return "a mapping"
    bounds = [f"{words} {schema[key]:,}" for key, words in BOUNDS.items() if key in schema]
    return ", ".join([KINDS.get(schema.get("type", ""), "any"), *bounds])


def _configuration() -> str:
    lines = [
        "# Configuration",
        "",
        "A run is composed of the files under `conf/`: `run.yaml`, then those of its task, norm and scale,"
        " then the `key=value` of the command line. Every setting is checked against these sections before"
        " any work. The last column has the value of each task at the paper's scale under LayerNorm; *a* is"
        " for [assumed and *r* for recollected](assumed.md).",
        "",
        "## The run",
        "",
        *_table("", Experiment, skip={key for key, _ in sections()}),
    ]
    for key, cls in sections():
        lines += ["", f"## {key}{_which(cls)}", "", plain(cls.__doc__ or ""), "", *_table(f"{key}.", cls)]
    return "\n".join([*lines, ""])


def _which(cls: type[Config]) -> str:
    """Return which of a key's sections this is, where it has several."""
    for field in ("reader", "name"):
        chosen = get_args(cls.model_fields[field].annotation) if field in cls.model_fields else ()
        if len(chosen) == 1 and isinstance(chosen[0], str):
            return f": {field} {chosen[0]}"
    return ""


def _table(prefix: str, cls: type[Config], skip: set[str] | None = None) -> list[str]:
    schema = cls.model_json_schema()
    rows = []
    for name, part in schema["properties"].items():
        if name in (skip or ()):
            continue
        nested = _nested(schema, part)
        for key, inner in (nested or {"": part}).items():
            full = f"{prefix}{name}{'.' if key else ''}{key}"
            required = name in schema.get("required", ()) and "default" not in inner
            default = "" if required else code(yaml_value(inner.get("default")))
            takes = described(inner).replace("|", "\\|")
            rows.append([code(full), f"{takes}{_comment(full)}", default, _in_tasks(full, cls)])
    return markdown_table(("setting", "takes", "default", "in the tasks"), rows)


def _nested(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a section within a section, by key."""
    for one in part.get("anyOf", [part]):
        if "$ref" in one:
            properties = schema["$defs"][one["$ref"].rpartition("/")[2]]["properties"]
            return dict(properties)
    return {}


def _in_tasks(key: str, cls: type[Config]) -> str:
    """Return the values that tasks give a setting, each with its tasks."""
    by_value: dict[str, list[str]] = {}
    for task in choices("task"):
        settings = settings_of(task)
        chosen = settings.get({"data": "data.reader", "model": "model.name"}.get(key.partition(".")[0], ""))
        if key in settings and (chosen is None or _which(cls).endswith(f" {chosen.value}")):
            found = settings[key]
            link = f"[{title(task)}](tasks/{task}.md)"
            by_value.setdefault(found.shown, []).append(
                f"{link}{f' *{found.mark[0]}*' if found.mark else ''}"
            )
    if len(by_value) == 1 and sum(map(len, by_value.values())) == len(choices("task")):
        return f"{code(*by_value)} in all"
    return "; ".join(f"{code(value)}: {', '.join(tasks)}" for value, tasks in by_value.items())


def _comment(key: str) -> str:
    """Return what `run.yaml` says of a setting, behind what it takes."""
    found = settings_of(choices("task")[0]).get(key)
    return f": {plain(found.note)}" if found and found.note and found.file == "run.yaml" else ""


def _marked() -> str:
    """Return the page of every value that the paper does not state."""
    lines = [
        "# Assumed and recollected values",
        "",
        "What the paper leaves open is *assumed*; what is remembered of it or of its group's other projects,"
        " and confirmed by no public source, is *recollected*. `conf/task/` says so at each value.",
    ]
    for task in choices("task"):
        rows = [
            [code(key), code(found.shown), marked_note(found)]
            for key, found in settings_of(task).items()
            if found.mark
        ]
        if rows:
            marks = [found.mark for found in settings_of(task).values()]
            counts = [f"{marks.count(mark)} {mark}" for mark in MARKS]
            lines += ["", f"## {title(task)} (`{task}`)", "", f"{' and '.join(counts)}.", ""]
            lines += markdown_table(("setting", "value", "comment"), rows)
    return "\n".join([*lines, ""])
