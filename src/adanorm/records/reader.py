"""The table of runs: a process reads every record once, from its line.

A folder of runs or analyses has the lines that it keeps, <folder>.jsonl, and those of runs that
ended in it, <folder>/<name>/record.jsonl. A record that is not whole is named in one warning and
counts nowhere.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from adanorm.config.errors import one_line
from adanorm.config.paths import CONTRIBUTED, contributed_folder
from adanorm.config.sections import seed_series
from adanorm.config.values import around_seed, digests_of
from adanorm.files import Values, without_checksum
from adanorm.process import VARIABLE
from adanorm.records import integrity, lines
from adanorm.records.lines import once
from adanorm.records.result import AnalysisResult, Ended, Result, validated

if TYPE_CHECKING:
    from adanorm.config.experiment import Experiment
    from adanorm.records.by_example import Counts

SCHEMA = 1


class Record:
    """The record of a run or an analysis, by the folder in which it runs, or would run.

    It has ended if it has a line. Until then its content is what its folder has so far.
    """

    def __init__(self, folder: Path, line: lines.Line | None = None) -> None:
        self.folder = folder
        self._given_line = line
        self._rows: dict[str, list[Values]] = {}

    @cached_property
    def line(self) -> lines.Line | None:
        """The line of the record; None if it has not ended.

        ValueError if what is there is no record.
        """
        return self._given_line or lines.line_in(self.folder)

    @property
    def is_kept(self) -> bool:
        """Whether its line is kept, here or in a contribution; it was checked when it was added."""
        return self._given_line is not None and self._given_line.is_kept

    @property
    def has_ended(self) -> bool:
        """Whether there is a line, whole or not."""
        return self._given_line is not None or lines.has_ended(self.folder)

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record, or None.

        Raises ValueError if it cannot be read.
        """
        if self.line is not None:
            return self.line.content(name)
        path = self.folder / name
        return path.read_bytes() if path.is_file() else None

    def has(self, name: str) -> bool:
        """Return whether the record of an ended run has a file of this name."""
        return self.line is not None and name in self.line.names

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of an ended record's files by name."""
        return self.line.contents() if self.line else {}

    @property
    def code(self) -> dict[str, bytes]:
        """The source files of an ended run's norm by relative path; none of the suite's norms."""
        code = {}
        for name in self.line.names if self.line else ():
            if name.startswith("code/"):
                code[name.removeprefix("code/")] = self.content(name) or b""
        return code

    @property
    def contribution(self) -> str | None:
        """The name of the contribution that the record came with; None if it was made here."""
        if not self.is_kept or self.line is None:
            return None
        folder = self.line.file.parent.parent
        return folder.name if folder.parent.name.endswith(CONTRIBUTED) else None

    def text(self, name: str) -> str:
        """Return the text of a file of the record, empty if there is no such file."""
        return (self.content(name) or b"").decode()

    @cached_property
    def ended(self) -> Ended | None:
        """The result of the record.

        None if it has not ended or, with a warning, if it is not whole.
        """
        if not self.has_ended:
            return None
        try:
            return self.checked()
        except (OSError, ValueError) as error:
            warnings.warn(f"{self.folder} is not counted: {one_line(error)}", stacklevel=1)
            return None

    def checked(self) -> Ended:
        """Return the result of the record.

        Raises ValueError with the reason if it does not count.
        """
        line = self.line
        if line is None:
            raise ValueError("it has not ended, or is no record")
        if not line.is_whole:
            raise ValueError(f"its line in {line.file.name} has been changed")
        values = self.values
        if values is None:
            raise ValueError("result.json: it is not a JSON object")
        if values.get("schema") != SCHEMA:
            raise ValueError(f"schema {values.get('schema')!r} is not {SCHEMA}")
        if not self.is_kept:
            values = without_checksum(values)
        kind: type[Ended] = AnalysisResult if "analysis" in values else Result
        ended = validated(kind, values)
        if not self.is_kept:
            integrity.check_record(
                self.folder,
                self.content,
                ended,
            )
        return ended

    @property
    def values(self) -> Values | None:
        """The content of result.json, unchecked.

        None if there is none, or it is not a JSON object.
        """
        with suppress(OSError, ValueError):
            return integrity.json_object("result.json", self.content("result.json") or b"")
        return None

    @cached_property
    def identity(self) -> Values:
        """The settings that identify the run, from config.yaml."""
        return integrity.settings_of(self.text("config.yaml"))

    @cached_property
    def environment(self) -> Values:
        """What the run was computed with: commit, packages, device; empty if it cannot be read."""
        with suppress(ValueError):
            return integrity.environment_of(self.content("environment.json") or b"{}")
        return {}

    @property
    def norm_backend(self) -> str:
        """What computed the norms.

        `eager` in older records, which do not say: there was nothing else.
        """
        return str(self.environment.get("norm_backend", "eager")).partition(":")[0]

    @property
    def arithmetic(self) -> str | None:
        """What decided the last digits of the run, as text; None if the record has no environment.

        Another value of these changes a score as another seed does: the version of our own numerics
        (1 if the record names none), whether it is older than the norms' kernels, PyTorch's
        version, the device, and whether the run was held to portable arithmetic.
        """
        facts = self.environment
        if not facts:
            return None
        text = f"numerics {facts.get('numerics_version', 1)}"
        if "norm_backend" not in facts:
            text += " before the norms' kernels"
        text += f", torch {facts.get('packages', {}).get('torch')}, {facts.get('device')}"
        mode = facts.get("arithmetic", {}).get(VARIABLE)
        return f"{text}, {mode} arithmetic" if mode else text

    def rows(self, name: str = "metrics.jsonl") -> list[Values]:
        """Return the rows of a file of JSON lines.

        Raises ValueError naming a line that is not one, or if a record's rows cannot be read.
        """
        if name not in self._rows:
            content = self.content(name)
            if content is None and self.has_ended and self.has(name):
                raise ValueError(f"{self.folder}: {name}: cannot be read")
            self._rows[name] = integrity.json_rows(name, content or b"")
        return self._rows[name]

    def outputs(self) -> list[str]:
        """Return the test set's outputs, one per example.

        Raises ValueError if they cannot be read.
        """
        text = self.line.text("outputs") if self.line else None
        if text is None:
            raise ValueError(f"{self.folder}: {integrity.OUTPUTS}: cannot be read")
        # Not splitlines: a translation may hold other characters that end a line for Python.
        return text.decode(errors="surrogateescape").split("\n")[:-1]

    @cached_property
    def outputs_digest(self) -> str:
        """The digest of the test set's outputs.

        Comparisons by example name their runs' outputs by it.
        """
        return str(self.line.values.get("outputs")) if self.line else str(None)

    @cached_property
    def counts(self) -> dict[str, "Counts"]:
        """The counts of the test examples by metric, each (E examples, columns).

        Empty if none are on record. With a warning also empty if they are of other outputs, or do
        not give the scores on record.
        """
        ended = self.ended
        if self.line is None or not isinstance(ended, Result) or ended.status != "done":
            return {}
        text = self.line.text("counts")
        if not text:
            return {}
        try:
            return integrity.counts_of(text, self.outputs_digest, ended.test or {})
        except ValueError as error:
            warnings.warn(f"{self.folder}: its examples are not counted: {error}", stacklevel=1)
            return {}


