"""Which runs of a table were made elsewhere: contributed, or repeated there beside the one that counts."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.text import markdown
from adanorm.verdicts.repetition import elsewhere


def origins(one: reader.Record) -> list[str]:
    """Return where else than here a run that counts was made; nothing of most."""
    given = [f"contributed, {one.environment['device']}, {one.contribution}"] if one.contribution else []
    return given + [f"repeated elsewhere, {elsewhere(one, other)}" for other in reader.repeats(one.folder)]


def mark(folders: Iterable[Path]) -> str:
    """Return how many runs of a cell were contributed, and how many repeated elsewhere, in brackets."""
    texts = (text for folder in folders for text in origins(reader.record(folder)))
    kinds = Counter(text.partition(",")[0] for text in texts)
    return f" [{', '.join(f'{count} {kind}' for kind, count in sorted(kinds.items()))}]" if kinds else ""


def origin_note(records: Iterable[reader.Record]) -> list[str]:
    """Return in Markdown which of the records that count were made elsewhere; nothing where none was."""
    texts = [
        f"{' '.join(map(title, one.folder.parts[-3:-1]))} seed {one.identity['seed']} {text}"
        for one in records
        for text in origins(one)
    ]
    return [markdown(f"Made elsewhere: {'; '.join(texts)}. All others: committed here.")] if texts else []
