"""YAML as the user wrote it: a key given twice is a mistake, not the last one."""

from __future__ import annotations

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
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise ValueError(f"{key.value!r} is given twice, again in line {key.start_mark.line + 1}")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Return what a YAML text says, in plain values; raises ValueError, in one line, where it is none."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def read_yaml_file(path: Path) -> Any:
    """Return what a YAML file says, in plain values.

    Raises ValueError, in one line, where it cannot be read.
    """
    try:
        return read_yaml(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 ({error.reason})") from None
