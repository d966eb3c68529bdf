"""The optimizer of a run and its learning rate."""

import inspect
import math
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any

import torch
from torch import nn

from adanorm.config.sections import TrainingConfig

MUON_MOMENTUM = 0.95  # torch's default


def make_optimizer(model: nn.Module, settings: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimizer of a model's parameters: Adam with decoupled weight decay, SGD, or Muon.

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
    if settings.optimizer == "muon":
        return MuonAndAdam(model, settings, shared)
    adamw = _without_dynamo(torch.optim.AdamW)
    return adamw(
        model.parameters(),
        betas=settings.betas,
        eps=settings.eps,
        **shared,
    )


class MuonAndAdam(torch.optim.Optimizer):
    """torch's Muon for the matrices of layers, AdamW for all other parameters (Jordan 2024).

    Embeddings, gains, biases and kernels of convolutions are AdamW's. A matrix's step is scaled to
    the size of AdamW's (Liu et al. 2025), so that both take one learning rate and weight decay.
    """

    def __init__(self, model: nn.Module, settings: TrainingConfig, shared: dict[str, Any]) -> None:
        embedded = set()
        for module in model.modules():
            if isinstance(module, nn.Embedding | nn.EmbeddingBag):
                embedded.add(module.weight)
        matrices: list[nn.Parameter] = []
        rest: list[nn.Parameter] = []
        for name, parameter in model.named_parameters():
            # The Transformer-XL has biases by head, which are no weights.
            is_weight = "weight" in name.rpartition(".")[2]
            is_matrix = is_weight and parameter.dim() == 2 and parameter not in embedded
            (matrices if is_matrix else rest).append(parameter)
        if not matrices:
            raise ValueError("training.optimizer=muon: the model has no matrix for it")
        momentum = MUON_MOMENTUM if settings.momentum is None else settings.momentum
        muon = _without_dynamo(torch.optim.Muon)
        self.parts = [
            muon(
                matrices,
                lr=settings.lr,
                weight_decay=settings.weight_decay,
                momentum=momentum,
                adjust_lr_fn="match_rms_adamw",
            )
        ]
        if rest:
            adamw = _without_dynamo(torch.optim.AdamW)
            self.parts.append(adamw(rest, betas=settings.betas, eps=settings.eps, **shared))
        self.defaults: dict[str, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The groups of both, in which the loop sets the learning rate."""
        return [*chain.from_iterable(part.param_groups for part in self.parts)]

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Do a step of both."""
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of both."""
        for part in self.parts:
            part.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of both."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of both."""
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)


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
