"""Write the figures and their captions from the records: as SVG, or as PNG and PDF."""

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.config.errors import check_known
from adanorm.config.paths import PROJECT
from adanorm.records.folder import path_text
from adanorm.records.lines import unchanging


def _names() -> list[str]:
    from adanorm.reporting.figures.catalogue import (
        figures,
    )  # imports matplotlib, which takes a second

    return [*figures()]


USAGE = Usage(
    name="[FIGURE...]",
    choices=_names,
    keys={"formats": Key("what to write, such as png,pdf", default="svg")},
    examples=("", "answer curves-rt-paper", "answer formats=png,pdf"),
)


@unchanging()
def main(arguments: Arguments) -> None:
    """Write every figure that has records, or those named, and say which have none."""
    from adanorm.reporting.figures.catalogue import figures
    from adanorm.reporting.figures.style import METADATA, write_figure

    missing = []
    formats = arguments.keys["formats"].split(",")
    check_known("format", formats, METADATA)
    check_known("figure", arguments.names, figures())
    for name in arguments.names or figures():
        if drawing := figures()[name](None):
            paths = write_figure(drawing, PROJECT / "results" / "figures", formats)
            print(f"{path_text(paths[0])} and {', '.join(path.suffix for path in paths[1:])}")
        else:
            missing.append(name)
    if missing:
        print(f"no records yet: {', '.join(missing)}")
