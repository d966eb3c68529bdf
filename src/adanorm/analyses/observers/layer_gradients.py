"""How much of the gradient that enters a network's last norm comes out of its first norm.

A norm maps x to z, both rows (N, H). Xu et al. 2019 (section 3.2) say what one norm does to a
gradient. This analysis measures what all norms of a network do, with the layers between them.
"""

import math

from torch import Tensor

from adanorm.analyses.step import Call, Step, Values, row_means, row_moments


def observe(step: Step) -> Values:
    """Return the gradient's size at the last norm of the model and at the first.

    `enters`: the size of dl/dz at the last norm; `leaves`: of dl/dx at the first; `passed`: leaves
    / enters. A size is the root of the variance over H, averaged over the rows that a gradient
    reaches. l is the update's mean loss in nats. Raises ValueError where a gradient reaches fewer
    than two norms.
    """

    def variances(call: Call) -> dict[str, Tensor]:
        _, _, dx, dz = call.rows()
        return {"before": row_moments(dx)[1], "after": row_moments(dz)[1]}

    units, means = row_means(step, variances)
    sites = [site for site in step.sites if site in means]
    if len(sites) < 2:
        raise ValueError(
            f"layer-gradients: a gradient reaches {len(sites)} norms of this model, two are needed"
        )
    first = sites[0]
    last = sites[-1]
    leaves = math.sqrt(means[first]["before"]) / units
    enters = math.sqrt(means[last]["after"]) / units
    passed = leaves / enters if enters else math.nan
    return {f"{first} to {last}": {"passed": passed, "enters": enters, "leaves": leaves}}
