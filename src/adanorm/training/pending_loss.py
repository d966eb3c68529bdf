"""The loss of the latest updates, kept on the device so that no update waits for it."""

from __future__ import annotations

import torch

from adanorm.tasks.base import Loss
from adanorm.training.distributed import World, summed


class PendingLoss:
    """The sum of losses, in nats, and of their units since the last `fetch`."""

    def __init__(self, device: torch.device) -> None:
        self._total = torch.zeros((), dtype=torch.float64, device=device)
        self._units = 0

    def add(self, loss: Loss) -> None:
        """Count the loss of an update in."""
        self._total += loss.total
        self._units += loss.units

    def fetch(self, world: World) -> tuple[float, int]:
        """Return the sums over all processes, and start from zero."""
        pending = torch.stack([self._total, torch.full_like(self._total, self._units)])
        total, units = summed(pending, world).tolist()
        self._total.zero_()
        self._units = 0
        return total, int(units)
