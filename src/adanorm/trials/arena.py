"""The table of norms: every norm that was on trial, in groups that are not told apart."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.text import markdown_table
from adanorm.stats.comparison import Interval
from adanorm.trials.entrant import FIRST, Entrant
from adanorm.trials.page import row_text
from adanorm.trials.reading import Reading, Records, read_trial, sources
from adanorm.trials.rules import REFERENCE, Optimizer, Rules

HERE = "this repository"
DECIDED = ("better", "worse", "equivalent")
HEADER = (
    "Rank", "Norm", "Answer", "Mean lead", "Beds", "Runs each", "Tries (LayerNorm's)", "Source",
    "Date", "By", "Digest",
)  # fmt: skip


class Entry(NamedTuple):
    """A trial of a norm by one contributor."""

    reading: Reading
    by: str  # who contributed it, or this repository
    date: str  # of the contributor's first contribution
    is_contested: bool = False

    @property
    def interval(self) -> Interval:
        """The interval of the mean lead at the look that decided; without one, all numbers."""
        look = self.reading.decided_at
        interval = self.reading.interval(look) if look else None
        return interval or Interval(float("-inf"), float("inf"))

    @property
    def mean(self) -> float | None:
        """The mean lead in margins."""
        look = self.reading.decided_at
        mean = self.reading.mean(look) if look else None
        return None if mean is None else mean.value


def entries(rules: Rules, runs: str | None = None, optimizer: Optimizer = "adam") -> list[Entry]:
    """Return the trials on record with a first look, the best first."""
    folders = sources(runs, alone=True)
    records = Records(rules, folders)
    by_author: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        by_author[_author(folder)].append(folder)
    unmarked: list[Entry] = []
    for author, its_folders in by_author.items():
        date = min(str(_contribution(folder).get("date", "-")) for folder in its_folders)
        for entrant in _entrants(records, its_folders, optimizer):
            reading = read_trial(records, entrant, optimizer, its_folders)
            if reading.look is not None:
                unmarked.append(Entry(reading, author, date))
    marked = [entry._replace(is_contested=_is_contested(entry, unmarked)) for entry in unmarked]
    return sorted(marked, key=lambda entry: -(entry.mean or 0.0))


def _entrants(records: Records, folders: Sequence[Path], optimizer: Optimizer) -> list[Entrant]:
    """Return the norms with fresh runs in some folders."""
    entrants: dict[str, Entrant] = {}
    for bed in records.rules.beds:
        for run in records.of(bed, folders):
            is_fresh = run.result.seed >= FIRST and run.optimizer == optimizer
            if is_fresh and run.entrant.name != REFERENCE:
                entrants.setdefault(run.entrant.digest, run.entrant)
    return [*entrants.values()]


def _author(source: Path) -> str:
    """Return who contributed a folder; of a contribution without a name, its folder's name."""
    return str(_contribution(source).get("by") or f"contribution {source.name}")


def _contribution(source: Path) -> dict[str, object]:
    """Return who wrote a contribution and when; of a folder that is none, this repository."""
    path = source / "contribution.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else {"by": HERE}


def _is_contested(entry: Entry, all_entries: Sequence[Entry]) -> bool:
    """Return whether another trial of the norm has another answer, and both are decided."""
    answers = set()
    for rival in all_entries:
        if rival.reading.entrant.digest == entry.reading.entrant.digest:
            answers.add(rival.reading.answer)
    return len(answers & {*DECIDED}) > 1


def ranks(all_entries: Sequence[Entry]) -> list[int]:
    """Return the rank of each entry: 1 + how many entries lie above it without an overlap.

    Entries that share a rank are not told apart from the best of them.
    """
    lows = [entry.interval.low for entry in all_entries]
    return [1 + sum(low > entry.interval.high for low in lows) for entry in all_entries]


def missing(rules: Rules, all_entries: Sequence[Entry]) -> list[str]:
    """Return the norms of the suite that are expected in the table and have no entry."""
    present = {entry.reading.entrant.name for entry in all_entries}
    return [title(norm) for norm in rules.expected if norm not in present]


def arena_page(rules: Rules, runs: str | None = None) -> str:
    """Return the table of norms in Markdown."""
    lines: list[str] = []
    optimizers: tuple[Optimizer, ...] = ("adam", "muon")
    for optimizer in optimizers:
        table = entries(rules, runs, optimizer)
        if optimizer == "muon":
            if not table:
                break
            lines += ["", "## Under Muon", ""]
        lines += _section(rules, table)
        lacking = missing(rules, table)
        if lacking and optimizer == "adam":
            lines += ["", f"Not run yet: {', '.join(lacking)}."]
    return "\n".join([*lines, ""])


def _section(rules: Rules, table: Sequence[Entry]) -> list[str]:
    if not table:
        return ["No norm has been on trial yet."]
    rows = []
    for rank, entry in zip(ranks(table), table, strict=True):
        rows.append(_row(rank, entry))
    lines = markdown_table(HEADER, sorted(rows, key=lambda row: int(row[0])))
    lines += ["", "### Bed by bed", ""]
    header = ("Norm", "By", "Bed", "Runs each", "Lead", "Sign", "Size", "Tries", "Chosen")
    beds: list[tuple[str, ...]] = []
    for entry in table:
        for row in entry.reading.read:
            beds.append((_name(entry), entry.by, *row_text(row)[:7]))
    return [*lines, *markdown_table(header, beds)]


def _row(rank: int, entry: Entry) -> tuple[str, ...]:
    reading, interval = entry.reading, entry.interval
    lead = "-"
    if entry.mean is not None:
        lead = f"{entry.mean:+.2f} ({interval.text(2)})"
    answer = f"{reading.answer}, **contested**" if entry.is_contested else reading.answer
    counts = set()
    for row in reading.read:
        counts.add(f"{len(row.norm.tried)} ({len(row.reference.tried)})")
    tries = ", ".join(sorted(counts))
    beds = f"{len(reading.read)} of {len(reading.rows)}"
    runs = f"{reading.decided_at}"
    source = _source(reading)
    return (
        str(rank), _name(entry), answer, lead, beds, runs, tries, source, entry.date, entry.by,
        f"`{reading.entrant.digest}`",
    )  # fmt: skip


def _name(entry: Entry) -> str:
    return title(entry.reading.entrant.name)


def _source(reading: Reading) -> str:
    """Return where a norm's code is: the suite, or its records, which have it."""
    for row in reading.rows.values():
        for run in row.norm.fresh.values():
            names = reader.record(run.run.folder()).contents()
            files = [name.removeprefix("code/") for name in names if name.startswith("code/")]
            return ", ".join(files) or "the suite"
    return "-"
