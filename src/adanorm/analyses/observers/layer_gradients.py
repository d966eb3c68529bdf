"""How much of the gradient that enters a network's last norm as dl/dz comes out of its first as dl/dx."""

import math

from torch import Tensor

from adanorm.analyses.step import Call, Step, Values, row_means, row_moments


def observe(step: Step) -> Values:
    """Return the gradient's size at the last and the first norm, in the order in which the model has them.

    `enters`: the size of dl/dz at the last norm; `leaves`: of dl/dx at the first; `passed`: leaves / enters.
    A size is the root of the variance over H, averaged over the rows that a gradient reaches. l is the
    update's mean loss in nats. Raises ValueError where a gradient reaches fewer than two norms.
    """

    def variances(call: Call) -> dict[str, Tensor]:
        _, _, dx, dz = call.rows()
        return {"before": row_moments(dx)[1], "after": row_moments(dz)[1]}

    units, means = row_means(step, variances)
    sites = [site for site in step.sites if site in means]
    if (count := len(sites)) < 2:
        raise ValueError(f"layer-gradients: a gradient reaches {count} norms of this model, two are needed")
    first, last = means[sites[0]], means[sites[-1]]
    leaves, enters = math.sqrt(first["before"]) / units, math.sqrt(last["after"]) / units
    passed = leaves / enters if enters else math.nan
    return {f"{sites[0]} to {sites[-1]}": {"passed": passed, "enters": enters, "leaves": leaves}}
