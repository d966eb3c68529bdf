"""What is seen of a norm before any score: what it is blind to, what it costs, what it does to gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from adanorm.analyses.observers.invariance import differences
from adanorm.analyses.registry import ANALYSES
from adanorm.analyses.spec import Analysis, analysis_grid, load_analysis
from adanorm.config.compose import UNTUNED, compose_experiment
from adanorm.config.sections import NormConfig
from adanorm.norms import NORMS
from adanorm.records import environment, reader
from adanorm.runs.setup import choose_device
from adanorm.scorecards.card import Column, Gradients, Machine, Observed
from adanorm.scorecards.cost import costs
from adanorm.scorecards.likeness import computed_alike

STEPS, EVERY = 40, 10  # of the updates whose gradients are looked at


def norm_configs(norms: Sequence[str]) -> dict[str, NormConfig]:
    """Return the settings of norms as they come, by the names given."""
    return {norm: compose_experiment([UNTUNED, f"norm={norm}"]).norm for norm in norms}


def observe(norm: str, against: Sequence[str]) -> Observed:
    """Return what a norm is seen to be, beside others."""
    run = compose_experiment([UNTUNED, f"norm={norm}"])
    torch.set_num_threads(run.threads)
    chosen, device = norm_configs([norm, *against]), choose_device(run)
    known = norm_configs([name for name in NORMS if name != norm])
    analysis = load_analysis("invariance")
    others = known | {name: config for name, config in chosen.items() if name != norm}
    found = environment.describe(device=device, precision=run.precision, processes=1, threads=run.threads)
    return Observed(
        alike=computed_alike(chosen[norm], others),
        changes=_changes(chosen, analysis),
        tolerance=float(analysis.options["tolerance"]),
        costs=costs({name: chosen[name] for name in chosen}, device),
        machine=Machine.model_validate({key: found[key] for key in Machine.model_fields}),
    )


def _changes(norms: Mapping[str, NormConfig], analysis: Analysis) -> dict[str, dict[str, float]]:
    """Return by change of weights or data, and by norm, how far the output moves."""
    moved = {name: differences(norm, seed=1, options=analysis.options) for name, norm in norms.items()}
    return {
        quantity.label: {name: found[quantity.name] for name, found in moved.items()}
        for quantity in analysis.shown
    }


def observe_gradients(norms: Sequence[str], column: Column, runs: str) -> Gradients:
    """Return what reaches and leaves the norms in the first updates of a task, from records that are kept."""
    lists = {"tasks": f"[{column.task}]", "norms": f"[{','.join(norms)}]"}
    numbers = {"steps": str(STEPS), "every": str(EVERY)}
    analysis = load_analysis("gradients", {**lists, **numbers, "scale": column.scale})
    found = {}
    for (norm, _), records in analysis_grid(analysis, runs=runs).items():
        for record in records:
            if not reader.is_complete(record.folder()):
                ANALYSES["gradients"](record)
            result = reader.analysis_result(record.folder())
            found[norm] = result.summary if result is not None else {}
    return Gradients(
        task=column.task,
        scale=column.scale,
        steps=STEPS,
        labels={quantity.name: quantity.label for quantity in analysis.shown},
        norms=found,
    )
