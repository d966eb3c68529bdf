"""The optimizer of a run and its learning rate."""

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

from adanorm.config.sections import TrainingConfig


def make_optimizer(model: nn.Module, settings: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimizer of a model's parameters: Adam with decoupled weight decay, or SGD.

    SGD is torch's: v' = momentum v + g + weight_decay w, w' = w - lr v'. On the CPU and on CUDA
    both are fused: a step is one pass over memory. AdamW's step counts then lie on the parameters'
    device, also after a resume, and need not be fetched from it.
    """
    devices = {parameter.device.type for parameter in model.parameters()}
    shared: dict[str, Any] = {
        "lr": settings.lr,
        "weight_decay": settings.weight_decay,
        "fused": devices <= {"cpu", "cuda"} or None,
    }
    if settings.optimizer == "sgd":
        sgd = _without_dynamo(torch.optim.SGD)
        return sgd(
            model.parameters(),
            momentum=settings.momentum or 0.0,
            **shared,
        )
    adamw = _without_dynamo(torch.optim.AdamW)
    return adamw(
        model.parameters(),
        betas=settings.betas,
        eps=settings.eps,
        **shared,
    )


# torch's wrappers of these import its compiler: 1.6 s and 145 MB in a process that compiles
# nothing.
WRAPPED_METHODS = ("step", "add_param_group", "zero_grad", "state_dict", "load_state_dict")


@cache
def _without_dynamo(cls: Any) -> Callable[..., torch.optim.Optimizer]:
    """Return a class of torch without its methods' wrappers, which only torch.compile needs."""
    plain = {name: inspect.unwrap(getattr(cls, name)) for name in WRAPPED_METHODS}
    return type(
        cls.__name__,
        (cls,),
        {**plain, "step": torch.no_grad()(plain["step"])},
    )


def learning_rate(settings: TrainingConfig, update: int) -> float:
    """Return the learning rate of an update, counted from 1.

    After a linear warm-up it is constant, falls with the inverse square root of the number of
    updates before (Vaswani et al. 2017, in fairseq's form), or follows half a cosine to zero at
    max_updates.
    """
    lr, warmup, done = settings.lr, settings.warmup_updates, update - 1
    if settings.schedule == "inverse_sqrt":
        start = settings.warmup_from or 0.0
        if done < warmup:
            return start + (lr - start) * done / warmup
        return lr * math.sqrt(max(1, warmup) / max(1, done))
    if update < warmup:
        return lr * update / warmup
    if settings.schedule == "cosine" and update > warmup:
        assert settings.max_updates is not None, "checked with the configuration"
        return lr * (1 + math.cos(math.pi * done / settings.max_updates)) / 2
    return lr
