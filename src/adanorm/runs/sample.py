"""Text drawn from a trained language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def continued(
    model: nn.Module,
    prompt: bytes,
    *,
    length: int,
    temperature: float,
    top_k: int,
    reading: Mapping[str, Any],
    generator: torch.Generator,
) -> bytes:
    """Return the prompt with `length` bytes drawn after it, each from the `top_k` likeliest (0: all).

    `reading` is what the model is told beside the bytes and its memory.
    """
    device = next(model.parameters()).device
    made = bytearray(prompt)
    remembered: list[Tensor] = []
    segment = torch.tensor([list(prompt)], device=device)
    with torch.inference_mode():
        for _ in range(length):
            logits, remembered = model(segment, remembered, **reading)
            last = logits[0, -1].float().cpu() / temperature
            if top_k:
                last[last < last.topk(min(top_k, len(last))).values[-1]] = -torch.inf
            drawn = int(torch.multinomial(last.softmax(0), 1, generator=generator))
            made.append(drawn)
            segment = torch.tensor([[drawn]], device=device)
    return bytes(made)
