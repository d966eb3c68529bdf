"""Records edited under true checksums."""

import json
import shutil
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from adanorm.records import reader
from adanorm.records.integrity import packed
from adanorm.records.lines import RECORD
from adanorm.runs.duration import seconds_left
from tests.faults.mistakes import BOMB
from tests.reporting.records import as_older_version, put
from tests.verdicts.test_same_examples import comparison, edit_run, recount, run_of, swap, write

HUGE = 20_000_000  # bytes


def _files(name: str, *texts: str) -> dict[str, Callable[[Path, Random], object]]:
    def put_text(text: str, folder: Path, _: Random) -> None:
        content = packed(text.encode()) if name.endswith(".gz") else text.encode()
        put(run_of("adanorm", folder).folder(), name, content)

    return {f"{name}: {text[:30]!r}": partial(put_text, text) for text in texts}


YAML = (
    BOMB, BOMB.replace("[*", "\n  <<: [*"), "a: &a [*a]", "null: 1", "{1: 2}", "a: 2020-01-01",
    "a: !!set {x}", "a: " + "[" * 20000 + "]" * 20000, "- " * 5000 + "1", "a: " + "x" * HUGE, "\x00",
    "a: b: c", "[]", "7",
)  # fmt: skip
JSON = (
    "[" * 100_000 + "]" * 100_000, '{"a": ' * 100_000, "[]", "7", "null", "{",
    '{"a": "' + "x" * HUGE + '"}', "\xff",
)  # fmt: skip
HOSTILE: dict[str, Callable[[Path, Random], object]] = {
    **_files("config.yaml", *YAML),
    **_files("environment.json", *JSON, '{"packages": 7}', '{"arithmetic": []}'),
    **_files("metrics.jsonl", *JSON),
    **_files("test_counts.json", *JSON, '{"outputs": 1, "counts": 1}', '{"outputs": "", "counts": {}}'),
    **_files("predictions.txt.gz", "", "0\n" * 31, "\n" * HUGE,),
    "an edited score": lambda folder, random: edit_run(folder, test={"accuracy": random.uniform(0, 84)}),
    "another precision": lambda folder, _: edit_run(folder, precision="bf16"),
    "other data": lambda folder, _: edit_run(folder, own_data=True),
    "another seed": lambda folder, _: edit_run(folder, seed=2),
    "another digest": lambda folder, random: run_of("adanorm", folder).folder().rename(
        run_of("adanorm", folder).folder().with_name(f"smoke-seed1-{random.randbytes(4).hex()}")
    ),
    "swapped outputs": lambda folder, _: swap(folder, "predictions.txt.gz"),
    "swapped counts": lambda folder, _: swap(folder, "test_counts.json"),
    "swapped settings": lambda folder, _: swap(folder, "config.yaml"),
    "other counts": lambda folder, random: recount(
        folder, [" ".join(str(int(random.random() < 0.3)) for _ in range(32))]
    ),
    "counts that are none": lambda folder, _: recount(folder, ["nan " * 31 + "1e999"]),
    "more columns": lambda folder, _: recount(folder, ["1 1", "1 1"]),
    "deep result": lambda folder, _: edit_run(folder, data=json.loads("[" * 400 + "]" * 400)),
    "huge result": lambda folder, _: edit_run(folder, error="x" * HUGE),
}  # fmt: skip


def leave_as_files(folder: Path) -> None:
    """Leave the records in a folder as files, as older versions did."""
    for path in [*folder.rglob(RECORD)]:
        as_older_version(path.parent)


@pytest.mark.nightly
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("how", HOSTILE, ids=ascii)
def test_no_hostile_record_is_counted_or_ends_in_a_traceback(
    tmp_path: Path, how: str, number: int
) -> None:
    write(tmp_path, [1, 2])
    is_older = number % 2 == 1
    if is_older and how == "another digest":  # what is renamed cannot be read afterwards
        leave_as_files(tmp_path)
    HOSTILE[how](tmp_path, Random(f"{how} {number}"))
    if is_older:
        leave_as_files(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counted = comparison(tmp_path, [1]), reader.result(run_of("adanorm", tmp_path).folder())
        seconds_left(run_of("adanorm", tmp_path, 3), "missing")
    assert counted == (None, None)
    assert caught or how == "another digest"
    shutil.rmtree(tmp_path)  # some have files of 20 MB
