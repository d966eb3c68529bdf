"""The loss along its own gradient (Santurkar et al. 2018, section 3.1 and figure 4).

x are the weights before an update, l the mean loss of the update's batch and g its gradient at x.
Probed are the weights x - eta g for `probes` steps eta, evenly spaced from `smallest` to `largest` times
the learning rate of the update.
"""

import torch

from adanorm.analyses.step import Step, Values, difference, l2_norm


def observe(step: Step, *, probes: int, smallest: float, largest: float) -> Values:
    """Return how much loss and gradient vary over the probes, and how smooth they find the loss.

    `loss`: the largest l(x - eta g) less the smallest; `gradient`: the same of |grad l(x - eta g) - g|,
    how well g predicts the gradient; both with `_low` and `_high`, the two ends. `smoothness`: the largest of
    |grad l(x - eta g) - g| / |eta g|, the effective beta; `magnitude`: |g|, below which no Lipschitz
    constant of the loss lies. A probe costs a forward and a backward pass.
    """
    x, g = step.update_and_gradient()
    rate = step.trainer.optimizer.param_groups[0]["lr"]
    losses, changes, smoothness = [], [], []
    steepness = l2_norm(g)
    with step.preserved_state():
        step.set_parameters(x)
        for multiple in torch.linspace(smallest, largest, probes, dtype=torch.float64).tolist():
            step.set_parameters({name: x[name] - multiple * rate * g[name] for name in g})
            loss, there = step.loss_and_gradient()
            losses.append(loss)
            changes.append(l2_norm(difference(there, g)))
            smoothness.append(changes[-1] / (multiple * rate * steepness) if steepness else float("nan"))
    found = {"smoothness": max(smoothness), "magnitude": steepness}
    for name, values in (("loss", losses), ("gradient", changes)):
        low, high = min(values), max(values)
        found |= {name: high - low, f"{name}_low": low, f"{name}_high": high}
    return {"": found}
