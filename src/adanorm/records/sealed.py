"""Small JSON files that are written to be read again: what they say, with a checksum of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECKSUM = "checksum"


def checksum_of(values: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain values, without their checksum, however they are laid out."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def as_json(value: Any) -> bytes:
    """Return plain values as the text of a file; raises ValueError for a number that is not finite."""
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values with their checksum as the last."""
    return {**values, CHECKSUM: checksum_of(values)}


def whole(values: Any) -> dict[str, Any]:
    """Return values without their checksum; raises ValueError where they are not those that were written."""
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    said = {key: value for key, value in values.items() if key != CHECKSUM}
    if values.get(CHECKSUM) != checksum_of(said):
        raise ValueError("it is not what was written")
    return said


def read_whole(content: bytes) -> dict[str, Any]:
    """Return what the text of a file says; raises ValueError where it is not what was written."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON object") from None
    return whole(values)
