"""Print the runs behind a cell of a table, and the command that repeats each.

Norm and task are written as the table or the configuration writes them. A repeated run goes to a
folder of its own (runs=repeated), so that it can be compared.
"""

from __future__ import annotations

from adanorm.cli.command import Arguments, Usage
from adanorm.reporting.provenance import trace

USAGE = Usage(name="STUDY/NORM/TASK", fewest=1, most=1, examples=("table4/AdaNorm/RT",))


def main(arguments: Arguments) -> None:
    """Print what stands behind the cell that the command line names."""
    print("\n".join(trace(arguments.names[0])))