Runs: TypeAlias = list[tuple[Record, Result]]


@once
def record(folder: Path) -> Record:
    """Return the record of a run or an analysis by its folder, which need not exist.

    A whole line that is kept comes first, then the line of the folder itself, then contributions.
    """
    parent, file = _parts(folder)
    return _record_in(parent, folder.name, _kept(parent, file))


@cache
def _parts(folder: Path) -> tuple[Path, Path]:
    """Return a record's parent folder and the file that keeps its line: paths are slow."""
    return folder.parent, lines.file_of(folder.parent)


def _record_in(parent: Path, name: str, kept: Mapping[str, Record]) -> Record:
    kept_record = kept.get(name)
    if kept_record and kept_record.line and kept_record.line.is_whole:
        return kept_record
    folder = parent / name
    if lines.has_ended(folder):
        # A line has all of its record; what older versions left is read file by file.
        is_line = (folder / lines.RECORD).exists()
        files = [lines.RECORD] if is_line else ["result.json", *integrity.FILES]
        return _ended(folder, tuple(lines.state_of(folder / file) for file in files))
    for contributed_record in contributed(folder):
        return contributed_record
    return kept_record or Record(folder)


@cache
def _ended(folder: Path, states: tuple[lines.State, ...]) -> Record:
    return Record(folder)


def _kept(parent: Path, file: Path | None = None) -> dict[str, Record]:
    """Return by name a folder's records that `file` keeps (default: the folder's own file)."""
    file = file or lines.file_of(parent)
    return _records_in(parent, file, lines.state_of(file))


@lru_cache(maxsize=4096)
def _records_in(parent: Path, file: Path, state: lines.State) -> dict[str, Record]:
    return {name: Record(parent / name, line) for name, line in lines.kept_lines(file).items()}


