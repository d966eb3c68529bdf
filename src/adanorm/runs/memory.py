"""What a norm costs in memory: bytes that autograd keeps from a forward to a backward pass."""

from collections.abc import Callable
from contextlib import closing

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from adanorm.config.experiment import Experiment
from adanorm.runs.execute import prepare, start_trainer


def kept_bytes(forward: Callable[[], object]) -> int:
    """Return the bytes that autograd keeps from a forward pass, without parameters."""
    sizes = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(sizes.values())


def kept_per_update(dry_run: Experiment) -> int:
    """Return the bytes that a dry run's update keeps for its backward pass, on made-up data."""
    trainer = start_trainer(dry_run, prepare(dry_run))
    trainer.model.train()
    with closing(trainer.batches()) as updates:
        batches = next(updates)
        return kept_bytes(lambda: trainer.backward(batches))
