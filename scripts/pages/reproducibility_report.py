"""A report in the form that reproducibility challenges ask for, from the claims and the records."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment

from adanorm.config.titles import task_metric, title
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import markdown_table
from adanorm.verdicts.claims import ClaimResult
from adanorm.verdicts.sentences import claim_closing, claim_sentence
from scripts.pages.readme import answer_parts, summary_table

TEMPLATE = Path(__file__).with_suffix(".md")
CLAIM_COLUMNS = ("claim", "where", "scale", "what is shown", "what would close it")
COST_COLUMNS = ("task", "metric", "runs", "core-hours")


def reproducibility_report(judgements: Sequence[ClaimResult], tables: Mapping[str, Table]) -> str:
    """Return the report as Markdown: scope, methodology, one result per claim with runs, and costs."""
    overview = tables["overview"]
    claims = [
        [c.claim.text, c.claim.source, c.scale, claim_sentence(c), claim_closing(c) or "-"]
        for c in judgements
        if c.run
    ]
    costs = [_cost(overview, task) for task in overview.study.columns]
    template = Environment(keep_trailing_newline=True).from_string(TEMPLATE.read_text("utf-8"))
    return template.render(
        answers="\n\n".join(answer_parts().values()),
        overview=summary_table(overview),
        claims="\n".join(markdown_table(CLAIM_COLUMNS, claims)),
        requirements="\n".join(markdown_table(COST_COLUMNS, filter(None, costs))),
    )


def _cost(table: Table, task: str) -> list[str]:
    """Return the cost of a column's runs as a row of the table; an empty list if there are none."""
    seconds = [
        result.seconds or 0.0 for cell in table.column(task).values() for result in cell.results
    ]
    if not seconds:
        return []
    return [title(task), task_metric(task).label, str(len(seconds)), f"{sum(seconds) / 3600:.1f}"]
