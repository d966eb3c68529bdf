"""Add the runs of a contribution, a file of `adanorm contribute`, to the records.

The file is checked first: digests, checksums, and scores, which are computed again from the counts
per example. Nothing in it is executed. Each run is shown beside the runs here. Golden losses show
whether both machines compute the same. The runs go to results/runs-contributed, and tables mark
them.
"""

import textwrap
from collections import defaultdict
from pathlib import Path

from adanorm.cli.command import WIDTH, Arguments, Key, Usage, folder_of, true_or_false
from adanorm.config.titles import METRICS, counted, mean_text
from adanorm.records import contribution, reader
from adanorm.records.environment import code_text
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
    runs = folder_of(arguments.keys["runs"])
    is_added = true_or_false("add", arguments.keys["add"])
    heading, records = contribution.read_contribution(Path(arguments.names[0]), runs)
    machine, count = heading["environment"], counted(len(records), "run")
    lines = [f"{count}, {machine['device']}, commit {code_text(machine)}"]
    lines.append(_golden(heading["golden"]))
    lines += map(_beside_ours, records)
    for line in lines:
        print(
            textwrap.fill(
                line,
                WIDTH,
                subsequent_indent="    ",
                break_on_hyphens=False,
            )
        )
    if not is_added:
        print("not added")
        return
    folder = contribution.add(heading, records, runs)
    if folder is None:
        print("nothing new")
        return
    print(f"added: {path_text(folder)}")
    if runs is None:
        print("next: scripts/regenerate, or the command of a study, shows them; commit both")


def _golden(theirs: dict[str, list[float]]) -> str:
    """Return one line on how the golden losses there agree with those of this machine."""
    from adanorm.runs.golden import golden_losses

    ours = golden_losses(theirs)
    pairs_by_kind = defaultdict(list)
    for pair, losses in theirs.items():
        if len(ours.get(pair, ())) != len(losses):
            pairs_by_kind["not computed here"].append(pair)
            continue
        gaps = [
            abs(a - b) / abs(b)
            for a, b in zip(
                losses,
                ours[pair],
                strict=True,
            )
        ]
        gap = max(gaps, default=0.0)
        if gap == 0:
            pairs_by_kind["to the bit"].append(pair)
        else:
            kind = "within rounding" if gap <= ROUNDING else "beyond rounding"
            pairs_by_kind[kind].append(f"{pair} ({gap:.0e})")
    texts = [f"{', '.join(pairs)} {kind}" for kind, pairs in pairs_by_kind.items()]
    return f"golden losses there and here: {'; '.join(texts) or 'none'}"


def _beside_ours(contributed: Record) -> str:
    """Return a line on a contributed run and on the runs here with its settings."""
    name = "/".join(contributed.folder.parts[-3:])
    if contribution.is_here(contributed):
        return f"{name}: here already"
    ours = reader.record(contributed.folder)
    if ours.ended is not None and ours.ended.is_complete:
        return f"{name}: repeated elsewhere, {elsewhere(ours, contributed)}"
    metric = METRICS[contributed.identity["task"]["metric"]]
    score, scores = score_of(contributed), scores_alike(contributed)
    text = "diverged" if score is None else metric.text(score)
    beside = "none"
    if scores:
        mean = mean_text(scores, metric.decimals(scores[0]))
        beside = f"{mean} of {counted(len(scores), 'seed')} here"
    return f"{name}: new, {text} beside {beside}"
