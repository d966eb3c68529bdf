"""Write the report from the records: one HTML page that needs no network."""

from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.config.paths import PROJECT, contributed_folder
from adanorm.files import write_files
from adanorm.records.folder import path_text
from adanorm.records.lines import unchanging
from adanorm.reporting.report import build_report

USAGE = Usage(
    keys={"runs": Key("folder of the records, for a page in RUNS/report (default: results/)")},
    examples=("", "runs=runs"),
)


@unchanging()
def main(arguments: Arguments) -> None:
    """Write the report, and print where it is."""
    runs = folder_of(arguments.keys["runs"])
    if runs and not any(folder.is_dir() for folder in (Path(runs), contributed_folder(Path(runs)))):
        raise ValueError(f"runs={arguments.keys['runs']}: no such folder")
    folder = Path(runs) / "report" if runs else PROJECT / "results" / "report"
    print(
        *map(
            path_text,
            write_files(folder, {"index.html": build_report(runs)}),
        )
    )
