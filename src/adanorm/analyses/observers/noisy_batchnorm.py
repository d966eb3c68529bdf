"""The distribution of a norm's output while a run trains, feature by feature.

Santurkar et al. 2018, section 2.2 and figure 2: BatchNorm with noise after it trains as well as
without, although the distribution of its outputs is less stable than in a network without norms.
"""

import torch
from torch import Tensor

from adanorm.analyses.step import Call, Step, Values, record_norm_calls


def observe(step: Step) -> Values:
    """Return each site's means and variances of features over the batch, summarized.

    They are over all examples and positions that the norm itself counts; leaving out others, such
    as rows without a gradient, would shift the means.
    """
    rows: dict[str, list[Tensor]] = {}

    def on_call(site: str, call: Call) -> None:
        assert call.z is not None, "without gradients a call is passed on when z is known"
        z = call.z.float()
        if call.counted is not None:
            z = z[call.counted]
        rows.setdefault(site, []).append(z.reshape(-1, z.shape[-1]))

    with record_norm_calls(step.sites, on_call, gradients=False):
        step.update()
    values = {}
    for site in step.sites:
        if site not in rows:
            continue
        outputs = torch.cat(rows[site])
        if len(outputs):
            values[site] = feature_distribution(outputs)
    return values


def feature_distribution(z: Tensor) -> dict[str, float]:
    """Return mean and spread of the means of features in rows z (N, H), and the mean variance."""
    variance, mean = torch.var_mean(
        z,
        0,
        correction=0,
    )
    return {
        "mean": mean.mean().item(),
        "mean_spread": mean.std(correction=0).item(),
        "variance": variance.mean().item(),
    }
