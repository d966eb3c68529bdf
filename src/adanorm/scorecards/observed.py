"""What is seen of a norm before any score: what it computes, what it is blind to, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from adanorm.analyses.observers.invariance import differences
from adanorm.analyses.spec import load_analysis
from adanorm.config.compose import UNTUNED, compose_experiment
from adanorm.config.sections import NormConfig
from adanorm.norms import NORMS
from adanorm.records import environment
from adanorm.runs.setup import choose_device
from adanorm.scorecards.card import Observed
from adanorm.scorecards.cost import costs
from adanorm.scorecards.likeness import computed_alike


def norm_configs(norms: Sequence[str]) -> dict[str, NormConfig]:
    """Return the settings of norms as they come, by the names given."""
    return {norm: compose_experiment([UNTUNED, f"norm={norm}"]).norm for norm in norms}


def observe(norm: str, against: Sequence[str]) -> Observed:
    """Return what a norm is seen to be, beside others."""
    run = compose_experiment([UNTUNED, f"norm={norm}"])
    torch.set_num_threads(run.threads)
    chosen, device = norm_configs([norm, *against]), choose_device(run)
    others = norm_configs([name for name in NORMS if name != norm])
    others |= {name: config for name, config in chosen.items() if name != norm}
    analysis = load_analysis("invariance")
    moved = {name: differences(config, seed=1, options=analysis.options) for name, config in chosen.items()}
    return Observed(
        alike=computed_alike(chosen[norm], others),
        changes={
            quantity.label: {name: by_change[quantity.name] for name, by_change in moved.items()}
            for quantity in analysis.shown
        },
        tolerance=float(analysis.options["tolerance"]),
        costs=costs(chosen, device),
        environment=environment.describe(
            device=device, precision=run.precision, processes=1, threads=run.threads
        ),
    )
