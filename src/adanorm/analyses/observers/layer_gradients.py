"""How much of the gradient that enters the last norm of a network comes out of the first.

x goes into a norm and z comes out of it, rows (N, H). Xu et al. 2019 (section 3.2) say what one norm
does to a gradient; here it is what all norms of a network and the layers between them do.
"""

import math

from torch import Tensor

from adanorm.analyses.step import Call, Step, Values, row_means, row_moments


def observe(step: Step) -> Values:
    """Return the gradient's size at both ends of the norms, in the order in which the model has them.

    `enters`: of dl/dz at the last norm, `leaves`: of dl/dx at the first, each the root of the variance
    over H, averaged over the rows that a gradient reaches, of the update's mean loss l in nats;
    `passed`: leaves / enters. Raises ValueError where a gradient reaches fewer than two norms.
    """

    def variances(call: Call) -> dict[str, Tensor]:
        _, _, dx, dz = call.rows()
        return {"before": row_moments(dx)[1], "after": row_moments(dz)[1]}

    units, found = row_means(step, variances)
    sites = [site for site in step.sites if site in found]
    if (count := len(sites)) < 2:
        raise ValueError(f"layer-gradients: a gradient reaches {count} norms of this model, two are needed")
    first, last = found[sites[0]], found[sites[-1]]
    # The loop's gradients are of the sum over units until it divides them.
    leaves, enters = math.sqrt(first["before"]) / units, math.sqrt(last["after"]) / units
    passed = leaves / enters if enters else math.nan
    return {f"{sites[0]} to {sites[-1]}": {"passed": passed, "enters": enters, "leaves": leaves}}
