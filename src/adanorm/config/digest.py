"""Digests: of plain values that identify a run, and of files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def digest_of(identity: dict[str, Any]) -> str:
    """Return eight hexadecimal digits that identify what plain values describe; 1 and 1.0 are one value."""
    text = json.dumps(_canonical(identity), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    is_whole = isinstance(value, float) and value.is_integer()
    return int(value) if is_whole else value


def sha256(*paths: Path) -> str:
    """Return the SHA-256 of the content of files, one after the other, in hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
