"""The loss along its own gradient (Santurkar et al. 2018, section 3.1 and figure 4).

x are the weights before an update, l is the mean loss of the update's batch, and g its gradient at
x. The probes are the weights x - eta g, at `probes` steps eta that are evenly spaced from
`smallest` to `largest` times the learning rate of the update.
"""

import torch

from adanorm.analyses.step import Step, Values, difference, l2_norm


def observe(step: Step, *, probes: int, smallest: float, largest: float) -> Values:
    """Return the ranges of loss and gradient over the probes, the effective smoothness, and |g|.

    `loss`: the largest l(x - eta g) less the smallest; `gradient`: the same for |grad l(x - eta g)
    - g|, which is small where g predicts the gradient; both have their ends as `_low` and `_high`.
    `smoothness`: the largest |grad l(x - eta g) - g| / |eta g|, the effective beta. `magnitude`:
    |g|, a lower bound on any Lipschitz constant of the loss.
    """
    x, g = step.update_and_gradient()
    rate = step.trainer.optimizer.param_groups[0]["lr"]
    losses = []
    changes = []
    smoothness = []
    steepness = l2_norm(g)
    with step.preserved_state():
        step.set_parameters(x)
        for multiple in torch.linspace(
            smallest,
            largest,
            probes,
            dtype=torch.float64,
        ).tolist():
            step.set_parameters({name: x[name] - multiple * rate * g[name] for name in g})
            loss, gradient = step.loss_and_gradient()
            losses.append(loss)
            changes.append(l2_norm(difference(gradient, g)))
            smoothness.append(
                changes[-1] / (multiple * rate * steepness) if steepness else float("nan")
            )
    values = {"smoothness": max(smoothness), "magnitude": steepness}
    for name, probed in (("loss", losses), ("gradient", changes)):
        low = min(probed)
        high = max(probed)
        values |= {name: high - low, f"{name}_low": low, f"{name}_high": high}
    return {"": values}
