"""Write the tables of the studies from the records."""

from adanorm.analyses.spec import (
    analysis_grid,
    analysis_results,
    load_analysis,
)
from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.study_arguments import study_names
from adanorm.config.errors import check_known
from adanorm.config.paths import PROJECT, choices
from adanorm.files import write_files
from adanorm.records.folder import path_text
from adanorm.records.lines import unchanging
from adanorm.reporting.tables.analysis import write_analysis
from adanorm.reporting.tables.answers import answers_markdown, question
from adanorm.reporting.tables.claims import claims_markdown
from adanorm.reporting.tables.findings import (
    findings_markdown,
    predictions_markdown,
)
from adanorm.reporting.tables.formats import (
    FORMATS,
    table_text,
    write_table,
)
from adanorm.reporting.tables.league import league_csv, league_markdown
from adanorm.reporting.tables.plans import plans_markdown
from adanorm.reporting.tables.protocol import protocol_markdown
from adanorm.reporting.tables.summary import summary_markdown
from adanorm.reporting.tables.table import table_of
from adanorm.verdicts.claims import (
    claim_results,
    first_plan_results,
    submission_results,
    task_answers,
)
from adanorm.verdicts.later_answers import later_answers, without_runs
from adanorm.verdicts.protocol import papers_own_count, same_orders, task_protocols
from adanorm.verdicts.summary import summary
from adanorm.verdicts.task_league import task_leagues

USAGE = Usage(
    name="[STUDY...]",
    choices=study_names,
    keys={
        "metric": Key("print the tables with this metric, such as sacrebleu, and write nothing"),
        "formats": Key(
            "what to write, such as tex (default: md,csv, and tex of the paper's four tables)"
        ),
    },
    examples=(
        "",
        "table4 mini-all",
        "mini-all metric=sacrebleu",
        "mini-all formats=tex",
    ),
)


@unchanging()
def main(arguments: Arguments) -> None:
    """Write the table of every study, or of those named.

    With a metric, print the tables instead.
    """
    metric = arguments.keys["metric"] or None
    formats = list(filter(None, arguments.keys["formats"].split(",")))
    studies = study_names()
    check_known("format", formats, FORMATS)
    check_known(
        "study",
        arguments.names,
        studies,
        "; `adanorm study` writes the table of one of your own",
    )
    for name in arguments.names or studies:
        table = table_of(name, None, metric)
        if metric:
            print(table_text(table))
        else:
            first, *rest = write_table(table, name, formats=formats)
            endings = ", ".join(path.suffix for path in rest)
            print(" and ".join(filter(None, [path_text(first), endings])))
    if not (arguments.names or metric or formats):
        _write_tables_of_no_single_study()


def _write_tables_of_no_single_study() -> None:
    leagues = task_leagues()
    answers = task_answers(question())
    texts = {
        "answers.md": answers_markdown(answers, first_plan_results()),
        "claims.md": claims_markdown(claim_results(), submission_results()),
        "findings.md": findings_markdown(),
        "league.md": league_markdown(leagues),
        "league.csv": league_csv(leagues),
        "plans.md": plans_markdown(later_answers(), without_runs()),
        "predictions.md": predictions_markdown(),
        "protocol.md": protocol_markdown(
            task_protocols(),
            same_orders(),
            papers_own_count(),
        ),
        "summary.md": summary_markdown(summary(answers), answers),
    }
    for path in write_files(PROJECT / "results" / "tables", texts):
        print(path_text(path))
    for analysis in map(load_analysis, choices("analysis")):
        grid = analysis_grid(analysis)
        if any(map(analysis_results, grid.values())):
            print(f"{path_text(write_analysis(analysis, grid)[0])} and .csv")
