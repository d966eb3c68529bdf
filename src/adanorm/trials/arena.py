"""The table of norms: every norm that was on trial, in groups that are not told apart."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from adanorm.config.titles import listed, title
from adanorm.records import reader
from adanorm.reporting.text import markdown
from adanorm.stats.comparison import Interval
from adanorm.trials.entrant import FIRST, Entrant
from adanorm.trials.page import beside_text
from adanorm.trials.reading import Reading, Records, read_trial, sources
from adanorm.trials.rules import OPTIMIZERS, REFERENCE, Optimizer, Rules

HERE = "this repository"
DECIDED = ("better", "worse", "equivalent")
NOT_TOLD = Interval(float("-inf"), float("inf"))


class Entry(NamedTuple):
    """A trial of a norm by one contributor."""

    reading: Reading
    by: str  # who contributed it, or this repository
    date: str  # of the contributor's first contribution; empty for this repository
    is_contested: bool = False

    @property
    def name(self) -> str:
        """The norm's title."""
        return markdown(title(self.reading.entrant.name))

    @property
    def mean(self) -> float:
        """The mean lead in margins; 0 without one."""
        return self.reading.verdict.mean or 0.0

    @property
    def interval(self) -> Interval:
        """The interval of the mean lead at the look that decided; without one, all numbers."""
        return self.reading.verdict.interval or NOT_TOLD


def entries(rules: Rules, runs: str | None, optimizer: Optimizer) -> list[Entry]:
    """Return the trials on record with a first look, the best first."""
    folders = sources(runs, alone=True)
    records = Records(rules, folders)
    by_author: dict[str, list[Path]] = defaultdict(list)
    for folder in folders:
        by_author[_author(folder)].append(folder)
    table: list[Entry] = []
    for author, its_folders in by_author.items():
        date = min(str(_contribution(folder).get("date", "")) for folder in its_folders)
        for entrant in _entrants(records, its_folders, optimizer):
            reading = read_trial(records, entrant, optimizer, its_folders)
            if reading.look is not None:
                table.append(Entry(reading, author, date))
    contested = _contested(table)
    marked = []
    for entry in table:
        is_contested = entry.reading.entrant.digest in contested
        marked.append(entry._replace(is_contested=is_contested))
    return sorted(marked, key=lambda entry: entry.mean, reverse=True)


def _entrants(records: Records, folders: Sequence[Path], optimizer: Optimizer) -> list[Entrant]:
    """Return the norms with fresh runs in some folders."""
    entrants: dict[str, Entrant] = {}
    for bed in records.rules.beds:
        for run in records.on(bed, folders):
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


def _contested(table: Iterable[Entry]) -> set[str]:
    """Return the digests of norms whose decided trials have different answers."""
    answers: dict[str, str] = {}
    contested = set()
    for entry in table:
        answer = entry.reading.answer
        if answer in DECIDED:
            digest = entry.reading.entrant.digest
            earlier = answers.setdefault(digest, answer)
            if earlier != answer:
                contested.add(digest)
    return contested


def rank_groups(table: Sequence[Entry]) -> dict[int, list[Entry]]:
    """Return the entries by rank: 1 + how many entries lie above one without an overlap.

    Entries that share a rank are not told apart from the best of them.
    """
    groups: dict[int, list[Entry]] = defaultdict(list)
    for entry in table:
        high = entry.interval.high
        above = [rival for rival in table if rival.interval.low > high]
        rank = 1 + len(above)
        groups[rank].append(entry)
    return dict(sorted(groups.items()))


def missing(rules: Rules, table: Sequence[Entry]) -> list[str]:
    """Return the norms of the suite that are expected in the table and have no entry."""
    present = {entry.reading.entrant.name for entry in table}
    return [title(norm) for norm in rules.expected if norm not in present]


def arena_page(rules: Rules, runs: str | None = None) -> str:
    """Return the table of norms in Markdown."""
    lines: list[str] = []
    for optimizer in OPTIMIZERS:
        table = entries(rules, runs, optimizer)
        if optimizer == "adam":
            lines += _section(table) or ["No norm has been on trial yet."]
            lacking = missing(rules, table)
            if lacking:
                lines += ["", f"Not run yet: {', '.join(lacking)}."]
        elif table:
            lines += ["", "## Under Muon", "", *_section(table)]
    return "\n".join([*lines, ""])


def _section(table: Sequence[Entry]) -> list[str]:
    """Return a line per rank, a table of answers, and a line of origin per entry."""
    if not table:
        return []
    ranks: list[str] = []
    origins: list[str] = []
    answers: list[tuple[str, ...]] = [("Norm", "Answer", "Lead", "Interval", "n", "Tries")]
    for rank, group in rank_groups(table).items():
        names = [f"{entry.name} {entry.mean:+.2f}" for entry in group]
        ranks.append(_filled(f"- **{rank}.** {', '.join(names)}"))
        answers += map(_answer, group)
        origins += map(_origin, group)
    return [*ranks, "", *_aligned(answers), "", *origins]


def _answer(entry: Entry) -> tuple[str, ...]:
    """Return the cells of an entry's row."""
    reading = entry.reading
    answer: str = reading.answer
    if entry.is_contested:
        answer += ", contested"
    mean, interval = "-", "-"
    if reading.verdict.interval is not None:
        mean, interval = f"{entry.mean:+.2f}", reading.verdict.decisive.text(2)
    tries = set()
    for row in reading.read:
        counts = [f"{len(side.tried)}" for side in row.sides]
        tries.add(beside_text(*counts))
    return entry.name, answer, mean, interval, f"{reading.decided_at}", ", ".join(sorted(tries))


def _origin(entry: Entry) -> str:
    """Return an entry's beds, source, digest, contributor and date, as an item of a list."""
    reading = entry.reading
    fresh = next(iter(reading.read[0].norm.fresh.values()))
    record = reader.record(fresh.run.folder())
    files = [name.removeprefix("code/") for name in record.contents() if name.startswith("code/")]
    source = markdown(", ".join(files)) or "the suite"
    beds = listed([row.bed.title for row in reading.read])
    date = entry.date or f"commit {record.environment.get('commit', '-')[:8]}"
    facts = f"on {beds}; code: {source}, digest `{reading.entrant.digest}`"
    return _filled(f"- **{entry.name}** {facts}; by {markdown(entry.by)}, {date}")


def _filled(text: str) -> str:
    """Return an item of a list in lines of a terminal's width."""
    return fill(text, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a Markdown table, its header first, whose columns also line up in a terminal."""
    columns = []
    for cells in zip(*rows, strict=True):
        width = max(map(len, cells))
        column = [text.ljust(width) for text in cells]
        column.insert(1, "-" * width)
        columns.append(column)
    lines = zip(*columns, strict=True)
    return [f"| {' | '.join(fields)} |" for fields in lines]