@once
def _contributed(parent: Path) -> list[dict[str, Record]]:
    """Return each contribution's records of a folder, by name, in the order of merging."""
    by_contribution = []
    for folder in contributions(parent.parent.parent).values():
        file = lines.file_of(folder / parent.parent.name / parent.name)
        by_contribution.append(_kept(parent, file))
    return by_contribution


@once
def contributions(runs: Path) -> dict[tuple[int, str], Path]:
    """Return the folders of the contributions to a folder of runs, by number and name, in order.

    Two have one number where two branches have each merged one.
    """
    folders = {}
    for folder in contributed_folder(runs).glob("[0-9]*-*"):
        number = folder.name.partition("-")[0]
        if number.isdecimal():
            folders[int(number), folder.name] = folder
    return dict(sorted(folders.items()))


def contributed(folder: Path) -> list[Record]:
    """Return the contributed records of a run that are whole, in the order of merging."""
    entries = (by_name.get(folder.name) for by_name in _contributed(folder.parent))
    return [entry for entry in entries if entry and entry.line and entry.line.is_whole]


@once
def names(parent: Path) -> list[str]:
    """Return the sorted names of a folder's records: kept, in it, or contributed."""
    present = set(_kept(parent))
    if parent.exists():
        present.update(path.name for path in parent.iterdir() if path.is_dir())
    return sorted(present.union(*_contributed(parent)))


def records(root: Path) -> Iterator[Record]:
    """Yield the ended records below a folder of runs or analyses, whole or not, sorted by path."""
    parents = {*lines.parents(root)}
    for name in (lines.RECORD, "result.json"):
        parents.update(path.parent.parent for path in root.rglob(name))
    for folder in contributions(root).values():
        parents.update(root / parent.relative_to(folder) for parent in lines.parents(folder))
    for parent in sorted(parents):
        kept = _kept(parent)
        for name in names(parent):
            entry = _record_in(parent, name, kept)
            if entry.has_ended:
                yield entry


def result(folder: Path, *, dry_run: bool = False) -> Result | None:
    """Return the result of a run, or None if it has not ended; a dry run's only with `dry_run`.

    A result that cannot be read, has another schema or is not whole gives a warning and None.
    """
    ended = record(folder).ended
    is_run = isinstance(ended, Result) and (ended.dry_run is not None) == dry_run
    return ended if is_run else None  # type: ignore[return-value]


def is_complete(folder: Path) -> bool:
    """Return whether a run or an analysis is done or diverged.

    If it failed or is broken, it is run again.
    """
    ended = record(folder).ended
    return ended is not None and ended.is_complete


def curve(folder: Path, name: str) -> list[float]:
    """Return the values of a column such as valid_loss at a run's evaluations that have it."""
    return [row[name] for row in record(folder).rows() if name in row]


_SERIES: dict[tuple[Path, tuple[str, ...]], "list[Experiment]"] = {}


def runs_on_record(run: "Experiment") -> "list[Experiment]":
    """Return the runs on record that differ from a run in nothing but a seed of its series.

    The same runs are returned as long as the folder has the same names: many tables and claims ask.
    """
    folder = run.folder()
    key = folder, tuple(names(folder.parent))
    if key not in _SERIES:
        seeds = _names_by_seed(folder.parent, run.scale, run.seed, run.digests)
        _SERIES[key] = run.with_seeds([*seeds])
    return [*_SERIES[key]]


def siblings(run: Record) -> list[Record]:
    """Return the records that differ from a record in nothing but a seed of its series."""
    identity = run.identity
    digests = partial(digests_of, around_seed(identity))
    by_seed = _names_by_seed(run.folder.parent, identity["scale"], identity["seed"], digests)
    return [record(run.folder.with_name(name)) for name in by_seed.values()]


def _names_by_seed(
    parent: Path, scale: str, seed: int, digests: Callable[[list[int]], list[str]]
) -> dict[int, str]:
    """Return by seed, sorted, the names of runs that differ in nothing but a seed of its series.

    `digests` returns what identifies these runs, one digest per seed.
    """
    seeds = sorted(_seeds_by_series(parent).get((scale, seed_series(seed)), ()))
    present = set(names(parent))
    by_seed = {}
    for entry, digest in zip(
        seeds,
        digests(seeds),
        strict=True,
    ):
        name = f"{scale}-seed{entry}-{digest}"
        if name in present:
            by_seed[entry] = name
    return by_seed


@once
def _seeds_by_series(parent: Path) -> dict[tuple[str, int], set[int]]:
    """Return the seeds of a folder's runs by scale and series."""
    seeds: dict[tuple[str, int], set[int]] = defaultdict(set)
    for name in names(parent):
        match = integrity.NAME.fullmatch(name)
        if match:
            seed = int(match[2])
            seeds[match[1], seed_series(seed)].add(seed)
    return seeds
