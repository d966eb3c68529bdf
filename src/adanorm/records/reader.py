"""The table of runs: a process reads every record once, from its folder or from its line in the store.

A folder of runs or analyses has live records, <folder>/<name>/result.json, and kept records, the
lines of <folder>.jsonl. A record that is not whole is named in one warning and counts nowhere.
"""

import warnings
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import ValidationError

from adanorm.config.errors import one_line
from adanorm.config.experiment import Experiment
from adanorm.config.paths import CONTRIBUTED, contributed_folder
from adanorm.files import digests_of, without_checksum
from adanorm.process import VARIABLE
from adanorm.records import check, store
from adanorm.records.result import AnalysisResult, Ended, Result

if TYPE_CHECKING:
    from adanorm.metrics.by_example import Counts

SCHEMA = 1
MERGED = "[0-9][0-9][0-9]-*"  # the folders of contributions, in the order they were merged
SERIES = (
    40,
    100,
)  # the last seed of the first plan, and of the plans after it (conf/claims/paper.yaml)


def seed_series(seed: int) -> int:
    """Return the series of a seed: 0 for the first plan, 1 for later plans, 2 for seeds that choose settings.

    Series are never mixed: seeds that chose a setting are no evidence for it, and what one plan
    decided is not decided again with the seeds of another.
    """
    return bisect_left(SERIES, seed)


