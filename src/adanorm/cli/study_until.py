"""`until=decided`: seeds are added to a study until each comparison of a claim is decided."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Sequence

from adanorm.cli.command import Arguments, Key
from adanorm.cli.values import whole_number
from adanorm.config.compose_cache import cached_experiment
from adanorm.config.titles import quantity_title, title
from adanorm.launch.next_seeds import Batch, Followed, Plan, Run, Standing, followed
from adanorm.studies.grid import Planned, StudyGrid
from adanorm.studies.study import Study
from adanorm.verdicts.by_example import Norms, bring_up_to_date
from adanorm.verdicts.evidence import evidence
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import listed

UNTIL_KEYS = {
    "until": Key("decided: seeds are added until each comparison of a claim is decided"),
    "most": Key("with until=decided: the most seeds of a comparison (default: the plan's)"),
}


def most_seeds(arguments: Arguments) -> int | None:
    """Return how many seeds a comparison may get; None without `until=decided`.

    Raises ValueError for another `until`, for seeds that are named, and for a number the plan does not have.
    """
    given = arguments.keys
    plan = preregistration().stopping
    if not given["until"]:
        if given["most"]:
            raise ValueError(f"most={given['most']}: only with until=decided")
        return None
    if given["until"] != "decided":
        raise ValueError(f"until={given['until']}: must be decided")
    if given["seeds"]:
        raise ValueError(
            f"seeds={given['seeds']}: until=decided chooses the seeds; name the one or the other"
        )
    most = whole_number("most", given["most"] or str(plan.most))
    if not plan.planned < most <= plan.most:
        raise ValueError(
            f"most={most}: must be one of {plan.planned + 1} to {plan.most}, as the plan of"
            " conf/claims/paper.yaml has its looks"
        )
    return most


def compared_in(study: Study, grid: StudyGrid, runs: str | None) -> dict[tuple[str, str], str]:
    """Return the rows of a study whose runs are read by claims, by task and norm.

    Those with the settings of their task and norm as they come. Raises ValueError where no claim
    compares two of them.
    """
    rows: dict[tuple[str, str], str] = {}
    for (row, task), plan in grid.items():
        norm = study.rows[row].norm
        if len(plan.candidates) == 1:
            own = cached_experiment([f"task={task}", f"norm={norm}", f"scale={study.scale}"], runs=runs)
            if own.model_copy(update={"seed": study.seeds[0]}).folder() == plan.runs[0].folder():
                rows.setdefault((task, norm), row)
    if not followed(rows, study.scale):
        raise ValueError(
            "until=decided: no claim compares two norms of the study, with the settings they have"
        )
    return rows


def planned_runs(
    planned: Sequence[Planned], study: Study, rows: dict[tuple[str, str], str]
) -> dict[Run, Planned]:
    """Return the planned runs of the rows that claims read, by task, norm and seed."""
    found = {}
    for run in planned:
        task, norm = run.experiment.task.name, study.rows[run.row].norm
        if rows.get((task, norm)) == run.row:
            found[Run(task, norm, run.experiment.seed)] = run
    return found


def run_until_decided(
    study: Study,
    rows: dict[tuple[str, str], str],
    *,
    most: int,
    at_once: int,
    runs: str | None,
    run: Callable[[Sequence[Run]], Sequence[Planned]],
) -> Sequence[Planned]:
    """Add seeds until the comparisons of claims are decided; return the runs that failed, which end it.

    Before each look the norms are compared on the test examples, whose noise a verdict allows for.
    `run` makes runs and returns those that failed. The next seeds follow from the records alone, so that
    an interrupted plan goes on as it would have.
    """
    comparisons = followed(rows, study.scale)
    pairs: dict[str, list[Norms]] = defaultdict(list)
    for found in comparisons:
        if found.quantity == "test":
            pairs[found.task].append((found.worse, found.better))
    plan = Plan(comparisons, seeds=study.seeds, most=most, at_once=at_once)
    _say(f"until decided: {len(comparisons)} comparisons of claims, at most {most} seeds of each")
    reported: dict[Followed, str] = {}
    while True:
        for task, norms in pairs.items():
            bring_up_to_date(task, study.scale, norms, folder=runs)
        records = {
            (c.task, c.quantity): evidence(c.task, study.scale, c.quantity, runs=runs) for c in comparisons
        }
        progress = plan.progress(records)
        for standing in progress.standings:
            line = _ended(standing)
            if line != reported.get(standing.comparison, ""):
                _say(line or f"open again: {_named(standing)}")
                reported[standing.comparison] = line
        if progress.batch is None:
            return []
        _say(_next(progress.batch, progress.standings, most))
        if failed := run(progress.batch.runs):
            return failed


def _named(standing: Standing) -> str:
    found = standing.comparison
    of = "" if found.quantity == "test" else f", {quantity_title(found.quantity)}"
    return f"{title(found.task)}, {title(found.better)} beside {title(found.worse)}{of}"


def _ended(standing: Standing) -> str:
    """Return what a comparison came to; nothing while seeds are added to it."""
    if standing.is_open:
        return ""
    read = standing.pair.comparison
    found = ""
    if read is not None:
        found = f" ({read.gap:+.3g} after {read.seeds} seeds, margin {read.margin:g})"
    if standing.left:
        return f"left open: {_named(standing)}: {standing.left}{found}"
    return f"decided: {_named(standing)}: {standing.answer}{found}"


def _next(batch: Batch, standings: Sequence[Standing], most: int) -> str:
    """Return what is run next and why."""
    cells: dict[tuple[str, int], list[str]] = {}
    for run in batch.runs:
        cells.setdefault((run.task, run.seed), []).append(title(run.norm))
    runs = "; ".join(f"{title(task)} seed {seed} of {listed(norms)}" for (task, seed), norms in cells.items())
    count = sum(standing.is_open for standing in standings)
    closing = f"{batch.closes_in} more are" if batch.closes_in else f"no number up to {most} is"
    why = f"where a core-hour decides most; {closing} likely to close {_named(batch.chosen)}"
    return f"{count} open; next {runs}, {why}"


def _say(line: str) -> None:
    print("\n".join(textwrap.wrap(line, 80, subsequent_indent="  ")), flush=True)
