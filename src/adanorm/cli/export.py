"""Write test scores for other tools: Every Eval Ever's JSON, or model cards of the Hugging Face Hub.

Runs that differ only in their seed become one model, with its mean, its uncertainty over seeds, and
the runs' origin. Name a run as for `open`, a table's cell as for `trace`. Runs of scale smoke are
left out.
"""

from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.record_arguments import NAMES, named_runs
from adanorm.config.errors import check_known
from adanorm.records.folder import path_text
from adanorm.reporting.export import FORMATS, export

USAGE = Usage(
    name=NAMES,
    keys={
        "format": Key(" or ".join(FORMATS), FORMATS[0]),
        "output": Key("folder that the files go to", "exported"),
    },
    examples=("table4/AdaNorm/RT", "rt/adanorm sst5/adanorm format=model-card output=cards"),
)


def main(arguments: Arguments) -> None:
    """Export the runs that the command line names."""
    format_name = arguments.keys["format"]
    check_known("format", [format_name], FORMATS)
    for path in export(named_runs(arguments.names), format_name, Path(arguments.keys["output"])):
        print(path_text(path))
