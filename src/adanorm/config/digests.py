"""Digests of plain values, such as the settings that identify a run."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any


def digest_of(identity: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that identify plain values; 1 and 1.0 count as one value."""
    return _digest(_canonical(identity))


def digests_of(identity: dict[str, Any], seeds: Iterable[int]) -> list[str]:
    """Return the digest of an identity with each of the seeds in place of its own."""
    before, _, after = _canonical({**identity, "seed": "SEED"}).partition('"seed":"SEED"')
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
