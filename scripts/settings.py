"""The reference of the settings, from the sections of the configuration."""

import json
from collections.abc import Collection, Iterator
from typing import Any, get_args

from adanorm.config.experiment import Experiment
from adanorm.config.model_sections import MODELS
from adanorm.config.paths import CONF
from adanorm.config.sections import Config
from adanorm.reporting.text import markdown_table

BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above"}
BOUNDS |= {"maximum": "at most", "exclusiveMaximum": "below"}
KINDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
}
KINDS |= {"null": "null", "object": "a mapping"}


def settings() -> str:
    """Return Markdown: a table of settings for each section, then the tasks' files as they are."""
    lines = [
        "## The run",
        "",
        *_table("", Experiment, skip={key for key, _ in sections()}),
    ]
    for key, section in sections():
        fields = [
            section.model_fields[name]
            for name in ("reader", "name")
            if name in section.model_fields
        ]
        names = [name for field in fields for name in get_args(field.annotation)]
        heading = f"## {key}: {names[0]}" if len(names) == 1 else f"## {key}"
        lines += ["", heading, "", *_table(f"{key}.", section)]
    lines += ["", "## The tasks", ""]
    for path in sorted((CONF / "task").rglob("*.yaml")):
        name = path.relative_to(CONF)
        lines += [
            f"### {name}",
            "",
            "```yaml",
            path.read_text("utf-8").rstrip(),
            "```",
            "",
        ]
    return "\n".join(lines)


def sections() -> Iterator[tuple[str, type[Config]]]:
    """Yield each section as (its key, such as `training`, its class).

    A key may have several classes.
    """
    readers = dict.fromkeys(data for model in MODELS for data in model.reads)
    for name, field in Experiment.model_fields.items():
        if name in ("data", "model"):
            yield from ((name, section) for section in (readers if name == "data" else MODELS))
            continue
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, Config):
                yield name, kind


def _table(prefix: str, section: type[Config], skip: Collection[str] = ()) -> list[str]:
    schema = section.model_json_schema()
    rows = []
    for name, part in schema["properties"].items():
        for key, inner in (_nested(schema, part) or {"": part}).items() if name not in skip else ():
            default = f"`{json.dumps(inner['default'])}`" if "default" in inner else ""
            setting = ".".join(filter(None, [f"{prefix}{name}", key]))
            rows.append(
                [
                    f"`{setting}`",
                    _values(inner).replace("|", "\\|"),
                    default,
                ]
            )
    return markdown_table(("setting", "takes", "default"), rows)


def _nested(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas, by key, of the settings in a section within a section."""
    references = [
        one["$ref"].rpartition("/")[2] for one in part.get("anyOf", [part]) if "$ref" in one
    ]
    return dict(schema["$defs"][references[0]]["properties"]) if references else {}


def _values(schema: dict[str, Any]) -> str:
    """Return the values that a setting takes, in words, from its part of a JSON schema."""
    if "anyOf" in schema:
        return " or ".join(map(_values, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        entries = schema.get("prefixItems") or [schema.get("items", {})]
        return f"list of {' and '.join(dict.fromkeys(map(_values, entries)))}"
    bounds = [f"{words} {schema[key]:,}" for key, words in BOUNDS.items() if key in schema]
    return ", ".join([KINDS.get(schema.get("type", ""), "any"), *bounds])
