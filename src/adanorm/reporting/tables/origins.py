"""Which runs of a table were made elsewhere: contributed, or repeated there beside the one that counts."""

from collections.abc import Iterable
from pathlib import Path

from adanorm.config.titles import title
from adanorm.records import reader
from adanorm.reporting.text import markdown
from adanorm.verdicts.repetition import elsewhere


def mark(folders: Iterable[Path]) -> str:
    """Return how many runs of a cell were contributed, and how many repeated elsewhere, in brackets."""
    records = [reader.record(folder) for folder in folders]
    counts = {
        "contributed": sum(one.contribution is not None for one in records),
        "repeated elsewhere": sum(bool(reader.repeats(one.folder)) for one in records),
    }
    marks = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    return f" [{marks}]" if marks else ""


def origins(records: Iterable[reader.Record]) -> list[str]:
    """Return in Markdown which of the records that count were made elsewhere; nothing where none was."""
    contributed: dict[str, list[int]] = {}
    repeated = []
    for one in records:
        name, seed = " ".join(map(title, one.folder.parts[-3:-1])), one.identity["seed"]
        if one.contribution:
            of = f"{name} ({one.environment['device']}, {one.contribution})"
            contributed.setdefault(of, []).append(seed)
        for other in reader.repeats(one.folder):
            repeated.append(f"{name} seed {seed}, {elsewhere(one, other)}")
    given = [f"{name} seed {', '.join(map(str, seeds))}" for name, seeds in contributed.items()]
    lines = {"Contributed": given, "Repeated elsewhere, which is no further seed": repeated}
    texts = [f"{what}: {markdown('; '.join(of))}." for what, of in lines.items() if of]
    return [" ".join([*texts, "All other runs are committed here."])] if texts else []
