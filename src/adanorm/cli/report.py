"""Write the report from the records: one HTML page that needs no network.

Of the repository's own records also results/REPORT.md, in the shape of a reproducibility report, and what
other tools read: Croissant a data source in results/metadata, RO-Crate of the results.
"""

from __future__ import annotations

import json
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.values import folder_of
from adanorm.config.paths import PROJECT
from adanorm.files import write_whole
from adanorm.records.folder import shown
from adanorm.reporting.pages.metadata import PARTS, croissants, ro_crate
from adanorm.reporting.pages.report import Records, build_report, read_records
from adanorm.reporting.pages.reproducibility_report import reproducibility_report

USAGE = Usage(
    keys={"runs": Key("folder of the records; the page goes to its report/ (default: results/runs)")},
    examples=("", "runs=runs"),
)


def main(arguments: Arguments) -> None:
    """Write the report, and print where it is."""
    runs = folder_of(arguments.keys["runs"])
    if runs and not Path(runs).is_dir():
        raise ValueError(f"runs={arguments.keys['runs']}: no such folder")
    folder = Path(runs) / "report" if runs else PROJECT / "results" / "report"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    records = read_records(runs)
    write_whole(path, build_report(runs, records).encode())
    print(shown(path))
    if not runs:
        for path in _write_the_others(PROJECT / "results", records):
            print(shown(path))


def _write_the_others(folder: Path, records: Records) -> list[Path]:
    """Write what describes the results and their data to people and to other tools, and return the files."""
    (folder / "metadata").mkdir(exist_ok=True)
    write_whole(folder / "REPORT.md", reproducibility_report(records.judgements, records.tables).encode())
    described = {folder / "metadata" / f"{name}.json": found for name, found in croissants().items()}
    described[folder / "ro-crate-metadata.json"] = ro_crate(
        [part for part in PARTS if (folder / part).exists()]
    )
    for path, found in described.items():
        write_whole(path, (json.dumps(found, indent=1, ensure_ascii=False) + "\n").encode())
    return [folder / "REPORT.md", *described]
