"""Random state: seeded, saved and restored."""

from __future__ import annotations

import torch
from torch import Tensor


def seed_everything(seed: int) -> None:
    """Seed torch's generators on every device; all else draws from generators of its own."""
    torch.manual_seed(seed)


def random_state() -> list[Tensor]:
    """Return the state of torch's generators: the CPU's, then this process's CUDA device's."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_available():
        states.append(torch.cuda.get_rng_state())
    return states


def restore_random_state(states: list[Tensor]) -> None:
    """Put torch's generators back to what random_state returned."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and torch.cuda.is_available():
        torch.cuda.set_rng_state(states[1])
