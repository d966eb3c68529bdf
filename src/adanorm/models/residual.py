"""Residual layers of attention and feed-forward network, their norms where a placement has them.

B examples, T positions, N heads, D features a head, H features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from adanorm.config.placements import Placement
from adanorm.models.norm_sites import PlacedNorms, normalized
from adanorm.norms import NoNorm, Norm

BranchName = Literal["attention", "ffn"]
BRANCHES: tuple[BranchName, ...] = ("attention", "ffn")


class LayerNorms:
    """Makes the norms of layer `index` of a stack `layers`, each by the name of its site."""

    def __init__(
        self,
        make_norm: PlacedNorms,
        stack: Sequence[Placement],
        index: int,
        *,
        dim: int,
        heads: int,
        head_dim: int,
    ) -> None:
        self._make_norm, self._stack, self._index, self._dim = make_norm, stack, index, dim
        self._in_heads = head_dim if stack[index].over == "head" else heads * head_dim

    def __call__(self, branch: BranchName) -> Norm:
        """Return the norm in front of a branch or behind the sum with it, where there is one."""
        sites = getattr(self._stack[self._index], branch)
        if sites.after:
            return self._made(f"{branch}_norm", after=f"layers.{self._index}.{branch}_output")
        if not sites.front:
            return NoNorm(self._dim)
        return self._made(f"{branch}_norm", after=layer_before(self._stack, self._index, branch))

    def of_output(self, branch: BranchName) -> Norm:
        """Return the norm of what a branch gives, where there is one."""
        if not getattr(self._stack[self._index], branch).output:
            return NoNorm(self._dim)
        return self._made(f"{branch}_output_norm", after=f"layers.{self._index}.{branch}_output")

    def in_heads(self, part: str) -> Norm:
        """Return the norm of the queries, keys or values, where there is one."""
        if part not in self._stack[self._index].in_heads:
            return NoNorm(self._in_heads)
        return self._make_norm(self._in_heads, site=f"layers.{self._index}.{part}_norm")

    def _made(self, name: str, *, after: str | None) -> Norm:
        return self._make_norm(self._dim, site=f"layers.{self._index}.{name}", after=after)


def layer_before(stack: Sequence[Placement], index: int, branch: BranchName) -> str | None:
    """Return the linear layer whose output is the last part of the sum that a branch reads.

    None where the first layer begins, or where a norm lies between.
    """
    order = [(place, name) for place in range(len(stack)) for name in BRANCHES]
    position = 2 * index + BRANCHES.index(branch)
    if position == 0:
        return None
    place, name = order[position - 1]
    sites = getattr(stack[place], name)
    return None if sites.output or sites.after else f"layers.{place}.{name}_output"


def closing_norm(make_norm: PlacedNorms, stack: Sequence[Placement], *, dim: int) -> Norm:
    """Return the norm behind a stack; one whose last sum is normalized ends in a norm of its own."""
    if stack[-1].ffn.after:
        return NoNorm(dim)
    after = layer_before([*stack, stack[-1]], len(stack), "attention")
    return make_norm(dim, site="closing_norm", after=after, closes_stack=True)


class ResidualLayer(nn.Module):
    """A layer of two branches F, attention and feed-forward network: z = P(a x + O(F(s N(x)))).

    A subclass has the modules `attention_output`, `ffn_input`, `ffn_output`, those of `PROJECTIONS`, a
    `dropout`, and the norms N or P (`attention_norm`, `ffn_norm`), O (`attention_output_norm`,
    `ffn_output_norm`) and `query_norm`, `key_norm`, `value_norm`.
    """

    # The linear layers that project to queries, keys and values, and what their rows are, in order.
    PROJECTIONS: ClassVar[dict[str, tuple[str, ...]]]

    dropout: nn.Module

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self.placement = placement

    def add_branch(
        self,
        name: BranchName,
        x: Tensor,
        branch: Callable[[Tensor], Tensor],
        *,
        reads: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Return z (B, T, H) of x (B, T, H) and a branch that reads x, or `reads` (B, S, H).

        `rows` (B, T) is true at what is no padding.
        """
        sites = getattr(self.placement, name)
        norm = self.get_submodule(f"{name}_norm")
        given = x if reads is None else reads
        if sites.front:
            given = normalized(norm, given, rows)
            if self.placement.norm_scale != 1:
                given = given * self.placement.norm_scale
        result = branch(given)
        if sites.output:
            result = normalized(self.get_submodule(f"{name}_output_norm"), result, rows)
        skipped = x if self.placement.skip_scale == 1 else self.placement.skip_scale * x
        total: Tensor = skipped + self.dropout(result)
        return normalized(norm, total, rows) if sites.after else total

    def in_heads(self, part: str, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return queries, keys or values (B, N, T, D) normalized, over a head or over all of them."""
        if part not in self.placement.in_heads:
            return x
        norm = self.get_submodule(f"{part}_norm")
        if self.placement.over == "head":
            z = normalized(norm, x, None if rows is None else rows[:, None].expand(x.shape[:3]))
        else:
            side_by_side = x.transpose(1, 2)
            together = normalized(norm, side_by_side.flatten(2), rows)
            z = together.reshape(side_by_side.shape).transpose(1, 2)
        return z.to(x.dtype)  # under autocast a norm gives float32, and attention takes one type

    def draw(self, gain: float) -> None:
        """Draw the weights as DeepNorm has them, biases left as they are.

        Wang et al. 2022, figure 2: Xavier's normal distribution, with `gain` (their beta) in the feed-forward
        network and for values and attention's output, and with 1 for queries and keys.
        """
        for name in ("attention_output", "ffn_input", "ffn_output"):
            nn.init.xavier_normal_(self.get_parameter(f"{name}.weight"), gain)
        for name, parts in self.PROJECTIONS.items():
            with torch.no_grad():
                blocks = self.get_parameter(f"{name}.weight").chunk(len(parts))
            for part, block in zip(parts, blocks, strict=True):
                nn.init.xavier_normal_(block, gain if part == "value" else 1.0)


def draw_by_placement(layers: nn.ModuleList) -> None:
    """Draw again the weights of the layers whose placement has a rule for them."""
    for layer in layers:
        assert isinstance(layer, ResidualLayer)
        if layer.placement.init_gain is not None:
            layer.draw(layer.placement.init_gain)
