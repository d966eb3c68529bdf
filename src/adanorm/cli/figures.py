"""Write the figures from the records, as SVG, PDF and PNG with their captions."""

from __future__ import annotations

from adanorm.cli.command import Arguments, Usage
from adanorm.config.paths import PROJECT
from adanorm.records.folder import shown
from adanorm.reporting.figures.catalogue import draw_figure, figure_names
from adanorm.reporting.figures.style import write_figure

USAGE = Usage(name="FIGURE", choices=figure_names, most=1000, examples=("", "norms-table4 curves-rt-paper"))


def main(arguments: Arguments) -> None:
    """Write every figure that has records, or those named, and say which have none."""
    missing, known = [], figure_names()
    if unknown := [name for name in arguments.names if name not in known]:
        raise ValueError(f"unknown figure {unknown[0]!r}: choose from {', '.join(known)}")
    for name in arguments.names or known:
        drawing = draw_figure(name)
        if drawing is None:
            missing.append(name)
        else:
            paths = write_figure(drawing, PROJECT / "results" / "figures")
            print(f"{shown(paths[0])} and {', '.join(path.suffix for path in paths[1:])}")
    if missing:
        print(f"no records yet: {', '.join(missing)}")
