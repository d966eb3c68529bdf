"""Write test scores for other tools, as JSON in the schema of Every Eval Ever.

Runs that differ only in their seed become one model, with its mean, its uncertainty over seeds, and
the runs' origin. Name a run as rt/adanorm/paper-seed1-09951176, a table's cell as for `trace`. Runs
of scale smoke are left out.
"""

from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.record_arguments import NAMES, named_runs
from adanorm.data.catalogue import SOURCES
from adanorm.records.folder import path_text
from adanorm.reporting.export import export

USAGE = Usage(
    name=NAMES,
    keys={"output": Key("folder that the files go to", "exported")},
    examples=("table4/AdaNorm/RT", "rt/adanorm sst5/adanorm output=scores"),
)


def main(arguments: Arguments) -> None:
    """Export the runs that the command line names."""
    folder = Path(arguments.keys["output"]).expanduser()
    for path in export(
        named_runs(arguments.names),
        folder,
        _addresses,
    ):
        print(path_text(path))


def _addresses(source: str) -> list[str]:
    """Return the first address of each file of a data source; none for the user's own files."""
    files = SOURCES[source].all_files if source in SOURCES else ()
    return [address for file in files for address in file.addresses[:1] if "://" in address]
