"""Write the tables of the studies from the records: `python -m adanorm.tables`."""

from __future__ import annotations

from pathlib import Path

from adanorm import analyses, compose, studies
from adanorm.analyses import Analysis, Grid
from adanorm.config import PROJECT, choices
from adanorm.files import write_whole
from adanorm.records.folder import shown
from adanorm.reporting import findings, observed
from adanorm.reporting.claims import judgements
from adanorm.reporting.claims_table import claims_markdown
from adanorm.reporting.formats import comma_separated, into_readme, latex, markdown, terminal
from adanorm.reporting.guide import into_guide
from adanorm.reporting.published import published_tasks
from adanorm.reporting.tables import Table

GUIDE = PROJECT / "docs" / "norms.md"


def write(table: Table, name: str, folder: Path | None = None) -> list[Path]:
    """Write a table in its three formats and return the files."""
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".md": markdown(table), ".csv": comma_separated(table), ".tex": latex(table)}
    for suffix, text in texts.items():
        write_whole(folder / f"{name}{suffix}", text.encode())
    return [folder / f"{name}{suffix}" for suffix in texts]


def guide(runs: str | None = None, observed_in: str | None = None) -> str:
    """Return docs/norms.md with what the records say of each norm.

    The records of runs lie in `runs`, those of analyses in `analyses/` of the folder `observed_in`.
    """
    study = studies.load("beyond", known_tasks=published_tasks())
    table = Table(study, studies.grid(study, runs=runs))
    costs = PROJECT / "results" / "bench" / "norms.csv"
    analysis = analyses.load("invariance")
    unseen = observed.unchanged_with(analysis, analyses.grid(analysis, runs=observed_in))
    return into_guide(GUIDE.read_text(), table, costs=costs, invariances=unseen)


def write_analysis(analysis: Analysis, grid: Grid, folder: Path | None = None) -> list[Path]:
    """Write an analysis' table in its two formats and return the files."""
    folder = folder or PROJECT / "results" / "tables"
    folder.mkdir(parents=True, exist_ok=True)
    texts = {".md": observed.markdown(analysis, grid), ".csv": observed.comma_separated(analysis, grid)}
    for suffix, text in texts.items():
        write_whole(folder / f"analysis-{analysis.name}{suffix}", text.encode())
    return [folder / f"analysis-{analysis.name}{suffix}" for suffix in texts]


def main() -> None:
    """Write the table of every study, or of those named, and the README's; or print another metric's."""
    parser = compose.Parser(prog="adanorm.tables", description=__doc__)
    parser.add_argument("studies", nargs="*", help=f"of {', '.join(choices('study'))}; default: all")
    parser.add_argument(
        "--metric",
        help="print the tables with this metric, where runs have it, such as sacrebleu; write nothing",
    )
    arguments = parser.parse_args()
    for name in arguments.studies or choices("study"):
        study = studies.load(name, known_tasks=published_tasks())
        table = Table(study, studies.grid(study), metric=arguments.metric)
        if arguments.metric:
            print(terminal(table))
            continue
        paths = write(table, name)
        print(f"{shown(paths[0])} and .csv, .tex")
        if name == "overview":
            readme = PROJECT / "README.md"
            write_whole(readme, into_readme(readme.read_text(), table).encode())
    if not arguments.studies and not arguments.metric:
        path = PROJECT / "results" / "tables" / "claims.md"
        write_whole(path, claims_markdown(judgements()).encode())
        print(shown(path))
        path = PROJECT / "results" / "tables" / "findings.md"
        write_whole(path, findings.markdown().encode())
        print(shown(path))
        write_whole(GUIDE, guide().encode())
        print(shown(GUIDE))
        for analysis in map(analyses.load, analyses.names()):
            grid = analyses.grid(analysis)
            if any(observed.results(cell) for cell in grid.values()):
                print(f"{shown(write_analysis(analysis, grid)[0])} and .csv")


if __name__ == "__main__":
    compose.door(main)