class Record:
    """The record of a run or an analysis; its files are read when they are needed.

    `folder` is where the files lie. A kept record's are in its `line` of the store, and would lie
    there.
    """

    def __init__(self, folder: Path, line: store.Line | None = None) -> None:
        self.folder, self.line = folder, line
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def names(self) -> list[str]:
        """Return the names of the record's files."""
        if self.line is not None:
            return self.line.names
        code = (
            path.relative_to(self.folder).as_posix()
            for path in sorted(self.folder.glob("code/**/*"))
        )
        return [*filter(self.has, (*check.FILES, "result.json", *code))]

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record, or None; raises ValueError if it is too large."""
        if self.line is not None:
            return self.line.content(name)
        path = self.folder / name
        if path.is_file() and path.stat().st_size > check.LARGEST:
            raise ValueError(f"{name} has more than {check.LARGEST:,} bytes")
        return path.read_bytes() if path.is_file() else None

    def has(self, name: str) -> bool:
        """Return whether the record has a file of this name."""
        return (self.folder / name).is_file() if self.line is None else name in self.line.names

    def contents(self) -> dict[str, bytes]:
        """Return the bytes of the record's files by name."""
        return {
            name: content for name in self.names() if (content := self.content(name)) is not None
        }

    @property
    def contribution(self) -> str | None:
        """The name of the contribution that the record came with; None if it was made here."""
        folder = self.line.file.parent.parent if self.line else None
        return folder.name if folder and folder.parent.name.endswith(CONTRIBUTED) else None

    def text(self, name: str) -> str:
        """Return the text of a file of the record, empty if there is no such file."""
        return (self.content(name) or b"").decode()

    @cached_property
    def ended(self) -> Ended | None:
        """The result of the record; None if it has not ended or, with a warning, if it is not whole."""
        try:
            return self.checked() if self.has("result.json") else None
        except (OSError, ValueError) as error:
            warnings.warn(
                f"{self.folder / 'result.json'} is not counted: {one_line(error)}", stacklevel=1
            )
            return None

    def checked(self) -> Ended:
        """Return the result of the record; raises ValueError with the reason if it does not count."""
        if not self.has("result.json"):
            raise ValueError("it has not ended, or is no record")
        values, line = self.values, self.line
        if line is not None and not line.is_whole:
            raise ValueError(f"its line in {line.file.name} has been changed")
        if values is None:
            raise ValueError("it is not a JSON object")
        if (schema := values.get("schema")) != SCHEMA:
            raise ValueError(f"schema {schema!r} is not {SCHEMA}")
        kind: type[Ended] = AnalysisResult if "analysis" in values else Result
        try:
            ended = kind.model_validate(without_checksum(values) if line is None else values)
        except ValidationError as error:
            wrong = error.errors()[0]
            raise ValueError(
                f"{'.'.join(map(str, wrong['loc'])) or 'it'}: {wrong['msg'].lower()}"
            ) from None
        if line is None:  # a kept record was checked before, and its line has a checksum
            check.check(self.folder, self.content, ended)
        return ended

    @property
    def values(self) -> dict[str, Any] | None:
        """The content of result.json, unchecked; None if there is none, or it is not a JSON object."""
        with suppress(OSError, ValueError):
            return check.json_object("result.json", self.content("result.json") or b"")
        return None

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The settings that identify the run, from config.yaml."""
        return check.settings_of(self.text("config.yaml"))

    @cached_property
    def environment(self) -> dict[str, Any]:
        """What the run was computed with: commit, packages, device; empty if it cannot be read."""
        with suppress(ValueError):
            return check.environment_of(self.content("environment.json") or b"{}")
        return {}

    @property
    def norm_backend(self) -> str:
        """What computed the norms; `eager` in older records, which do not say: there was nothing else."""
        return str(self.environment.get("norm_backend", "eager")).partition(":")[0]

    @property
    def arithmetic(self) -> str | None:
        """What decided the last digits of the run, as text; None if the record has no environment.

        Another value of these changes a score as another seed does: the version of our own numerics
        (1 if the record names none), whether it is older than the norms' kernels, PyTorch's
        version, the device, and whether the run was held to portable arithmetic.
        """
        if not (facts := self.environment):
            return None
        numerics = f"numerics {facts.get('numerics_version', 1)}"
        kernels = "" if "norm_backend" in facts else " before the norms' kernels"
        suffix = (
            f", {mode} arithmetic" if (mode := facts.get("arithmetic", {}).get(VARIABLE)) else ""
        )
        torch = facts.get("packages", {}).get("torch")
        return f"{numerics}{kernels}, torch {torch}, {facts.get('device')}{suffix}"

    def rows(self, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
        """Return the rows of a file of JSON lines; raises ValueError naming a line that is not one."""
        if name not in self._rows:
            self._rows[name] = check.json_rows(name, self.content(name) or b"")
        return self._rows[name]

    def outputs(self) -> list[str]:
        """Return the test set's outputs, one per example; raises ValueError if they cannot be read."""
        try:
            text = check.unpacked(self.content(check.OUTPUTS) or b"")
        except ValueError as error:
            raise ValueError(f"{self.folder}: {error}") from None
        # Not splitlines: a translation may hold other characters that end a line for Python.
        return text.decode(errors="surrogateescape").split("\n")[:-1]

    @cached_property
    def outputs_digest(self) -> str:
        """The digest of the test set's outputs; comparisons by example name their runs' outputs by it."""
        if self.line:
            return str(self.line.values.get("outputs"))
        return check.outputs_digest(check.unpacked(self.content(check.OUTPUTS) or b""))

    @cached_property
    def counts(self) -> dict[str, "Counts"]:
        """The counts of the test examples by metric, each (E examples, columns); empty if none are on record.

        With a warning also empty if they are of other outputs, or do not give the scores on record.
        """
        text = self.line.beside(check.COUNTS) if self.line else self.text(check.COUNTS)
        ended = self.ended
        if not text or not isinstance(ended, Result) or ended.status != "done":
            return {}
        try:
            return check.counts_of(text.encode(), self.outputs_digest, ended.test or {})
        except ValueError as error:
            warnings.warn(f"{self.folder}: its examples are not counted: {error}", stacklevel=1)
            return {}


Runs: TypeAlias = list[tuple[Record, Result]]
State: TypeAlias = (
    tuple[int, int, int] | None
)  # of a file: its times of change and its size; None: not there


def record(folder: Path) -> Record:
    """Return the record of a run or an analysis by its folder, which need not exist.

    A whole line of the store comes first, then the folder's own result, then contributions.
    """
    kept_record = _kept(folder.parent).get(folder.name)
    if kept_record and kept_record.line and kept_record.line.is_whole:
        return kept_record
    if not (folder / "result.json").exists():
        return next(iter(contributed(folder)), kept_record or Record(folder))
    return _live(folder, tuple(_state(folder / name) for name in ("result.json", *check.FILES)))


