"""Write the report from the records: `python -m adanorm.report`, then open results/report/index.html."""

from __future__ import annotations

from pathlib import Path

from adanorm import compose, studies
from adanorm.config import PROJECT, choices
from adanorm.files import write_whole
from adanorm.records.folder import shown
from adanorm.reporting import report
from adanorm.reporting.claims import judgements
from adanorm.reporting.published import published_tasks
from adanorm.reporting.tables import Table


def build(runs: str | None = None) -> str:
    """Return the report over the records of a folder.

    Default: results/runs, with the figures of results/figures.
    """
    tables = {}
    for name in sorted(choices("study"), key=lambda name: (name != "overview", not name[-1].isdecimal())):
        study = studies.load(name, known_tasks=published_tasks())
        tables[name] = Table(study, studies.grid(study, runs=runs))
    figures = PROJECT / "results" / "figures"
    return report.page(tables, judgements(runs), report.drawn(figures) if runs is None else ())


def main() -> None:
    """Write the report, a single file that needs no network."""
    parser = compose.Parser(prog="adanorm.report", description=__doc__)
    parser.add_argument("--runs", help="folder of the records; default: results/runs")
    arguments = parser.parse_args()
    folder = Path(arguments.runs) / "report" if arguments.runs else PROJECT / "results" / "report"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "index.html"
    write_whole(path, build(arguments.runs).encode())
    print(shown(path))


if __name__ == "__main__":
    compose.door(main)
