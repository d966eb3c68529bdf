"""Findings and predictions of other papers as text, each with the verdict from our records."""

import math
from collections.abc import Iterator
from functools import cache
from statistics import fmean

from adanorm.analyses import spec
from adanorm.config.titles import title
from adanorm.reporting.tables.claims import p_text
from adanorm.reporting.tables.notes import rule_decisions
from adanorm.reporting.tables.table import Table
from adanorm.reporting.text import how_to_read, markdown, markdown_table
from adanorm.studies.study import load_study, study_grid
from adanorm.verdicts import findings
from adanorm.verdicts.findings import PREDICTIONS, Finding, FindingRow, Prediction
from adanorm.verdicts.rule import Decision

FINDING_COLUMNS = (
    "task", "quantity", "first norm", "second norm", "difference", "p (Holm)", "seeds", "verdict",
)  # fmt: skip
PREDICTION_COLUMNS = (
    "study", "data set", "lead", "interval", "margin", "p (Holm)", "seeds", "the prediction is",
)  # fmt: skip


def findings_markdown(runs: str | None = None) -> str:
    """Return all findings with their verdicts in Markdown; `runs` is the folder of the records."""
    lines = ["# Findings of older papers, tested", "", how_to_read("Findings")]
    for finding in findings.load_findings():
        analysis = spec.load_analysis(finding.analysis)
        grid = spec.analysis_grid(analysis, runs=runs)
        lines += [
            "",
            f"## {finding.text}",
            "",
            f"{finding.source}; `make analyse WHAT={analysis.name}`.",
        ]
        if finding.table:
            header = ("norm", *(quantity.label for quantity in analysis.shown), "verdict")
            rows = _entries(finding, analysis, grid)
        else:
            header = FINDING_COLUMNS
            rows = [_row(finding, row) for row in findings.compared(finding, analysis, grid)]
        lines += ["", *(markdown_table(header, rows) if rows else ["Not run."])]
    return "\n".join([*lines, ""])


def _row(finding: Finding, row: FindingRow) -> list[str]:
    norm_means = zip(finding.norms or (), row.means, strict=True)
    sides = [f"{title(norm)} {spec.number(mean)}" for norm, mean in norm_means]
    p, gap = p_text(row.comparison.family_p if row.comparison else None), fmean(row.gaps)
    difference = (
        f"x {math.exp(gap):.3f}"
        if row.quantity.log
        else ("-" if gap < 0 else "+") + spec.number(abs(gap))
    )
    about = [title(row.task), markdown(row.quantity.label), *sides]
    return [*about, difference, p, str(len(row.gaps)), row.verdict]


def _entries(finding: Finding, analysis: spec.Analysis, grid: spec.AnalysisGrid) -> list[list[str]]:
    """Return the rows that compare ours with a published table of yes and no, one per norm."""
    cells = {norm: cell for (norm, _), cell in grid.items() if spec.analysis_results(cell)}
    rows = []
    for norm, published in finding.table.items():
        if norm in cells:
            ours = [spec.text(cells[norm], quantity) for quantity in analysis.shown]
            agrees = ours == ["yes" if entry else "no" for entry in published]
            rows.append([title(norm), *ours, "supported" if agrees else "contradicted"])
    return rows


def predictions_markdown(runs: str | None = None) -> str:
    """Return all predictions with their outcomes in Markdown; `runs` is the folder of the records."""
    predictions, digest = findings.load_predictions()

    @cache
    def families(study_name: str) -> dict[str, list[Decision]]:
        study = load_study(study_name)
        return rule_decisions(Table(study, study_grid(study, runs=runs)))[1]

    lines = ["# Gradients and memory: the predictions of two papers, tested", ""]
    lines += [
        f"Registered in `conf/claims/{PREDICTIONS}`, digest **{digest}**. {how_to_read('Predictions')}"
    ]
    for one in predictions:
        rows = [row for name in one.studies for row in _outcomes(one, name, families(name))]
        leads = ", less ".join(map(" over ".join, zip(one.rows[::2], one.rows[1::2], strict=True)))
        expectation = f"Predicted for {markdown(leads)}: {one.expected} ({markdown(one.source)})."
        lines += ["", f"## {one.text}", "", expectation, ""]
        lines += (
            markdown_table(PREDICTION_COLUMNS, rows)
            if rows
            else [f"Not run: {', '.join(one.studies)}."]
        )
    return "\n".join([*lines, ""])


def _outcomes(
    prediction: Prediction, study: str, families: dict[str, list[Decision]]
) -> Iterator[list[str]]:
    for decision, outcome in prediction.outcomes(families):
        one, facts = decision.comparison, ["-"] * 5
        if one is not None:
            facts = [
                f"{one.gap:+.2f}",
                one.interval.text(2),
                f"{one.margin:g}",
                p_text(one.family_p),
            ]
            facts.append(str(one.seeds))
        if decision.has_run:
            yield [study, title(decision.column.task), *facts, outcome]
