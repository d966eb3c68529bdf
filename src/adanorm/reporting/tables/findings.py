"""Findings and predictions of other papers as text, each with the verdict from our records."""

import math
from functools import cache
from statistics import fmean

from adanorm.analyses import spec
from adanorm.config.titles import title
from adanorm.reporting.tables.notes import (
    leads,
    rule_decisions,
)
from adanorm.reporting.tables.table import table_of
from adanorm.reporting.text import (
    how_to_read,
    markdown,
    p_text,
    page,
    table_block,
)
from adanorm.verdicts import findings
from adanorm.verdicts.findings import (
    PREDICTIONS,
    Finding,
    FindingRow,
    Prediction,
)
from adanorm.verdicts.rule import Decision

FINDING_COLUMNS = (
    "task", "quantity", "first norm", "second norm", "difference", "p (Holm)", "seeds", "verdict",
)  # fmt: skip
PREDICTION_COLUMNS = (
    "study", "data set", "lead", "interval", "margin", "p (Holm)", "seeds", "the prediction is",
)  # fmt: skip


def findings_markdown(runs: str | None = None) -> str:
    """Return all findings with their verdicts in Markdown; `runs` is the folder of the records."""
    blocks = ["# Findings of older papers, tested", how_to_read("Findings")]
    for finding in findings.load_findings():
        analysis = spec.load_analysis(finding.analysis)
        grid = spec.analysis_grid(analysis, runs=runs)
        blocks.append(f"## {finding.text}")
        blocks.append(f"{finding.source}; `make analyse WHAT={analysis.name}`.")
        if finding.table:
            header = [
                "norm",
                *(quantity.label for quantity in analysis.shown),
                "verdict",
            ]
            rows = _entries(
                finding,
                analysis,
                grid,
            )
        else:
            header = [*FINDING_COLUMNS]
            tested = findings.finding_rows(
                finding,
                analysis,
                grid,
            )
            rows = [_row(finding, row) for row in tested]
        blocks.append(table_block(header, rows) if rows else "Not run.")
    return page(blocks)


def _row(finding: Finding, row: FindingRow) -> list[str]:
    """Return a comparison as a row, one text for each of FINDING_COLUMNS."""
    gap = fmean(row.gaps)
    if row.quantity.log:
        difference = f"x {math.exp(gap):.3f}"
    else:
        difference = ("-" if gap < 0 else "+") + spec.number(abs(gap))
    sides = zip(
        finding.norms or (),
        row.means,
        strict=True,
    )
    return [
        title(row.task),
        markdown(row.quantity.label),
        *(f"{title(norm)} {spec.number(mean)}" for norm, mean in sides),
        difference,
        p_text(row.comparison.family_p if row.comparison else None),
        str(len(row.gaps)),
        row.verdict,
    ]


def _entries(
    finding: Finding,
    analysis: spec.Analysis,
    grid: spec.AnalysisGrid,
) -> list[list[str]]:
    """Return the rows that compare ours with a published table of yes and no, one per norm."""
    cells = {norm: cell for (norm, _), cell in grid.items() if spec.analysis_results(cell)}
    rows = []
    for norm, published in finding.table.items():
        if norm in cells:
            ours = [spec.text(cells[norm], quantity) for quantity in analysis.shown]
            papers = ["yes" if entry else "no" for entry in published]
            verdict = "supported" if ours == papers else "contradicted"
            rows.append([title(norm), *ours, verdict])
    return rows


def predictions_markdown(runs: str | None = None) -> str:
    """Return all predictions with their outcomes in Markdown.

    `runs` is the folder of the records.
    """

    @cache
    def families(study: str) -> dict[str, list[Decision]]:
        return rule_decisions(table_of(study, runs))[1]

    predictions = []
    registered = []
    for file in PREDICTIONS:
        entries, digest = findings.load_predictions(file)
        predictions += entries
        registered.append(f"`conf/claims/{file}`, digest **{digest}**")
    blocks = [
        "# Gradients and memory: the predictions of two papers, tested",
        f"Registered in {' and '.join(registered)}. {how_to_read('Predictions')}",
    ]
    for prediction in predictions:
        lead = markdown(leads(prediction.rows))
        expectation = f"{prediction.expected} ({markdown(prediction.source)})"
        blocks.append(f"## {prediction.text}")
        blocks.append(f"Predicted for {lead}: {expectation}.")
        rows = []
        for study in prediction.studies:
            rows += _outcomes(
                prediction,
                study,
                families(study),
            )
        missing = f"Not run: {', '.join(prediction.studies)}."
        blocks.append(table_block(PREDICTION_COLUMNS, rows) if rows else missing)
    return page(blocks)


def _outcomes(
    prediction: Prediction,
    study: str,
    families: dict[str, list[Decision]],
) -> list[list[str]]:
    """Return the outcome in each column of a study, one text for each of PREDICTION_COLUMNS."""
    rows = []
    for decision, outcome in prediction.outcomes(families):
        if not decision.has_run:
            continue
        facts = ["-"] * 5
        if comparison := decision.comparison:
            facts = [
                f"{comparison.gap:+.2f}",
                comparison.interval.text(2),
                f"{comparison.margin:g}",
                p_text(comparison.family_p),
                str(comparison.seeds),
            ]
        rows.append(
            [
                study,
                title(decision.column.plan.task),
                *facts,
                outcome,
            ]
        )
    return rows
