"""Residual layers of attention and feed-forward network, their norms where a placement has them.

B examples, T positions, N heads, D features a head, H features.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from torch import Tensor, nn

from adanorm.config.placements import Placement
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import NoNorm, Norm

Function = Callable[[Tensor], Tensor]
BRANCHES, PARTS = ("attention", "ffn"), ("query", "key", "value")
LAST_NORMS = ("attention_output_norm", "ffn_output_norm", "query_norm", "key_norm", "value_norm")


def layer_norm(
    make_norm: PlacedNorms, stack: Sequence[Placement], index: int, name: str, *, dim: int, width: int
) -> Norm:
    """Return the norm `name` of layer `index` of a stack; one that its placement lacks does nothing.

    `attention_norm` and `ffn_norm` are in front of a branch or behind the sum with it, those of an `_output`
    of what it gives; those of queries, keys and values have `width` features. Some norms draw weights: a
    layer's are made in the order of its modules.
    """
    placement, of, after = stack[index], name.removesuffix("_norm"), None
    if of in PARTS:
        is_there, dim = of in placement.in_heads, width
    elif of in BRANCHES:
        sites = getattr(placement, of)
        is_there = sites.front or sites.after
        after = f"layers.{index}.{of}_output" if sites.after else layer_before(stack, index, of)
    else:
        is_there, after = getattr(placement, of.removesuffix("_output")).output, f"layers.{index}.{of}"
    return make_norm(dim, site=f"layers.{index}.{name}", after=after) if is_there else NoNorm(dim)


def layer_before(stack: Sequence[Placement], index: int, branch: str) -> str | None:
    """Return the linear layer that ends the sum a branch reads; None before the first and behind a norm."""
    if index == 0 and branch == "attention":
        return None
    place, name = (index, "attention") if branch == "ffn" else (index - 1, "ffn")
    sites = getattr(stack[place], name)
    return None if sites.output or sites.after else f"layers.{place}.{name}_output"


def closing_norm(make_norm: PlacedNorms, stack: Sequence[Placement], *, dim: int) -> Norm:
    """Return the norm behind a stack; one whose last sum is normalized ends in a norm of its own."""
    if stack[-1].ffn.after:
        return NoNorm(dim)
    after = layer_before(stack, len(stack), "attention")
    return make_norm(dim, site="closing_norm", after=after, closes_stack=True)


class ResidualLayer(nn.Module):
    """A layer of two branches F, attention and feed-forward network: z = P(a x + O(F(s N(x)))).

    A subclass has the modules `attention_output`, `ffn_input`, `ffn_output`, those of `PROJECTIONS`, a
    `dropout`, and the norms N or P (`attention_norm`, `ffn_norm`), O (`attention_output_norm`,
    `ffn_output_norm`) and `query_norm`, `key_norm`, `value_norm`.
    """

    # The linear layers that project to queries, keys and values, and what their rows are, in order.
    PROJECTIONS: ClassVar[dict[str, tuple[str, ...]]]

    placement: Placement
    dropout: nn.Module

    def add_branch(
        self, of: str, x: Tensor, branch: Function, *, reads: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        """Return z (B, T, H) of x (B, T, H) and a branch that reads x, or `reads` (B, S, H).

        `rows` (B, T) is true at what is no padding.
        """
        sites = getattr(self.placement, of)
        norm: Callable[..., Tensor] = self.get_submodule(f"{of}_norm")
        given = x if reads is None else reads
        if sites.front:
            given = norm(given, rows)
            if self.placement.norm_scale != 1:
                given = given * self.placement.norm_scale
        result = branch(given)
        if sites.output:
            result = self.get_submodule(f"{of}_output_norm")(result, rows)
        skipped = x if self.placement.skip_scale == 1 else self.placement.skip_scale * x
        total: Tensor = skipped + self.dropout(result)
        return norm(total, rows) if sites.after else total

    def in_heads(self, part: str, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return queries, keys or values (B, N, T, D) normalized, over a head or over all of them."""
        if part not in self.placement.in_heads:
            return x
        norm: Callable[..., Tensor] = self.get_submodule(f"{part}_norm")
        if self.placement.over == "head":
            z = norm(x, None if rows is None else rows[:, None].expand(x.shape[:3]))
        else:
            side_by_side = x.transpose(1, 2)
            z = norm(side_by_side.flatten(2), rows).reshape(side_by_side.shape).transpose(1, 2)
        return z.to(x.dtype)  # under autocast a norm gives float32, and attention takes one type


def draw_deepnorm(layers: nn.ModuleList) -> None:
    """Draw again, as DeepNorm has them, the weights of the layers whose placement says so; biases stay.

    Wang et al. 2022, figure 2: Xavier's normal distribution, with a gain (their beta) in the feed-forward
    network and for values and attention's output, and with 1 for queries and keys.
    """
    for layer in layers:
        assert isinstance(layer, ResidualLayer)
        if (gain := layer.placement.init_gain) is None:
            continue
        for name in ("attention_output", "ffn_input", "ffn_output"):
            nn.init.xavier_normal_(layer.get_parameter(f"{name}.weight"), gain)
        for name, parts in layer.PROJECTIONS.items():
            blocks = layer.get_parameter(f"{name}.weight").detach().chunk(len(parts))
            for part, block in zip(parts, blocks, strict=True):
                nn.init.xavier_normal_(block, gain if part == "value" else 1.0)
