"""YAML as the user wrote it: a key given twice is a mistake, not the last one; its settings by dotted key."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

try:  # ten times as fast, where PyYAML was built with libyaml
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

LARGEST, DEEPEST, MOST = 250_000, 50, 20_000  # characters, levels, and values with all aliases written out


class _Loader(SafeLoader):
    """The safe loader, without silence about keys given twice."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST:  # merged time and again
            raise ValueError(f"has more than {MOST:,} values")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            is_merge = key.tag == "tag:yaml.org,2002:merge"  # <<, which has no value
            value = key.value if is_merge else self.construct_object(key)  # 0.1 and 0.10 are one key
            if value in seen:
                raise ValueError(f"{key.value!r} is given twice, again in line {key.start_mark.line + 1}")
            seen.add(value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Return a YAML text's plain values; ValueError, in one line, where it is none or too large or deep."""
    if len(text) > LARGEST or _deepest_bracket(text) > DEEPEST:
        raise ValueError(f"has more than {LARGEST:,} characters, or brackets more than {DEEPEST} deep")
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).replace('"<unicode string>", ', "").split())) from None
    _values_within(value)
    return value


def _deepest_bracket(text: str) -> int:
    """Return how many brackets are open at once, at most; the parser's time goes with its square."""
    depth = deepest = 0
    for character in text if text.count("[") + text.count("{") > DEEPEST else "":
        depth += (character in "[{") - (character in "]}")
        deepest = max(deepest, depth)
    return deepest


def _values_within(value: Any, depth: int = 1) -> int:
    """Return how many values one has within; raises ValueError where it is not plain, too large or deep."""
    if not isinstance(value, dict | list):
        if not isinstance(value, str | int | float | None):
            raise ValueError(f"{value!r}: is neither text nor a number")
        return 0
    if value and depth >= DEEPEST:  # or it contains itself
        raise ValueError(f"is more than {DEEPEST} levels deep")
    if isinstance(value, dict) and (keys := [key for key in value if not isinstance(key, str)]):
        raise ValueError(f"YAML reads a key as {keys[0]!r}, not as text: put it in quotes")
    count = 0
    for part in value.values() if isinstance(value, dict) else value:
        count += 1 + _values_within(part, depth + 1)
        if count > MOST:
            raise ValueError(f"has more than {MOST:,} values")
    return count


def read_yaml_file(path: Path, kind: type[Any] = dict) -> Any:
    """Return the mapping or list in a YAML file; ValueError, in a line with its path, where it is none."""
    try:
        with path.open(encoding="utf-8") as file:
            if isinstance(value := read_yaml(file.read(LARGEST + 1)), kind):
                return value
        raise ValueError(f"holds no {'`key: value`' if kind is dict else 'list'}")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def dotted(section: Mapping[str, Any], within: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting of a section and of those within it, by its dotted key; an empty section is one."""
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{within}{key}.")
        else:
            yield f"{within}{key}", value