@cache
def _live(folder: Path, states: tuple[State, ...]) -> Record:
    return Record(folder)


def _state(path: Path) -> State:
    with suppress(OSError):
        state = path.stat()
        if S_ISREG(state.st_mode):  # reading a pipe would never end
            return state.st_mtime_ns, state.st_ctime_ns, state.st_size
    return None


def _kept(parent: Path, file: Path | None = None) -> dict[str, Record]:
    """Return a folder's kept records by name, from its file in the store or `file`, read anew if changed."""
    file = file or store.file_of(parent)
    return {} if (state := _state(file)) is None else _records(parent, file, state)


@lru_cache(maxsize=4096)
def _records(parent: Path, file: Path, state: State) -> dict[str, Record]:
    return {name: Record(parent / name, line) for name, line in store.lines(file).items()}


def _contributed(parent: Path) -> Iterator[dict[str, Record]]:
    """Yield each contribution's records of a folder, by name, in the order of merging."""
    for folder in sorted(contributed_folder(parent.parent.parent).glob(MERGED)):
        yield _kept(parent, store.file_of(folder / parent.parent.name / parent.name))


def contributed(folder: Path) -> list[Record]:
    """Return the contributed records of a run that are whole, by its folder, in the order of merging."""
    runs = (by_name.get(folder.name) for by_name in _contributed(folder.parent))
    return [one for one in runs if one and one.line and one.line.is_whole]


def names(parent: Path) -> list[str]:
    """Return the sorted names of a folder's records: kept, live and contributed ones."""
    live = (path.name for path in parent.iterdir() if path.is_dir()) if parent.exists() else ()
    return sorted({*_kept(parent), *live}.union(*_contributed(parent)))


def records(root: Path) -> Iterator[Record]:
    """Yield the records below a folder of runs or analyses that have ended, whole or not, sorted by path."""
    live = {path.parent.parent for path in root.rglob("result.json")}
    merged = contributed_folder(root).glob(MERGED)
    from_others = {
        root / parent.relative_to(folder) for folder in merged for parent in store.parents(folder)
    }
    for parent in sorted(live | {*store.parents(root)} | from_others):
        for name in names(parent):
            if (one := record(parent / name)).has("result.json"):
                yield one


def result(folder: Path, *, dry_run: bool = False) -> Result | None:
    """Return the result of a run, or None if it has not ended; a dry run's only with `dry_run`.

    A result that cannot be read, has another schema or is not whole gives a warning and None.
    """
    ended = record(folder).ended
    return ended if isinstance(ended, Result) and (ended.dry_run is not None) == dry_run else None


def is_complete(folder: Path) -> bool:
    """Return whether a run or an analysis is done or diverged. If it failed or is broken, it is run again."""
    ended = record(folder).ended
    return ended is not None and ended.is_complete


def curve(folder: Path, name: str) -> list[float]:
    """Return the values of a column such as valid_loss at a run's evaluations, without those that lack it."""
    return [row[name] for row in record(folder).rows() if name in row]


def runs_on_record(run: Experiment) -> list[Experiment]:
    """Return the runs on record of a run's series that differ from it only in the seed, sorted by seed."""
    return [run.model_copy(update={"seed": s}) for s in _seeds(run.folder().parent, run.identity)]


def siblings(run: Record) -> list[Record]:
    """Return the records of a record's series that differ from it only in the seed, sorted by seed."""
    return [
        record(run.folder.with_name(name))
        for name in _seeds(run.folder.parent, run.identity).values()
    ]


def _seeds(parent: Path, identity: dict[str, Any]) -> dict[int, str]:
    """Return by seed the names of a folder's runs that have this identity but for the seed, in its series."""
    present, scale, series = {*names(parent)}, identity["scale"], seed_series(identity["seed"])
    of_scale = (
        match for name in present if (match := check.NAME.fullmatch(name)) and match[1] == scale
    )
    seeds = sorted(
        seed for seed in {int(match[2]) for match in of_scale} if seed_series(seed) == series
    )
    digests = zip(seeds, digests_of(identity, seeds), strict=True)
    candidates = {seed: f"{scale}-seed{seed}-{digest}" for seed, digest in digests}
    return {seed: name for seed, name in candidates.items() if name in present}
