"""Which norm of the suite computes the same as a norm from outside, whatever its code says."""

from collections.abc import Sequence

import torch
from torch import Size, Tensor

from adanorm.norms import NORMS, NormChoice, norm_factory
from adanorm.norms.registry import TRIAL_WIDTH

SIZES = (0.01, 1.0, 100.0)  # of the rows that are compared: a small one shows the value of eps


def twin_of(choice: NormChoice) -> str | None:
    """Return the name of a norm of the suite with the same values and gradients, or None.

    They are compared in float64, with parameters off their initial values.
    """
    ours = _values_and_gradients(choice)
    for name in NORMS:
        theirs = _values_and_gradients(NormChoice(name, backend="eager"))
        if _shapes(ours) == _shapes(theirs) and all(map(torch.allclose, ours, theirs)):
            return name
    return None


def _shapes(tensors: Sequence[Tensor]) -> list[Size]:
    return [tensor.shape for tensor in tensors]


def _values_and_gradients(choice: NormChoice) -> list[Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        norm = norm_factory(choice)(TRIAL_WIDTH, site="twin").double()
        for parameter in norm.parameters():
            noise = torch.randn_like(parameter)
            parameter.data += 0.1 * noise
        sizes = torch.tensor(SIZES).double()
        rows = torch.randn(len(SIZES), 5, TRIAL_WIDTH).double()
        x = sizes[:, None, None] * rows
        x.requires_grad_()
        z = norm(x)
        weights = torch.randn_like(z)
        z.backward(weights)
    results = [z.detach()]
    for tensor in (x, *norm.parameters()):
        if tensor.grad is not None:
            results.append(tensor.grad)
    return results
