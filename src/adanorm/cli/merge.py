"""Add the runs of a contribution, a file of `adanorm contribute`, to the records.

The file is checked first: digests, checksums, and scores, which are computed again from the counts
per example. Nothing in it is executed. Each run is shown beside the runs here. Golden losses show
whether both machines compute the same. The runs go to results/runs-contributed, and tables mark
them.
"""

import textwrap
from pathlib import Path

from adanorm.cli.command import WIDTH, Arguments, Key, Usage, folder_of, true_or_false
from adanorm.config.titles import counted
from adanorm.metrics.table import METRICS, mean_text
from adanorm.records import contribution, reader
from adanorm.records.folder import path_text
from adanorm.records.reader import Record
from adanorm.verdicts.repetition import ROUNDING, elsewhere, score_of, scores_alike

USAGE = Usage(
    name="FILE",
    keys={
        "add": Key("false: show what would be added, and add nothing", "true"),
        "runs": Key("folder of runs; new ones go to RUNS-contributed (default: results/runs)"),
    },
    examples=("mine.jsonl.gz", "mine.jsonl.gz add=false"),
)


def main(arguments: Arguments) -> None:
    """Merge the file that the command line names."""
    runs, is_added = folder_of(arguments.keys["runs"]), true_or_false("add", arguments.keys["add"])
    heading, records = contribution.read_contribution(Path(arguments.names[0]), runs)
    machine, count = heading["environment"], counted(len(records), "run")
    lines = [
        f"{count}, {machine['device']}, commit {machine['commit']}",
        _golden(heading["golden"]),
    ]
    for line in (*lines, *map(_beside, records)):
        print(textwrap.fill(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False))
    folder = contribution.add(heading, records, runs) if is_added else None
    print(f"added: {path_text(folder)}" if folder else "nothing new" if is_added else "not added")


def _golden(theirs: dict[str, list[float]]) -> str:
    """Return one line on how the other machine's golden losses agree with this one's."""
    from adanorm.runs.golden import golden_losses

    ours, pairs_by_kind = golden_losses(theirs), dict[str, list[str]]()
    for pair, losses in theirs.items():
        paired = [*zip(losses, ours.get(pair, ()), strict=False)]
        gap = max((abs(other - own) / abs(own) for other, own in paired), default=0.0)
        kind = (
            "to the bit" if not gap else "within rounding" if gap <= ROUNDING else "beyond rounding"
        )
        kind = kind if len(paired) == len(losses) else "not computed here"
        pairs_by_kind.setdefault(kind, []).append(f"{pair} ({gap:.0e})" if gap else pair)
    texts = [f"{', '.join(pairs)} {kind}" for kind, pairs in pairs_by_kind.items()]
    return f"golden losses there and here: {'; '.join(texts) or 'none'}"


def _beside(other: Record) -> str:
    name, ours, score = (
        "/".join(other.folder.parts[-3:]),
        reader.record(other.folder),
        score_of(other),
    )
    if contribution.is_here(other):
        return f"{name}: here already"
    if reader.is_complete(other.folder):
        return f"{name}: repeated elsewhere, {elsewhere(ours, other)}"
    metric, scores = METRICS[other.identity["task"]["metric"]], scores_alike(other)
    seeds = f"of {counted(len(scores), 'seed')} here"
    beside = f"{mean_text(scores, metric.decimals(scores[0]))} {seeds}" if scores else "none"
    return f"{name}: new, {'diverged' if score is None else metric.text(score)} beside {beside}"
