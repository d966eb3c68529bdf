"""Covariate shift between domains: inputs of a target differ from those trained on, p(y|x) does not.

Shimodaira 2000. The source is the validation set. The target has the same images as contrast * x +
brightness, which leaves every label as it is, and nothing is learned from it. A norm of each
example can undo such a change of its input; BatchNorm keeps to the source's running statistics.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.analyses.step import Call, Step, Values, record_norm_calls
from adanorm.data.examples import ArrayExamples, Batch


def observe(step: Step, *, contrast: float, brightness: float, examples: int) -> Values:
    """Return loss and error on the source and on the target, and how far features move at norms.

    Losses are in nats, errors shares. `distance` of a site is the mean over features of the
    difference of its outputs' means, in standard deviations of the source. Raises ValueError for a
    task without labelled images.
    """
    valid = getattr(step.task, "examples", {}).get("valid")
    if not isinstance(valid, ArrayExamples) or valid.inputs.dim() != 4:
        raise ValueError("domain-shift: this task has no labelled images")
    step.update()
    indices = next(iter(valid.order(None)))[:examples]
    source = valid.batch(indices).to(step.trainer.context.device)
    target = Batch(contrast * source.inputs + brightness, source.targets)
    values: Values = {"": {}}
    with step.preserved_state(), evaluating(step.model):
        outputs = {}
        for name, batch in (("source", source), ("target", target)):
            loss, error, outputs[name] = measure(step, batch)
            values[""] |= {f"{name}_loss": loss, f"{name}_error": error}
    for site, z in outputs["source"].items():
        values[site] = {"distance": distance(z, outputs["target"][site])}
    return values


def measure(step: Step, batch: Batch) -> tuple[float, float, dict[str, Tensor]]:
    """Return mean loss, share of errors and each site's outputs (N, H) on a batch."""
    outputs = {}

    def on_call(site: str, call: Call) -> None:
        assert call.z is not None, "without gradients a call is passed on when z is known"
        outputs[site] = call.z.float().flatten(0, -2)

    with torch.no_grad(), record_norm_calls(step.sites, on_call, gradients=False):
        logits = step.model(batch.inputs).float()
    loss = F.cross_entropy(logits, batch.targets)
    is_wrong = logits.argmax(-1) != batch.targets
    error = is_wrong.float().mean()
    return loss.item(), error.item(), outputs


def distance(source: Tensor, target: Tensor) -> float:
    """Return the mean over features of |mean of target - mean of source| / deviation of source."""
    deviation, mean = torch.std_mean(source, 0, correction=0)
    varies = deviation > 0
    moved = (target.mean(0) - mean).abs()[varies] / deviation[varies]
    return moved.mean().item() if varies.any() else 0.0


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Hold a model in evaluation mode for a block."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
