"""Residual layers of attention and feed-forward network, with norms where a placement says.

B examples, T positions, N heads, D features per head, H features.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from torch import Tensor, nn

from adanorm.config.placements import Placement
from adanorm.models.norm_sites import PlacedNorms
from adanorm.norms import NoNorm, Norm

Branch = Callable[[Tensor], Tensor]
BRANCHES, PARTS = ("attention", "ffn"), ("query", "key", "value")
LAST_NORMS = ("attention_output_norm", "ffn_output_norm", "query_norm", "key_norm", "value_norm")


def layer_norm(
    make_norm: PlacedNorms,
    stack: Sequence[Placement],
    index: int,
    name: str,
    *,
    dim: int,
    width: int,
) -> Norm:
    """Return the norm `name` of layer `index`, or NoNorm if its placement lacks that norm.

    `attention_norm` and `ffn_norm` are in front of a branch or behind its residual sum; `_output`
    norms follow a branch. Those of queries, keys and values have `width` features. The order of a
    layer's calls is that of its modules, because some norms draw weights.
    """
    placement, layer = stack[index], f"layers.{index}"
    part = name.removesuffix("_norm")
    after = None
    # 1) On queries, keys or values.
    if part in PARTS:
        is_there = part in placement.in_heads
        dim = width
    # 2) In front of a branch, or behind its residual sum.
    elif part in BRANCHES:
        sites = getattr(placement, part)
        is_there = sites.front or sites.after
        after = (
            f"{layer}.{part}_output"
            if sites.after
            else layer_before(
                stack,
                index,
                part,
            )
        )
    # 3) On a branch's output.
    else:
        is_there = getattr(placement, part.removesuffix("_output")).output
        after = f"{layer}.{part}"
    if not is_there:
        return NoNorm(dim)
    return make_norm(dim, site=f"{layer}.{name}", after=after)


def layer_before(stack: Sequence[Placement], index: int, branch: str) -> str | None:
    """Return the name of the linear layer that ends the sum which a branch reads.

    It is None where the first layer begins, and where a norm lies between.
    """
    if index == 0 and branch == "attention":
        return None
    before = index if branch == "ffn" else index - 1
    previous = "attention" if branch == "ffn" else "ffn"
    sites = getattr(stack[before], previous)
    if sites.output or sites.after:
        return None
    return f"layers.{before}.{previous}_output"


def closing_norm(make_norm: PlacedNorms, stack: Sequence[Placement], *, dim: int) -> Norm:
    """Return the norm behind a stack, or NoNorm if the stack's last sum is normalized already."""
    if stack[-1].ffn.after:
        return NoNorm(dim)
    after = layer_before(stack, len(stack), "attention")
    return make_norm(
        dim,
        site="closing_norm",
        after=after,
        closes_stack=True,
    )


class ResidualLayer(nn.Module):
    """A layer with two branches F, attention and feed-forward network: z = P(a x + O(F(s N(x)))).

    A subclass has the modules `attention_output`, `ffn_input`, `ffn_output`, those of `PROJECTIONS`
    and a `dropout`. Its norms are N or P (`attention_norm`, `ffn_norm`), O
    (`attention_output_norm`, `ffn_output_norm`), and `query_norm`, `key_norm`, `value_norm`.
    """

    # The linear layers that project to queries, keys and values, each with the parts in its rows,
    # in order.
    PROJECTIONS: ClassVar[dict[str, tuple[str, ...]]]

    placement: Placement
    dropout: nn.Module

    def add_branch(
        self,
        name: str,
        x: Tensor,
        branch: Branch,
        *,
        reads: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Return z (B, T, H) for x (B, T, H) and the branch `name`.

        The branch reads x, or `reads` (B, S, H). `rows` (B, T) is false at padding.
        """
        sites = getattr(self.placement, name)
        norm: Callable[..., Tensor] = self.get_submodule(f"{name}_norm")
        branch_input = x if reads is None else reads
        if sites.front:
            branch_input = norm(branch_input, rows)
            if self.placement.norm_scale != 1:
                branch_input = branch_input * self.placement.norm_scale
        result = branch(branch_input)
        if sites.output:
            result = self.get_submodule(f"{name}_output_norm")(result, rows)
        skipped = x if self.placement.skip_scale == 1 else self.placement.skip_scale * x
        total = skipped + self.dropout(result)
        return norm(total, rows) if sites.after else total

    def in_heads(self, part: str, x: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return queries, keys or values x (B, N, T, D), normalized over each or all heads."""
        if part not in self.placement.in_heads:
            return x
        norm: Callable[..., Tensor] = self.get_submodule(f"{part}_norm")
        if self.placement.over == "head":
            z = norm(x, None if rows is None else rows[:, None].expand(x.shape[:3]))
        else:
            side_by_side = x.transpose(1, 2)
            z = norm(side_by_side.flatten(2), rows).reshape(side_by_side.shape).transpose(1, 2)
        return z.to(x.dtype)  # under autocast a norm returns float32, but attention takes one type


def draw_deepnorm(layers: nn.ModuleList) -> None:
    """Redraw the weights of layers whose placement has an `init_gain`, by DeepNorm's rule.

    Wang et al. 2022, figure 2: Xavier's normal distribution. Its gain is their beta for values,
    attention's output and the feed-forward network, and 1 for queries and keys. Biases stay.
    """
    for layer in layers:
        assert isinstance(layer, ResidualLayer)
        gain = layer.placement.init_gain
        if gain is None:
            continue
        for name in ("attention_output", "ffn_input", "ffn_output"):
            nn.init.xavier_normal_(layer.get_parameter(f"{name}.weight"), gain)
        for name, parts in layer.PROJECTIONS.items():
            blocks = layer.get_parameter(f"{name}.weight").detach().chunk(len(parts))
            for part, block in zip(
                parts,
                blocks,
                strict=True,
            ):
                nn.init.xavier_normal_(block, gain if part == "value" else 1.0)
