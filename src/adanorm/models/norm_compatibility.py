"""Where a norm makes no sense: what its statistics need, and what a model's sites show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adanorm.config.experiment import Experiment
from adanorm.norms import Norm, NormFactory, norm_factory

PAST = ("transformer_xl", "recurrent")  # a position must not know those behind it
ONE_ROW = ("transition_parser", "deep_linear")  # an example is one row of features


def compatible_norm(experiment: Experiment) -> NormFactory:
    """Return what makes the experiment's norm.

    Raises ValueError for a norm or a parameter that does not exist, and where the norm is not defined
    at the sites of the experiment's model.
    """
    make_norm = norm_factory(experiment.norm)
    batch_size: int | None = getattr(experiment.data, "batch_size", None)
    reason = why_undefined(make_norm.trial, experiment.model.model_dump(), batch_size)
    if reason is not None:
        raise ValueError(f"norm {experiment.norm.name} is not defined in {experiment.task.name}: {reason}")
    return make_norm


def why_undefined(norm: Norm, model: Mapping[str, Any], batch_size: int | None = None) -> str | None:
    """Return why a norm is not defined at a model's sites, trained on batches of that many examples.

    None where it is. `model` holds the settings of the configuration's section `model`.
    """
    over_batch, over_positions = norm.depends_on_batch, norm.depends_on_positions
    name = model["name"]
    has_positions = name not in ONE_ROW and model.get("norm_axes", "channels") == "channels"
    if name == "fairseq_transformer" and (over_batch or over_positions):
        return "fairseq does not tell its norms which positions are padding"
    if name in PAST and over_positions:
        return "over positions, a norm tells a language model of the bytes that it is to predict"
    if norm.needs_positions and not has_positions:
        return "its statistics are over positions, and the sites show it none" + _axes_hint(model)
    if over_batch and not has_positions and batch_size == 1:
        return "a batch of one example has no statistics" + _axes_hint(model)
    if norm.lives_in_layer and name in ("fairseq_transformer", "recurrent"):
        return "no site has a layer of its own before it"
    return None


def _axes_hint(model: Mapping[str, Any]) -> str:
    return "; choose model.norm_axes=channels" if "norm_axes" in model else ""
