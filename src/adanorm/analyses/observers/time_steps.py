"""How far a gradient reaches back through time in a recurrent network, at every norm.

a_t (G, B, H) or (B, H) are the summed inputs of a norm at time step t of a segment of T bytes. l_T
is the loss on the segment's last byte alone, in nats. Ba et al. 2016 (section 3.1) say that such a
norm keeps the hidden dynamics stable, so that the gradient neither vanishes nor explodes.
"""

import torch
from torch.nn import functional as F

from adanorm.analyses.step import Call, Step, Values, record_norm_calls
from adanorm.data.byte_streams import SegmentBatch


def observe(step: Step, *, back: int) -> Values:
    """Return for each site the gradient at the last time step and `back` steps before it.

    `near` and `far`: the mean over rows of |dl_T/da_t| over H, for t = T and t = T - back;
    `factor`: its growth with each step back, (far / near)^(1 / back). Raises ValueError for a model
    without time steps, and for segments of `back` or fewer time steps.
    """
    batch = step.micro_batches[0].to(step.trainer.context.device)
    carries = getattr(step.model, "carries", None)
    if not isinstance(batch, SegmentBatch) or carries != "state":
        raise ValueError("time-steps: the model of this task carries no state through time")
    steps = batch.segment.shape[1]
    if steps <= back:
        raise ValueError(f"back={back}: a segment has {steps} time steps")
    sizes: dict[str, list[float]] = {}

    def on_call(site: str, call: Call) -> None:
        assert call.dx is not None, "recorded with gradients"
        size = call.dx.float().norm(dim=-1).mean().item()
        sizes.setdefault(site, []).append(size)  # of the last step first

    memory = [] if batch.first else step.trainer.carried
    with (
        step.preserved_state(),
        record_norm_calls(
            step.sites,
            on_call,
            gradients=True,
        ),
    ):
        with step.trainer.context.autocast():
            logits, _ = step.model(batch.segment, memory)
        last = logits[:, -1].float()
        loss = F.cross_entropy(
            last,
            batch.target[:, -1],
            reduction="sum",
        )
        torch.autograd.backward(loss)
    step.update()
    values = {}
    for site, by_step in sizes.items():
        near = by_step[0]
        far = by_step[back]
        values[site] = {"near": near, "far": far, "factor": (far / near) ** (1 / back)}
    return values
