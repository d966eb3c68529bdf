"""The runs of all norms on a task that a plan reads, and the variance of their scores."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from adanorm.config.compose import cached_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.sections import seed_series
from adanorm.records import reader
from adanorm.records.lines import once
from adanorm.stats.variance import TaskVariance
from adanorm.verdicts.cell import Cell, cell_of, cell_on_record
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.quantities import Quantity


@dataclass(frozen=True)
class Evidence:
    """The cells of a plan's task by norm, and the variance over norms whose runs all learned."""

    plan: Plan
    norms: dict[str, Cell]
    variance: TaskVariance

    def of_seeds(self, seeds: Mapping[str, Collection[int]]) -> "Evidence":
        """Return the same evidence, with some norms restricted to the given seeds."""
        norms = dict(self.norms)
        for norm, chosen in seeds.items():
            if runs := self.norms[norm].runs:
                kept = [run for run in runs if run.seed in chosen]
                norms[norm] = cell_of(
                    runs[0],
                    kept,
                    self.plan.quantity,
                )
        return Evidence(
            self.plan,
            norms,
            variance_of(norms, self.plan.quantity),
        )


def evidence(
    plan: Plan,
    *,
    runs: str | None = None,
    norms: Sequence[str] = (),
) -> Evidence:
    """Return the evidence that a plan reads, on the registered norms and on `norms`.

    `runs` is a folder.
    """
    names = dict.fromkeys([*preregistration().norms, *norms])
    return _evidence(plan, tuple(names), runs)


@once
def _evidence(plan: Plan, norms: tuple[str, ...], runs: str | None) -> Evidence:
    cells = {norm: _cell(plan, norm, runs) for norm in norms}
    return Evidence(plan, cells, variance_of(cells, plan.quantity))


@once
def _cell(plan: Plan, norm: str, runs: str | None) -> Cell:
    """Return the cell of a norm's runs that a plan reads."""
    settings = [f"task={plan.task}", f"scale={plan.scale}", *plan.overrides]
    composed = cached_experiment([*settings, f"norm={norm}"], runs=runs)
    first = composed.model_copy(update={"seed": plan.first})  # it says which series is read
    on_record = reader.runs_on_record(first)
    its_runs = [run for run in on_record if plan.first <= run.seed <= plan.last]
    return cell_of(first, its_runs, plan.quantity)


def variance_of(norms: Mapping[str, Cell], quantity: Quantity = "test") -> TaskVariance:
    """Return the variance of a task's scores, over the norms whose runs all learned."""
    scores: dict[str, Mapping[int, float]] = {}
    step = 0.0
    for norm, cell in norms.items():
        if cell.setback or not cell.by_seed:
            continue
        if not scores and quantity == "test" and cell.metric == "accuracy":
            step = cell.example
        scores[norm] = cell.by_seed
    return TaskVariance(scores, preregistration().prior_df_at_most, step)


def fresh_plan(run: Experiment) -> Plan | None:
    """Return the first of the plans that read fresh seeds of a run's task and scale; None without."""
    plans = []
    for plan in preregistration().plans_of(run.task.name):
        if plan.scale == run.scale and seed_series(plan.first) > seed_series(run.seed):
            plans.append(plan)
    return min(plans, key=lambda plan: plan.first, default=None)


def fresh_cell(run: Experiment) -> Cell | None:
    """Return the cell of fresh seeds in the settings of a run of the first plan; None without runs.

    Later plans of the same task and scale read these seeds, all of which the cell has.
    """
    plan = fresh_plan(run)
    if plan is None:
        return None
    cell = cell_on_record(run.model_copy(update={"seed": plan.first}))
    return cell if cell.results else None
