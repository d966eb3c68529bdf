"""Every figure by name, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

from adanorm.analyses.spec import Analysis, AnalysisGrid, analysis_grid, analysis_names, load_analysis
from adanorm.config.paths import choices
from adanorm.reporting.answers import question
from adanorm.reporting.figures.answer import answer_figure
from adanorm.reporting.figures.claim import claim_effects, evidence_accrual
from adanorm.reporting.figures.curves import curves
from adanorm.reporting.figures.intervals import norm_scores
from adanorm.reporting.figures.invariances import invariances
from adanorm.reporting.figures.over_updates import bands, over_updates
from adanorm.reporting.figures.style import NamedFigure
from adanorm.reporting.figures.sweep import over_setting
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import Study, load_studies
from adanorm.verdicts.cell import evidence
from adanorm.verdicts.claims import SCALES, claim_evidence, claimed_pair
from adanorm.verdicts.plan_answers import task_answers
from adanorm.verdicts.preregistration import Claim, preregistration

Draw: TypeAlias = Callable[[str, str | None], NamedFigure | None]  # of a figure's name and the runs' folder


def figure_names() -> list[str]:
    """Return the names of all figures, with records or without."""
    return list(_figures())


# Analyses whose figure has no mean over updates.
DRAWINGS: dict[str, Callable[..., NamedFigure | None]] = {
    "covariate-shift": bands,
    "invariance": invariances,
    "landscape": bands,
}


def drawn_analysis(analysis: Analysis, grid: AnalysisGrid, task: str) -> NamedFigure | None:
    """Return an analysis' figure of a task, or None where it has no records yet."""
    cells = {norm: grid[norm, task] for norm in analysis.norms}
    return DRAWINGS.get(analysis.name, over_updates)(_name(analysis, task), analysis, task, cells)


def _name(analysis: Analysis, task: str) -> str:
    return f"analysis-{analysis.name}-{task}" if task else f"analysis-{analysis.name}"


def draw_figure(name: str, *, runs: str | None = None) -> NamedFigure | None:
    """Return a figure, or None where it has no records yet.

    Raises ValueError for a name that is not among `figure_names()`.
    """
    figures = _figures()
    if name not in figures:
        raise ValueError(f"unknown figure {name!r}: choose from {', '.join(figures)}")
    return figures[name](name, runs)


@cache
def _figures() -> dict[str, Draw]:
    figures: dict[str, Draw] = {
        "answer": lambda name, runs: answer_figure(name, task_answers(question(), runs=runs))
    }
    for name, study in load_studies().items():
        if study.shows == "curves":
            figures |= {f"{name}-{task}": partial(_curves, study, task) for task in study.columns}
        else:
            figures[f"norms-{name}"] = partial(_scores, study)
        if "curves" in study.roles:
            for task in choices("task"):
                figures[f"curves-{task}-{study.scale}"] = partial(_curves, study, task)
    for claim in preregistration().claims:
        figures[f"claim-{claim.id}"] = partial(_claim, claim)
    for claim in _compared_claims():
        figures |= {f"evidence-{claim.id}-{scale}": partial(_evidence, claim, scale) for scale in SCALES}
    for analysis in map(load_analysis, analysis_names()):
        figures |= {_name(analysis, t): partial(_analysis, analysis, t) for t in analysis.tasks or [""]}
    return figures


def _compared_claims() -> list[Claim]:
    """Return a claim on test scores for every two norms that claims compare."""
    claims = [claim for claim in preregistration().claims if claim.quantity == "test"]
    return list({(str(claim.better), str(claim.worse)): claim for claim in reversed(claims)}.values())[::-1]


_evidence_once = cache(evidence)  # figures of claims share tasks


def _claim(claim: Claim, name: str, runs: str | None) -> NamedFigure | None:
    pairs = {
        scale: [
            claimed_pair(claim, of_task)
            for of_task in claim_evidence(claim, scale, runs, _evidence_once).values()
        ]
        for scale in SCALES
    }
    return claim_effects(name, claim, {scale: [p for p in some if p] for scale, some in pairs.items()})


def _evidence(claim: Claim, scale: str, name: str, runs: str | None) -> NamedFigure | None:
    return evidence_accrual(name, claim, claim_evidence(claim, scale, runs, _evidence_once))


def _scores(study: Study, name: str, runs: str | None) -> NamedFigure | None:
    table = Table(study, study_grid(study, runs=runs))
    return over_setting(name, table) if study.over else norm_scores(name, table)


def _curves(study: Study, task: str, name: str, runs: str | None) -> NamedFigure | None:
    grid = study_grid(study.model_copy(update={"columns": [task]}), runs=runs)
    return curves(name, {study.rows[plan.label].norm: plan.runs for plan in grid.values() if plan.runs})


def _analysis(analysis: Analysis, task: str, name: str, runs: str | None) -> NamedFigure | None:
    return drawn_analysis(analysis, analysis_grid(analysis, runs=runs), task)
