"""Observe runs as they train, or norms alone: `python -m adanorm.analyse gradients --task mnist`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from adanorm import analyses, compose, study, undefined
from adanorm.config import PROJECT, choices
from adanorm.figures import draw, drawn_analysis
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.reporting import observed
from adanorm.reporting.figures import write
from adanorm.tables import write_analysis

STUDIES = ("batch-size",)  # grids of whole runs


def main() -> int:
    """Make what an analysis lacks, write its table and figures, and print the table; 1 if a run failed."""
    arguments = _arguments()
    if arguments.analysis in STUDIES:
        return _study(arguments)
    own, overrides = _told_apart(arguments)
    chosen = analyses.load(arguments.analysis, own)
    grid = analyses.grid(chosen, runs=arguments.runs, overrides=overrides)
    records = [record for cell in grid.values() for record in cell]
    missing = [record for record in records if not reader.is_made(record.folder())]
    print(f"{chosen.name}: {len(records)} records, {len(missing)} to make", flush=True)
    if missing:
        _make(missing)
    print(observed.terminal(chosen, grid))
    # What is not the YAML's own analysis leaves the committed tables and figures alone.
    standard = analyses.load(arguments.analysis)
    alike = chosen.settings() == standard.settings() and chosen.scale == standard.scale
    if arguments.runs is None and alike and not overrides:
        chosen, grid, place = standard, analyses.grid(standard), PROJECT / "results"
    else:
        place = Path(arguments.runs) if arguments.runs else PROJECT / "outputs" / "analyses"
    paths = write_analysis(chosen, grid, place / "tables")[:1]
    for task in chosen.tasks or [""]:
        if drawing := drawn_analysis(chosen, grid, task):
            paths += write(drawing, place / "figures")[:1]
    print("\n".join(shown(path) for path in paths))
    return 0


def _study(arguments: argparse.Namespace) -> int:
    """Run an analysis that is a study, and draw its figure."""
    name = arguments.analysis
    if arguments.task or arguments.norms:
        raise ValueError(f"{name} is the study conf/study/{name}.yaml, whose tasks and norms stand there")
    flags = {"--scale": arguments.scale, "--seeds": arguments.seeds, "--runs": arguments.runs}
    given = [text for flag, value in flags.items() if value for text in (flag, value)]
    code = study.main([name, *given, *arguments.settings])
    own = arguments.scale is None and arguments.seeds is None
    if drawing := draw(f"norms-{name}", runs=arguments.runs) if own else None:
        place = Path(arguments.runs) if arguments.runs else PROJECT / "results"
        print(shown(write(drawing, place / "figures")[0]))
    return code


def _make(missing: Sequence[analyses.Record]) -> None:
    from adanorm.analysis import ANALYSES

    for record in missing:
        if record.analysis.tasks:
            undefined.check(record.experiment)
    for index, record in enumerate(missing):
        print(f"[{index + 1}/{len(missing)}] {record.about}", flush=True)
        ANALYSES[record.analysis.name](record)


def _told_apart(arguments: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """Return the analysis' own settings, as on the command line, and the overrides of its runs."""
    known = analyses.load(arguments.analysis)
    for setting in arguments.settings:
        if "=" not in setting:
            raise ValueError(f"{setting!r}: write settings as key=value, such as steps=200")
    own, overrides = compose.own_keys(
        arguments.settings, dict.fromkeys([*known.options, "steps", "every"], "")
    )
    given = {key: value for key, value in own.items() if value}
    flags = {"tasks": arguments.task, "norms": arguments.norms, "seeds": arguments.seeds}
    given |= {key: f"[{value}]" for key, value in flags.items() if value and (key != "tasks" or known.tasks)}
    if arguments.scale:
        given["scale"] = arguments.scale
    return given, overrides


def _arguments() -> argparse.Namespace:
    parser = compose.Parser(prog="adanorm.analyse", description=__doc__)
    parser.add_argument("analysis", help=f"one of {', '.join([*choices('analysis'), *STUDIES])}")
    parser.add_argument(
        "--task", help="one or more, such as mnist,rt; default: the analysis' own, as of all below"
    )
    parser.add_argument("--norms", help="such as layernorm,adanorm")
    parser.add_argument("--scale", choices=choices("scale"))
    parser.add_argument("--seeds", help="such as 1,2,3")
    parser.add_argument("--runs", type=_folder, help="of the records, table and figures; default: results/")
    parser.add_argument(
        "settings", nargs="*", metavar="KEY=VALUE", help="of the analysis, such as steps=200, or of its runs"
    )
    return parser.parse_intermixed_args()


def _folder(text: str) -> str:
    return str(Path(text).absolute())


if __name__ == "__main__":
    compose.door(main)
