"""Every figure by name, with the function that draws it."""

from collections.abc import Callable
from functools import cache, partial
from typing import TypeAlias

from adanorm.analyses.spec import (
    Analysis,
    analysis_grid,
    load_analysis,
)
from adanorm.config.compose import scales_of
from adanorm.config.experiment import Experiment
from adanorm.config.paths import choices
from adanorm.reporting.figures.curves import curves
from adanorm.reporting.figures.forest import forest
from adanorm.reporting.figures.leads import (
    answer_figure,
    evidence_accrual,
)
from adanorm.reporting.figures.over_updates import (
    over_updates,
)
from adanorm.reporting.figures.protocol import protocol_figure
from adanorm.reporting.figures.scores import (
    league_figure,
    norm_scores,
    over_setting,
)
from adanorm.reporting.figures.square import square
from adanorm.reporting.figures.style import NamedFigure
from adanorm.reporting.tables.answers import question
from adanorm.reporting.tables.table import table_of
from adanorm.studies.study import (
    Study,
    load_studies,
    study_grid,
)
from adanorm.verdicts.claims import task_answers
from adanorm.verdicts.preregistration import (
    drawn_claim,
    preregistration,
)
from adanorm.verdicts.protocol import task_protocols
from adanorm.verdicts.summary import summary
from adanorm.verdicts.task_league import task_leagues

Draw: TypeAlias = Callable[[str | None], NamedFigure | None]  # called with the folder of the runs


@cache
def figures() -> dict[str, Draw]:
    """Return by name the function that draws each figure.

    It returns None if there are no records yet.
    """
    drawing: dict[str, Draw] = {
        "answer": lambda runs: answer_figure(task_answers(question(), runs=runs)),
        "protocol": lambda runs: protocol_figure(task_protocols(runs)),
        "summary": lambda runs: forest("summary", summary(task_answers(question(), runs=runs))),
        "league": lambda runs: league_figure("league", task_leagues(runs)),
    }
    studies = load_studies()
    with_curves = [study for study in studies.values() if "curves" in study.roles]
    # A study over a setting draws its own tasks alone, and draws these in place of other studies.
    for study in sorted(with_curves, key=lambda study: study.over is not None):
        tasks = [task for task in choices("task") if study.scale in scales_of(task)]
        for task in study.columns if study.over else tasks:
            figure = f"curves-{task}-{study.scale}"
            drawing[figure] = partial(
                _curves,
                figure,
                study,
                task,
            )
    for name, study in studies.items():
        if study.shows == "curves":
            for task in study.columns:
                drawing[f"{name}-{task}"] = partial(
                    _curves,
                    f"{name}-{task}",
                    study,
                    task,
                )
        elif study.over or "figure" in study.roles or "square" in study.roles:
            drawing[f"norms-{name}"] = partial(_scores, name, study)
    claims = [claim for claim in preregistration().claims if drawn_claim(claim) == claim]
    for claim in claims:
        figure = f"evidence-{claim.id}"
        drawing[figure] = partial(evidence_accrual, figure, claim)
    for analysis in map(load_analysis, choices("analysis")):
        for task in analysis.tasks:
            drawing[f"analysis-{analysis.name}-{task}"] = partial(_analysis, analysis, task)
    return drawing


def _scores(name: str, study: Study, runs: str | None) -> NamedFigure | None:
    table = table_of(name, runs)
    figure = f"norms-{name}"
    if "square" in study.roles:
        return square(figure, table)
    return over_setting(figure, table) if study.over else norm_scores(figure, table)


def _curves(name: str, study: Study, task: str, runs: str | None) -> NamedFigure | None:
    of_task = study.model_copy(update={"columns": [task]})
    planned: dict[str, list[Experiment]] = {}
    for (row, _), plan in study_grid(of_task, runs=runs).items():
        norm = study.rows[row].norm
        if not plan.runs:
            continue
        if study.over:
            planned.setdefault(norm, []).extend(plan.runs)
        else:
            planned[norm] = plan.runs
    return curves(name, planned, repeated=study.over or "seed")


def _analysis(analysis: Analysis, task: str, runs: str | None) -> NamedFigure | None:
    return over_updates(analysis, analysis_grid(analysis, runs=runs), task)
