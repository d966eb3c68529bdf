"""The deep linear network of Santurkar et al. 2018: linear layers and nothing between but norms."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from adanorm.config.model_sections import DeepLinearConfig
from adanorm.models.norm_sites import PlacedNorms


class DeepLinear(nn.Module):
    """Linear layers without bias, a norm after each but the last (Santurkar et al. 2018, section 2).

    `init`: `xavier` keeps the variance of what passes a square layer (Glorot and Bengio 2010),
    `default` is torch's own, which divides it by three.
    """

    def __init__(
        self, make_norm: PlacedNorms, settings: DeepLinearConfig, *, inputs: int, outputs: int
    ) -> None:
        super().__init__()
        dim, layers = settings.dim, settings.layers
        widths = [inputs, *[dim] * (layers - 1), outputs]
        self.linears = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in pairwise(widths))
        self.norms = nn.ModuleList(
            make_norm(dim, site=f"norms.{index}", after=f"linears.{index}") for index in range(layers - 1)
        )
        if settings.init == "xavier":
            for linear in self.linears:
                nn.init.xavier_normal_(linear.get_parameter("weight"))

    def forward(self, x: Tensor) -> Tensor:
        """Return predictions (B, outputs) of inputs (B, inputs)."""
        for linear, norm in zip(self.linears[:-1], self.norms, strict=True):
            x = norm(linear(x))
        predictions: Tensor = self.linears[-1](x)
        return predictions
