"""The predictions of two papers, each with what the studies' runs say of it, as text."""

from collections.abc import Iterator
from functools import cache

from adanorm.config.titles import title
from adanorm.reporting.tables.notes import rule_families
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import how_to_read, markdown, markdown_table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_study
from adanorm.verdicts.predictions import FILE, Prediction, load_predictions
from adanorm.verdicts.rule import Decision

COLUMNS = ("study", "data set", "lead", "interval", "margin", "p (Holm)", "seeds", "the prediction is")


def predictions_markdown(runs: str | None = None) -> str:
    """Return every prediction with its outcome on each data set; `runs` is the folder of the records."""
    predictions, digest = load_predictions()

    @cache
    def families(study_name: str) -> dict[str, list[Decision]]:
        study = load_study(study_name)
        return rule_families(Table(study, study_grid(study, runs=runs)))

    lines = ["# Gradients and memory: the predictions of two papers, tested", ""]
    lines += [f"Registered in `conf/claims/{FILE}`, digest **{digest}**. {how_to_read('Predictions')}"]
    for one in predictions:
        rows = [row for name in one.studies for row in _rows(one, name, families(name))]
        asked = f"Expected: {one.expected}, by {markdown(one.source)}. Rows: {markdown(', '.join(one.rows))}."
        lines += ["", f"## {one.text}", "", asked, ""]
        lines += markdown_table(COLUMNS, rows) if rows else [f"Not run: {', '.join(one.studies)}."]
    return "\n".join([*lines, ""])


def _rows(prediction: Prediction, study: str, families: dict[str, list[Decision]]) -> Iterator[list[str]]:
    for one, task, outcome in prediction.outcomes(families):
        facts = [f"{one.gap:+.2f}", one.interval.text(2), f"{one.margin:g}", f"{one.family_p:.3f}"]
        yield [study, title(task), *facts, str(one.seeds), f"*{outcome}*"]
