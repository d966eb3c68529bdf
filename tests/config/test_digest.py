"""Digests, by the written-out form of what they are of."""

from __future__ import annotations

import hashlib
from pathlib import Path

from adanorm.config.digest import digest_of, sha256


def test_a_digest_is_of_the_shortest_json_with_sorted_keys_and_whole_numbers_as_such() -> None:
    written = b'{"a":1,"b":[2,0.5,{"c":true,"d":null}],"e":"1.0"}'
    values = {"e": "1.0", "b": [2.0, 0.5, {"d": None, "c": True}], "a": 1.0}
    assert digest_of(values) == hashlib.sha256(written).hexdigest()[:8]


def test_the_sha256_of_files_is_that_of_their_bytes_one_after_the_other(tmp_path: Path) -> None:
    contents = [bytes(range(256)) * 5000, b"", b"end"]  # the first of more than a mebibyte
    paths = [tmp_path / str(number) for number in range(3)]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert sha256(*paths) == hashlib.sha256(b"".join(contents)).hexdigest()
    assert sha256(*reversed(paths)) != sha256(*paths)
