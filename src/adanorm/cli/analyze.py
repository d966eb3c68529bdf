"""Observe what a norm does while runs train, or without a run; write a table and figures.

Each analysis is a file in conf/analysis. It says what is observed, on which tasks and norms, and
how often. Completed records are skipped.
"""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from adanorm.analyses.spec import Analysis, AnalysisRecord, analysis_grid, load_analysis
from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.config.paths import PROJECT, choices
from adanorm.config.titles import counted
from adanorm.records import reader
from adanorm.records.folder import HeldError, is_locked, path_text
from adanorm.reporting.tables.analysis import analysis_markdown, write_analysis
from adanorm.runs.execute import compatible_norm

USAGE = Usage(
    name="ANALYSIS",
    choices=partial(choices, "analysis"),
    keys={
        "task": Key("one or more, such as mnist,rt (default: the analysis's own)", also=("tasks",)),
        "norm": Key("one or more, such as layernorm,adanorm", also=("norms",)),
        "scale": Key("paper, open, small, mini or smoke (default: the analysis's own)"),
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
    """Make the missing records of an analysis, write its table and figures, and print the table."""
    from adanorm.reporting.figures.over_updates import over_updates  # imports matplotlib
    from adanorm.reporting.figures.style import write_figure

    name, runs = arguments.names[0], folder_of(arguments.keys["runs"])
    standard = load_analysis(name)
    settings, overrides = _analysis_settings(standard, arguments)
    analysis = load_analysis(name, settings)
    grid = analysis_grid(analysis, runs=runs, overrides=overrides)
    records = [record for cell in grid.values() for record in cell]
    missing = [record for record in records if not reader.is_complete(record.folder())]
    print(f"{analysis.name}: {counted(len(records), 'record')}, {len(missing)} to run", flush=True)
    if missing:
        _observe(missing)
    print(analysis_markdown(analysis, grid))
    # Only the analysis as its YAML has it replaces the committed tables and figures.
    is_standard = analysis.settings() == standard.settings() and analysis.scale == standard.scale
    folder = Path(runs) if runs else PROJECT / "outputs" / "analyses"
    if runs is None and is_standard and not overrides:
        analysis, grid, folder = standard, analysis_grid(standard), PROJECT / "results"
    paths = write_analysis(
        analysis,
        grid,
        folder / "tables",
    )[:1]
    for task in analysis.tasks:
        drawing = over_updates(analysis, grid, task)
        if drawing:
            paths += write_figure(drawing, folder / "figures")[:1]
    print("\n".join(path_text(path) for path in paths))


def _observe(missing: Sequence[AnalysisRecord]) -> None:
    """Make records.

    One that another process holds comes last: it is made here if left unfinished there.
    """
    from adanorm.analyses.along_training import make

    for record in missing:
        if record.analysis.tasks:
            compatible_norm(record.experiment)  # before any work
    waiting = dict(enumerate(missing, 1))
    while waiting:
        for number, record in [*waiting.items()]:
            print(f"[{number}/{len(missing)}] {record.about}", flush=True)
            try:
                make(record)
                del waiting[number]
            except HeldError:
                print("  held by another process", flush=True)
        while waiting and all(is_locked(record.folder()) for record in waiting.values()):
            time.sleep(1)


def _analysis_settings(
    analysis: Analysis, arguments: Arguments
) -> tuple[dict[str, str], list[str]]:
    """Return the settings of the analysis, as on the command line, and its runs' overrides."""
    keys = arguments.keys
    settings, overrides = {}, []
    for setting in arguments.settings:
        key, _, value = setting.partition("=")
        if key in (*analysis.options, "steps", "every"):
            settings[key] = value
        else:
            overrides.append(setting)
    if not analysis.tasks:
        of_a_run = [text for text in overrides if not text.lstrip("+~").startswith("norm.")]
        if keys["task"]:
            of_a_run.insert(0, "task=")
        if of_a_run:
            raise ValueError(
                f"{of_a_run[0]}:"
                f" {analysis.name} trains nothing; it has no task, and no run's settings"
            )
    for field, key in (("tasks", "task"), ("norms", "norm"), ("seeds", "seeds")):
        if keys[key]:
            settings[field] = f"[{keys[key]}]"
    if keys["scale"]:
        settings["scale"] = keys["scale"]
    return settings, overrides
