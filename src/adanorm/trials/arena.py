"""The table of norms: every norm that was on trial, in groups that are not told apart."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from adanorm.config.paths import runs_folder
from adanorm.config.titles import listed, title
from adanorm.records import reader
from adanorm.records.contribution import HERE
from adanorm.reporting.text import markdown, markdown_table
from adanorm.trials.entrant import Entrant
from adanorm.trials.inequality import Verdict
from adanorm.trials.page import filled, tries_text
from adanorm.trials.reading import DECIDED, Reading, TrialRun, read_trial, trial_runs
from adanorm.trials.rules import OPTIMIZERS, Optimizer, Rules


class Entry(NamedTuple):
    """A trial of a norm by one contributor, with a first look."""

    reading: Reading
    verdict: Verdict
    by: str  # who contributed it, or this repository
    date: str  # of the contributor's first contribution; empty for this repository

    @property
    def name(self) -> str:
        """The norm's title."""
        return markdown(self.reading.entrant.title)

    @property
    def digest(self) -> str:
        """The norm's digest."""
        return self.reading.entrant.digest

    @property
    def mean(self) -> float | None:
        """The mean lead in margins; None where runs broke."""
        return self.verdict.mean


def arena_page(rules: Rules, runs: str | None = None) -> str:
    """Return the table of norms in Markdown."""
    root = runs_folder(runs)
    on_record = trial_runs(rules, [root, *reader.contributions(root).values()])
    lines = []
    for optimizer in OPTIMIZERS:
        table = entries(rules, on_record, optimizer)
        if optimizer == "adam":
            lines += _section(table) or ["No norm has been on trial yet."]
            entrants = [entry.reading.entrant for entry in table]
            present = {entrant.title for entrant in entrants if entrant.path is None}
            missing = [title(norm) for norm in rules.expected if title(norm) not in present]
            if missing:
                lines += ["", f"Not run yet: {', '.join(missing)}."]
        elif table:
            lines += ["", "## Under Muon", "", *_section(table)]
    return "\n".join([*lines, ""])


def entries(rules: Rules, on_record: Sequence[TrialRun], optimizer: Optimizer) -> list[Entry]:
    """Return the trials with a first look, the best first.

    An entry rests on its author's runs. Tries and runs of LayerNorm that these lack are taken from
    this repository, then from other contributions: equal runs are merged but once.
    """
    by_author = defaultdict(list)
    dates: dict[str, str] = {}
    for run in on_record:
        author, date = author_of(run.source)
        by_author[author].append(run)
        dates.setdefault(author, date)
    shared = [run for run in on_record if run.entrant.is_reference or not run.is_fresh]
    table = []
    for author, theirs in by_author.items():
        entrants: dict[str, Entrant] = {}
        for run in theirs:
            if run.is_fresh and run.optimizer == optimizer and not run.entrant.is_reference:
                entrants.setdefault(run.entrant.digest, run.entrant)
        for entrant in entrants.values():
            reading = read_trial(rules, [*theirs, *shared], entrant, optimizer)
            if reading.verdict is not None:
                table.append(Entry(reading, reading.verdict, author, dates[author]))
    return sorted(table, key=_place, reverse=True)


def _place(entry: Entry) -> float:
    """Return an entry's mean lead; runs that broke come last."""
    return -math.inf if entry.mean is None else entry.mean


def author_of(source: Path) -> tuple[str, str]:
    """Return who contributed a folder of records, and the date, if it is a contribution."""
    path = source / "contribution.json"
    if not path.is_file():
        return HERE, ""
    head = json.loads(path.read_text("utf-8"))
    return head.get("by") or f"contribution {source.name}", head.get("date", "")


def contested(table: Sequence[Entry]) -> set[str]:
    """Return the digests of norms whose decided trials have different answers."""
    answers = defaultdict(set)
    for entry in table:
        answer = entry.verdict.answer
        if answer in DECIDED:
            answers[entry.digest].add(answer)
    return {digest for digest, words in answers.items() if len(words) > 1}


def rank_groups(table: Sequence[Entry]) -> dict[int, list[Entry]]:
    """Return the entries by rank: 1 + how many entries lie above one without an overlap.

    Entries that share a rank are not told apart from the best of them. One whose runs broke has
    none.
    """
    groups = defaultdict(list)
    ranked = [entry for entry in table if entry.mean is not None]
    for entry in ranked:
        rank = 1
        for rival in ranked:
            rank += rival.verdict.interval.low > entry.verdict.interval.high
        groups[rank].append(entry)
    return dict(sorted(groups.items()))


def _section(table: Sequence[Entry]) -> list[str]:
    """Return a line per rank, a table of answers, and an item of origin per entry."""
    if not table:
        return []
    ranks = []
    answers = []
    origins = []
    disputed = contested(table)
    for rank, group in rank_groups(table).items():
        names = [f"{entry.name} {entry.mean:+.2f}" for entry in group]
        ranks.append(filled(f"- **{rank}.** {', '.join(names)}"))
    broken = [entry.name for entry in table if entry.mean is None]
    if broken:
        ranks.append(filled(f"- Without a rank, because runs broke: {', '.join(broken)}"))
    for entry in table:
        answers.append(_answer(entry, is_contested=entry.digest in disputed))
        origins.append(_origin(entry))
    header = ("Norm", "Answer", "Lead", "Interval", "n", "Tries")
    return [*ranks, "", *markdown_table(header, answers), "", *origins]


def _answer(entry: Entry, *, is_contested: bool) -> list[str]:
    """Return the cells of an entry's row."""
    reading, verdict = entry.reading, entry.verdict
    answer: str = verdict.answer
    if is_contested:
        answer += ", contested"
    mean, interval = "-", "-"
    if verdict.mean is not None:
        mean = f"{verdict.mean:+.2f}"
        interval = verdict.decisive.text(2)
    tries = sorted({tries_text(row) for row in reading.read})
    return [entry.name, answer, mean, interval, f"{reading.look}", ", ".join(tries)]


def _origin(entry: Entry) -> str:
    """Return an entry's beds, source, digest, contributor and date, as an item of a list."""
    read = entry.reading.read
    fresh = next(iter(read[0].norm.fresh.values()))
    record = reader.record(fresh.run.folder())
    source = markdown(", ".join(record.code)) or "the suite"
    beds = listed([row.bed.title for row in read])
    commit = (record.environment.get("commit") or "")[:8]
    date = entry.date or f"commit {commit or 'not known'}"
    return filled(
        f"- **{entry.name}**"
        f" on {beds}; code: {source}, digest `{entry.digest}`; by {markdown(entry.by)}, {date}"
    )
