"""Strict reading of YAML, where a key given twice is a mistake; and a section's settings by dotted key."""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

try:  # ten times as fast, where PyYAML was built with libyaml
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

LARGEST, DEEPEST, MOST = (
    250_000,
    50,
    20_000,
)  # characters, levels, and values with all aliases expanded


class _Loader(SafeLoader):
    """The safe loader, except that a key given twice is an error."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST:  # merges within merges multiply them
            raise ValueError(f"has more than {MOST:,} values")

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            is_merge = key.tag == "tag:yaml.org,2002:merge"  # the key <<, which has no value
            value = (
                key.value if is_merge else self.construct_object(key)
            )  # 0.1 and 0.10 are one key
            if value in seen:
                raise ValueError(
                    f"{key.value!r} is given twice, again in line {key.start_mark.line + 1}"
                )
            seen.add(value)
        return super().construct_mapping(node, deep)


def read_yaml(text: str) -> Any:
    """Return a YAML text's plain values; ValueError, in one line, if it is invalid, too large or too deep."""
    if len(text) > LARGEST or _deepest_bracket(text) > DEEPEST:
        raise ValueError(
            f"has more than {LARGEST:,} characters, or brackets more than {DEEPEST} deep"
        )
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).replace('"<unicode string>", ', "").split())) from None
    _count_values(value)
    return value


def _deepest_bracket(text: str) -> int:
    """Return the largest number of brackets open at once; the parser's time grows with its square."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return 0
    return max(accumulate((character in "[{") - (character in "]}") for character in text))


def _count_values(value: Any, depth: int = 1) -> int:
    """Return the number of values within one; ValueError if one is not plain, or it is too large or deep."""
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
        count += 1 + _count_values(part, depth + 1)
        if count > MOST:
            raise ValueError(f"has more than {MOST:,} values")
    return count


def read_yaml_file(path: Path, kind: type[Any] = dict) -> Any:
    """Return the mapping or list (`kind`) in a YAML file; ValueError, with its path, if it holds another."""
    try:
        with path.open(encoding="utf-8") as file:
            if isinstance(value := read_yaml(file.read(LARGEST + 1)), kind):
                return value
        raise ValueError(f"holds no {'`key: value`' if kind is dict else 'list'}")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def dotted(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) of each setting in a section at any depth; an empty section is a value."""
    for key, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
