"""Plain values: read strictly from YAML, by dotted key, and identified by digests."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from adanorm.config.errors import DECIMAL
from adanorm.config.paths import CONF

try:  # ten times as fast, where PyYAML was built with libyaml
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

DEEPEST = 50  # levels of sections and lists
LARGEST = 250_000  # characters of a text that others wrote
MERGE = "tag:yaml.org,2002:merge"  # the key <<, which has no value of its own
# Digits grouped by _, which YAML 1.2 reads as text.
GROUPED = re.compile(r"(?=\S*_)[-+]?\d[\d_.]*([eE][-+]?\d[\d_]*)?$", re.ASCII)
UNGROUPED = "write numbers without _, which YAML 1.2 does not read"
ALIAS = re.compile(r"(^|[\s\[{,:-])[&*]\w")  # &name and *name


class _Loader(SafeLoader):
    """The safe loader, except that a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            # By value: 0.1 and 0.10 are one key.
            value = key.value if key.tag == MERGE else self.construct_object(key)
            if value in seen:
                line = key.start_mark.line + 1
                raise ValueError(f"{key.value!r} is given twice, again in line {line}")
            seen.add(value)
        return super().construct_mapping(node, deep)


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """Return a number; ValueError for 010, 0x10, 1_0, 1:30: YAML 1.1 and 1.2 read them differently."""
    if re.search(r"[_:]|^[-+]?0[\dbxo]", node.value):
        line = node.start_mark.line + 1
        raise ValueError(f"{node.value!r} in line {line}: write decimal digits, or quotes for text")
    if node.tag.endswith(":int"):
        return loader.construct_yaml_int(node)
    number = loader.construct_yaml_float(node)
    if not number and re.search("^[-+.0]*[1-9]", node.value):
        raise ValueError(
            f"{node.value!r} in line {node.start_mark.line + 1}: is 0 in double precision"
        )
    return number


# YAML 1.2 reads 1e5 as a number, YAML 1.1 as text.
EXPONENT = re.compile(rf"{DECIMAL}[eE][-+]?\d+$", re.ASCII)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, [*"-+.0123456789"])
# 0_9 and 1_0e-3 are text in both, but Hydra, which reads the same files, takes them for numbers:
# _number refuses them.
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", GROUPED, [*"-+0123456789"])
_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def read_yaml(text: str) -> Any:
    """Return a YAML text's plain values; raises ValueError, in one line, if it is invalid."""
    try:
        value = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).replace('"<unicode string>", ', "").split())) from None
    _check_plain(value)
    return value


def read_foreign_yaml(text: str) -> Any:
    """Return read_yaml(text) of a text from elsewhere; ValueError if it could exhaust the machine.

    Aliases within aliases multiply what they stand for, and libyaml's time and stack grow with the
    brackets open at once.
    """
    if len(text) > LARGEST or text.count("[") + text.count("{") > DEEPEST:
        raise ValueError(f"has more than {LARGEST:,} characters or {DEEPEST} brackets")
    if ALIAS.search(text):
        raise ValueError("has an alias (& or *)")
    return read_yaml(text)


def _check_plain(value: Any, depth: int = 1) -> None:
    """Raise ValueError unless keys are text, values text or numbers, and the levels few."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"YAML reads a key as {key!r}, not as text: put it in quotes")
        parts = [*value.values()]
    elif isinstance(value, list):
        parts = value
    elif isinstance(value, str | int | float | None):
        return
    else:
        raise ValueError(f"{value!r}: is neither text nor a number")
    if parts and depth >= DEEPEST:  # or it contains itself
        raise ValueError(f"is more than {DEEPEST} levels deep")
    for part in parts:
        _check_plain(part, depth + 1)


def read_yaml_file(path: Path, kind: type[Any] = dict) -> Any:
    """Return the mapping or list (`kind`) in a YAML file.

    Raises ValueError, with its path, if there is none.
    """
    try:
        value = read_yaml(path.read_text("utf-8"))
        if isinstance(value, kind):
            return value
        raise ValueError(f"holds no {'`key: value`' if kind is dict else 'list'}")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_conf(name: str) -> Any:
    """Return the mapping in conf/<name>.yaml, which is read once per process; do not change it."""
    return _read_once(CONF / f"{name}.yaml")


_read_once = cache(read_yaml_file)


def dotted(section: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return (dotted key, value) of each setting in a section at any depth.

    An empty section is a value.
    """
    settings: list[tuple[str, Any]] = []
    for key, value in section.items():
        if isinstance(value, dict) and value:
            settings += dotted(value, f"{prefix}{key}.")
        else:
            settings.append((f"{prefix}{key}", value))
    return settings


def digest_of(identity: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that identify plain values; 1 and 1.0 count as one value."""
    return _digest(_canonical(identity))


def around_seed(identity: dict[str, Any]) -> tuple[str, str]:
    """Return the text of an identity before and after its seed."""
    before, _, after = _canonical({**identity, "seed": "SEED"}).rpartition('"seed":"SEED"')
    return before, after


def digests_of(around: tuple[str, str], seeds: Iterable[int]) -> list[str]:
    """Return the digest of an identity, given as its text around the seed, with each seed."""
    before, after = around
    return [_digest(f'{before}"seed":{seed}{after}') for seed in seeds]


def _canonical(values: dict[str, Any]) -> str:
    """Return plain values as JSON with sorted keys, no spaces, and whole numbers as integers."""
    return json.dumps(_with_integers(values), sort_keys=True, separators=(",", ":"))


def _with_integers(value: Any) -> Any:
    kind = type(
        value
    )  # asking for it is faster than isinstance, and every run's digest is computed
    if kind is dict:
        return {key: _with_integers(entry) for key, entry in value.items()}
    if kind is list or kind is tuple:
        return [_with_integers(entry) for entry in value]
    return int(value) if kind is float and value.is_integer() else value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def sha256(*paths: Path) -> str:
    """Return the SHA-256 of the files' contents, one after the other, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
