"""Where a norm makes no sense: what its statistics need, and what a model's sites show it."""

from __future__ import annotations

from adanorm.config.experiment import Experiment
from adanorm.config.model_base import Sites
from adanorm.norms import Norm, NormFactory, norm_factory


def compatible_norm(experiment: Experiment) -> NormFactory:
    """Return what makes the experiment's norm.

    Raises ValueError for a norm or a parameter that does not exist, and where the norm is not defined
    at the sites of the experiment's model.
    """
    make_norm = norm_factory(experiment.norm)
    batch_size: int | None = getattr(experiment.data, "batch_size", None)
    reason = why_unsupported(make_norm.trial, experiment.model.sites(), batch_size)
    if reason is not None:
        raise ValueError(f"norm {experiment.norm.name} is not defined in {experiment.task.name}: {reason}")
    return make_norm


def why_unsupported(norm: Norm, sites: Sites, batch_size: int | None = None) -> str | None:
    """Return why a norm is not defined at sites that offer this, trained on batches of that many examples.

    None where it is defined. The norm's declarations alone are looked at.
    """
    over_batch, over_positions = norm.depends_on_batch, norm.depends_on_positions
    hint = f"; choose {sites.positions_with}" if sites.positions_with else ""
    if not sites.padding_known and (over_batch or over_positions):
        return "its sites do not say which positions are padding"
    if sites.causal and over_positions:
        return "over positions, a norm tells a language model of the bytes that it is to predict"
    if norm.needs_positions and not sites.positions:
        shown = (
            "a position's, and the sites show it one row an example or a time step"
            if over_batch
            else "over positions, and the sites show it none"
        )
        return f"its statistics are {shown}{hint}"
    if over_batch and not sites.positions and batch_size == 1:
        return f"a batch of one example has no statistics{hint}"
    if norm.lives_in_layer and not sites.after_layers:
        return "no site has a layer of its own before it"
    return None
