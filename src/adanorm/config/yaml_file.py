"""YAML as the user wrote it: a key given twice is a mistake, not the last one; its settings by dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

try:  # ten times as fast, where PyYAML was built with libyaml
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]


class _Loader(SafeLoader):
    """The safe loader, without silence about keys given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            is_merge = key.tag == "tag:yaml.org,2002:merge"  # <<, of which there is no value
            value = key.value if is_merge else self.construct_object(key)  # 0.1 and 0.10 are one key
            if value in seen:
                raise ValueError(f"{key.value!r} is given twice, again in line {key.start_mark.line + 1}")
            seen.add(value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Return what a YAML text says, in plain values; raises ValueError, in one line, where it is none."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def read_yaml_file(path: Path) -> Any:
    """Return what a YAML file says, in plain values; raises ValueError, in one line, where it is none."""
    try:
        return read_yaml(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason})") from None


def dotted(section: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting of a section and of those within it, by its dotted key; an empty section is one."""
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", value
