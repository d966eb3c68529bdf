"""The label-smoothed cross-entropy over a vocabulary, in as few passes over it as can be."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _LabelSmoothedLoss(torch.autograd.Function):
    """The sum over rows of (1 - e) * -log p[target] + e/V * sum_v -log p[v]; e counts all V classes.

    The log-probabilities become the gradient in place, p - e/V - (1 - e) at the target, where
    plain autograd makes and adds several tensors of the vocabulary's size.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> Tensor:
        log_p = torch.log_softmax(logits, 1)
        loss = -(1 - smoothing) * log_p.gather(1, target[:, None])[:, 0]
        if smoothing:
            loss -= smoothing / log_p.shape[1] * log_p.sum(1)
        ctx.save_for_backward(log_p, target)
        ctx.smoothing = smoothing
        return loss.sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        log_p, target = ctx.saved_tensors
        dx = log_p.exp_()
        if ctx.smoothing:
            dx.sub_(ctx.smoothing / dx.shape[1])
        dx.scatter_add_(1, target[:, None], dx.new_full((len(target), 1), ctx.smoothing - 1))
        return dx.mul_(grad), None, None


def label_smoothed_loss(logits: Tensor, target: Tensor, *, smoothing: float) -> Tensor:
    """Return the label-smoothed cross-entropy summed over rows, in nats, as fairseq defines it.

    Logits (N, V), targets (N,). A share `smoothing` of the probability is spread over the other
    V - 1 classes (Szegedy et al. 2016). The gradient can be taken once.
    """
    classes = logits.shape[1]
    spread = smoothing * classes / (classes - 1)  # over all V classes instead
    loss: Tensor = _LabelSmoothedLoss.apply(logits, target, spread)  # type: ignore[no-untyped-call]
    return loss
