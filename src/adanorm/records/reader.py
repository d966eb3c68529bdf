"""The table of runs: every record is read once in a process, from its folder or from its line in the store.

A folder of runs or analyses has live records, <folder>/<name>/result.json, and kept ones, the lines of
<folder>.jsonl. A record that is not whole is named in a warning, once, and counts nowhere.
"""

from __future__ import annotations

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
from adanorm.files import digest_of, whole
from adanorm.process import VARIABLE
from adanorm.records import check, store
from adanorm.records.result import AnalysisResult, Ended, Result

if TYPE_CHECKING:
    from adanorm.metrics.by_example import Counts

SCHEMA = 1
MERGED = "[0-9][0-9][0-9]-*"  # the folders of contributions, in the order they were merged
SERIES = (40, 100)  # the last seed of the first plan, and of the plans after it (conf/claims/paper.yaml)


def seed_series(seed: int) -> int:
    """Return the series of a seed: 0 of the first plan, 1 of fresh seeds, 2 of seeds that choose settings.

    What a setting was chosen by is no evidence of what it is worth, and what one plan decided is not
    decided again by the seeds of another.
    """
    return bisect_left(SERIES, seed)


class Record:
    """What a run or an analysis left behind; each file is read when it is first asked for.

    `folder` is where the files lie or, of a kept record, would lie, whose `line` of the store has them.
    """

    def __init__(self, folder: Path, line: store.Line | None = None) -> None:
        self.folder, self.line = folder, line
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def names(self) -> list[str]:
        """Return the names of the record's files."""
        if self.line is not None:
            return self.line.names()
        code = (path.relative_to(self.folder).as_posix() for path in sorted(self.folder.glob("code/**/*")))
        return [*filter(self.has, (*check.FILES, "result.json", *code))]

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file of the record; None where it has none of that name."""
        if self.line is not None:
            return self.line.content(name)
        path = self.folder / name
        if path.is_file() and path.stat().st_size > check.LARGEST:
            raise ValueError(f"{name} has more than {check.LARGEST:,} bytes")
        return path.read_bytes() if path.is_file() else None

    def has(self, name: str) -> bool:
        """Return whether the record has a file of a name."""
        return (self.folder / name).is_file() if self.line is None else self.line.has(name)

    def contents(self) -> dict[str, bytes]:
        """Return the record's files by name."""
        return {name: content for name in self.names() if (content := self.content(name)) is not None}

    @property
    def contribution(self) -> str | None:
        """The name of the contribution that the record came with; None of one made here."""
        folder = self.line.file.parent.parent if self.line else None
        return folder.name if folder and folder.parent.name.endswith(CONTRIBUTED) else None

    def text(self, name: str) -> str:
        """Return the text of a file of the record, empty where there is none."""
        return (self.content(name) or b"").decode()

    @cached_property
    def ended(self) -> Ended | None:
        """What the record came to; None where it has not ended or, after a warning, is not whole."""
        try:
            return self.checked() if self.has("result.json") else None
        except (OSError, ValueError) as error:
            warnings.warn(f"{self.folder / 'result.json'} is not counted: {one_line(error)}", stacklevel=1)
            return None

    def checked(self) -> Ended:
        """Return what the record came to; raises ValueError, which says why, where that does not count."""
        if not self.has("result.json"):
            raise ValueError("it has not ended, or is no record")
        values, line = self.values, self.line
        if line is not None and not line.is_whole:
            raise ValueError(f"its line in {line.file.name} is not what was written")
        if values is None:
            raise ValueError("it is no JSON object")
        if (schema := values.get("schema")) != SCHEMA:
            raise ValueError(f"schema {schema!r} is not {SCHEMA}")
        kind: type[Ended] = AnalysisResult if "analysis" in values else Result
        try:
            ended = kind.model_validate(whole(values) if line is None else values)
        except ValidationError as error:
            wrong = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, wrong['loc'])) or 'it'}: {wrong['msg'].lower()}") from None
        if line is None:  # a kept record was checked when it was kept, and its line has a checksum of all
            check.check(self.folder, self.content, ended)
        return ended

    @property
    def values(self) -> dict[str, Any] | None:
        """What result.json says, unchecked; None where it says nothing."""
        with suppress(OSError, ValueError):
            return check.json_object("result.json", self.content("result.json") or b"")
        return None

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What makes the run the run it is, as config.yaml has it."""
        return check.settings_of(self.text("config.yaml"))

    @cached_property
    def environment(self) -> dict[str, Any]:
        """What the run was computed with: commit, packages, device; empty where nothing says."""
        with suppress(ValueError):
            return check.environment_of(self.content("environment.json") or b"{}")
        return {}

    @property
    def norm_backend(self) -> str:
        """What computed the norms; what a record does not say was `eager`: there were no others then."""
        return str(self.environment.get("norm_backend", "eager")).partition(":")[0]

    @property
    def arithmetic(self) -> str | None:
        """What decided the last digits of the run; None where the record does not say.

        By these a score differs as by another seed: the version of our own numerics (of a record that names
        none, 1), whether our kernels computed its norms, PyTorch's version, the processor, and whether it was
        held to portable arithmetic.
        """
        if not (facts := self.environment):
            return None
        numerics = f"numerics {facts.get('numerics_version', 1)}"
        kernels = "" if "norm_backend" in facts else " before the norms' kernels"
        held = f", {held_to} arithmetic" if (held_to := facts.get("arithmetic", {}).get(VARIABLE)) else ""
        torch = facts.get("packages", {}).get("torch")
        return f"{numerics}{kernels}, torch {torch}, {facts.get('device')}{held}"

    def rows(self, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
        """Return the rows of a file of JSON lines; raises ValueError, which names a line that is none."""
        if name not in self._rows:
            self._rows[name] = check.rows_of(name, self.content(name) or b"")
        return self._rows[name]

    def outputs(self) -> list[str]:
        """Return the test set's outputs, one per example; raises ValueError where they cannot be read."""
        try:
            text = check.unpacked(self.content(check.OUTPUTS) or b"")
        except ValueError as error:
            raise ValueError(f"{self.folder}: {error}") from None
        # Only a line feed ends a line: a translation may hold what else ends one for Python.
        return text.decode(errors="surrogateescape").split("\n")[:-1]

    @cached_property
    def outputs_digest(self) -> str:
        """The digest of the test set's outputs, by which a comparison by examples names what it compares."""
        if self.line:
            return str(self.line.values.get("outputs"))
        return check.outputs_digest(check.unpacked(self.content(check.OUTPUTS) or b""))

    @cached_property
    def counts(self) -> dict[str, Counts]:
        """What was counted of each test example, by metric; empty where nothing is on record.

        After a warning also where it is of other outputs, or makes other scores than those on record.
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
State: TypeAlias = tuple[int, int, int] | None  # of a file: when it was changed, its size; None: not there


def record(folder: Path) -> Record:
    """Return the record of a run's or an analysis' folder, which need not exist.

    A whole line comes first, then what ran here, then what was contributed.
    """
    kept = _kept(folder.parent).get(folder.name)
    if kept and kept.line and kept.line.is_whole:
        return kept
    if not (folder / "result.json").exists():
        return next(iter(contributed(folder)), kept or Record(folder))
    return _live(folder, tuple(_state(folder / name) for name in ("result.json", *check.FILES)))


@cache
def _live(folder: Path, states: tuple[State, ...]) -> Record:
    return Record(folder)


def _state(path: Path) -> State:
    with suppress(OSError):
        state = path.stat()
        if S_ISREG(state.st_mode):  # a pipe would be read for ever
            return state.st_mtime_ns, state.st_ctime_ns, state.st_size
    return None


def _kept(parent: Path, file: Path | None = None) -> dict[str, Record]:
    """Return the records of a folder by name that its file or `file` keeps, read again where that changed."""
    file = file or store.file_of(parent)
    return {} if (state := _state(file)) is None else _records(parent, file, state)


@lru_cache(maxsize=4096)
def _records(parent: Path, file: Path, state: State) -> dict[str, Record]:
    return {name: Record(parent / name, line) for name, line in store.lines(file).items()}


def _contributed(parent: Path) -> Iterator[dict[str, Record]]:
    """Yield the records of a folder that each contribution has, by name, in the order they were merged."""
    for folder in sorted(contributed_folder(parent.parent.parent).glob(MERGED)):
        yield _kept(parent, store.file_of(folder / parent.parent.name / parent.name))


def contributed(folder: Path) -> list[Record]:
    """Return the whole records of a run's folder that were contributed, in the order they were merged."""
    kept = (of_parent.get(folder.name) for of_parent in _contributed(folder.parent))
    return [one for one in kept if one and one.line and one.line.is_whole]


