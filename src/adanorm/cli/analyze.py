"""Observe what a norm does while runs train, or without a run; write a table and figures.

Each analysis is a file in conf/analysis. It says what is observed, on which tasks and norms, and how
often. Completed records are skipped.
"""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from adanorm.analyses.spec import AnalysisRecord, analysis_grid, load_analysis
from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.config.paths import PROJECT, choices
from adanorm.models.norm_sites import compatible_norm
from adanorm.records import reader
from adanorm.records.folder import HeldError, is_locked, shown
from adanorm.reporting.tables.analysis import analysis_markdown, write_analysis

USAGE = Usage(
    name="ANALYSIS",
    choices=partial(choices, "analysis"),
    keys={
        "task": Key("one or more, such as mnist,rt (default: of the analysis, as below)", also=("tasks",)),
        "norm": Key("one or more, such as layernorm,adanorm", also=("norms",)),
        "scale": Key("paper, small, mini or smoke"),
        "seeds": Key("such as 1,2,3", also=("seed",)),
        "runs": Key("folder of the records, table and figures (default: results/)"),
    },
    settings="of the analysis, such as steps=200, or of its runs",
    examples=(
        "gradients task=rt norm=layernorm,adanorm",
        "landscape task=mnist steps=400 probes=16 runs=runs",
    ),
)


def main(arguments: Arguments) -> None:
    """Complete what an analysis lacks, write its table and figures, and print the table."""
    from adanorm.reporting.figures.over_updates import over_updates  # with it matplotlib
    from adanorm.reporting.figures.style import write_figure

    name, runs = arguments.names[0], folder_of(arguments.keys["runs"])
    own, overrides = _analysis_settings(arguments)
    chosen = load_analysis(name, own)
    grid = analysis_grid(chosen, runs=runs, overrides=overrides)
    records = [record for cell in grid.values() for record in cell]
    missing = [record for record in records if not reader.is_complete(record.folder())]
    print(f"{chosen.name}: {len(records)} records, {len(missing)} to run", flush=True)
    if missing:
        _observe(missing)
    print(analysis_markdown(chosen, grid))
    # What is not the YAML's own analysis leaves the committed tables and figures alone.
    standard = load_analysis(name)
    alike = chosen.settings() == standard.settings() and chosen.scale == standard.scale
    place = Path(runs) if runs else PROJECT / "outputs" / "analyses"
    if runs is None and alike and not overrides:
        chosen, grid, place = standard, analysis_grid(standard), PROJECT / "results"
    paths = write_analysis(chosen, grid, place / "tables")[:1]
    for task in chosen.tasks:
        if drawing := over_updates(chosen, grid, task):
            paths += write_figure(drawing, place / "figures")[:1]
    print("\n".join(shown(path) for path in paths))


def _observe(missing: Sequence[AnalysisRecord]) -> None:
    """Make records; what another process holds comes last, and is made here if that leaves it unfinished."""
    from adanorm.analyses.along_training import make

    for record in missing:
        if record.analysis.tasks:
            compatible_norm(record.experiment)  # before any work
    left = dict(enumerate(missing, 1))
    while left:
        for number, record in [*left.items()]:
            print(f"[{number}/{len(missing)}] {record.about}", flush=True)
            try:
                make(record)
                del left[number]
            except HeldError:
                print("  held by another process", flush=True)
        while left and all(is_locked(record.folder()) for record in left.values()):
            time.sleep(1)


def _analysis_settings(arguments: Arguments) -> tuple[dict[str, str], list[str]]:
    """Return the settings of the analysis itself, as on the command line, and those of its runs."""
    known, given = load_analysis(arguments.names[0]), arguments.keys
    options = (*known.options, "steps", "every")
    pairs = [setting.partition("=")[::2] for setting in arguments.settings]
    own = {key: value for key, value in pairs if key in options}
    overrides = [setting for setting in arguments.settings if setting.partition("=")[0] not in options]
    foreign = [setting for setting in overrides if not setting.lstrip("+~").startswith("norm.")]
    if not known.tasks and (given["task"] or foreign):
        first = "task=" if given["task"] else foreign[0]
        raise ValueError(f"{first}: {known.name} trains nothing; it has no task, and no run's settings")
    lists = {"tasks": given["task"], "norms": given["norm"], "seeds": given["seeds"]}
    own |= {key: f"[{value}]" for key, value in lists.items() if value}
    return own | ({"scale": given["scale"]} if given["scale"] else {}), overrides
