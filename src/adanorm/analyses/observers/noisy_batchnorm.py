"""What a norm hands on along training: the distribution of its output, feature by feature.

Santurkar et al. 2018, section 2.2 and figure 2: BatchNorm with noise after it trains as well as
without, though its outputs are distributed less stably than those of a network without norm.
"""

import torch
from torch import Tensor

from adanorm.analyses.step import Call, Step, Values, record_norm_calls


def observe(step: Step) -> Values:
    """Return for each site what features' means and variances over the batch are, over the features.

    `mean`, `mean_spread`: the mean and standard deviation over features of a feature's mean;
    `variance`: the mean over features of its variance. Over all examples and positions, but for those
    that the norm is told not to count; no others, as a choice of rows would shift the means.
    """
    rows: dict[str, list[Tensor]] = {}

    def seen(site: str, call: Call) -> None:
        assert call.z is not None, "without gradients a call is handed over when z is there"
        z = call.z.float() if call.counted is None else call.z.float()[call.counted]
        rows.setdefault(site, []).append(z.reshape(-1, z.shape[-1]))

    with record_norm_calls(step.sites, seen, gradients=False):
        step.update()
    found = {site: torch.cat(rows[site]) for site in step.sites if site in rows}
    return {site: feature_distribution(z) for site, z in found.items() if len(z)}


def feature_distribution(z: Tensor) -> dict[str, float]:
    """Return how the features of rows z (N, H) are distributed over the rows."""
    variance, mean = torch.var_mean(z, 0, correction=0)
    found = {"mean": mean.mean(), "mean_spread": mean.std(correction=0), "variance": variance.mean()}
    return {name: number.item() for name, number in found.items()}