def names(parent: Path) -> list[str]:
    """Return the names of a folder's records, kept, live and contributed ones, in order."""
    live = (path.name for path in parent.iterdir() if path.is_dir()) if parent.exists() else ()
    return sorted({*_kept(parent), *live}.union(*_contributed(parent)))


def records(root: Path) -> Iterator[Record]:
    """Yield the records in a folder of runs or of analyses that have ended, whole or not, in order."""
    live = {path.parent.parent for path in root.rglob("result.json")}
    merged = contributed_folder(root).glob(MERGED)
    of_others = {root / parent.relative_to(folder) for folder in merged for parent in store.parents(folder)}
    for parent in sorted(live | {*store.parents(root)} | of_others):
        for name in names(parent):
            if (one := record(parent / name)).has("result.json"):
                yield one


def result(folder: Path, *, dry_run: bool = False) -> Result | None:
    """Return the result of a run, or None where it has not ended; of a dry run only where that is asked for.

    Warns of, and does not count, a result that cannot be read, has another schema, or is not whole.
    """
    ended = record(folder).ended
    return ended if isinstance(ended, Result) and (ended.dry_run is not None) == dry_run else None


def is_complete(folder: Path) -> bool:
    """Return whether a run or an analysis need not be run again: what failed or is broken is."""
    ended = record(folder).ended
    return ended is not None and ended.is_complete


def curve(folder: Path, name: str) -> list[float]:
    """Return a metric's values, such as those of valid_loss, at each of a run's evaluations that has it."""
    return [row[name] for row in record(folder).rows() if name in row]


def runs_on_record(run: Experiment) -> list[Experiment]:
    """Return the runs of a run's series that differ from it in their seed alone and are there, by seed."""
    return [run.model_copy(update={"seed": s}) for s in _seeds(run.folder().parent, run.identity)]


def alike(one: Record) -> list[Record]:
    """Return the records of a record's series that differ from it in their seed alone, by seed."""
    return [record(one.folder.with_name(name)) for name in _seeds(one.folder.parent, one.identity).values()]


def _seeds(parent: Path, identity: dict[str, Any]) -> dict[int, str]:
    """Return the names of a folder's runs that have an identity but for the seed, of its series."""
    present, scale, series = {*names(parent)}, identity["scale"], seed_series(identity["seed"])
    of_scale = (named for name in present if (named := check.NAME.fullmatch(name)) and named[1] == scale)
    seeds = sorted(seed for seed in {int(named[2]) for named in of_scale} if seed_series(seed) == series)
    digests = {seed: digest_of({**identity, "seed": seed}) for seed in seeds}
    wanted = {seed: f"{scale}-seed{seed}-{digest}" for seed, digest in digests.items()}
    return {seed: name for seed, name in wanted.items() if name in present}
