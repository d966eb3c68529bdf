"""fairseq's attention and dropout, computing the same at less cost on the CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.data.translation.fairseq_library import fairseq
from adanorm.models.fast_layers import Dropout


def replace_modules(model: nn.Module) -> None:
    """Put these in the place of a model's modules; parameters and their names stay."""
    modules = fairseq().modules
    for module in list(model.modules()):
        if type(module) is modules.MultiheadAttention:
            module.__class__ = _attention()
            continue  # its dropout is a part of it
        for name, child in module.named_children():
            if type(child) is modules.FairseqDropout:
                setattr(module, name, Dropout(float(child.p)))  # type: ignore[arg-type]


@cache
def _attention() -> Any:
    """Return fairseq's attention, which calls its linear layers rather than read their weights."""

    class Attention(fairseq().modules.MultiheadAttention):  # type: ignore[misc]
        def forward(
            self,
            query: Tensor,
            key: Tensor,
            value: Tensor,
            key_padding_mask: Tensor | None = None,
            *,
            attn_mask: Tensor | None = None,
            **asked: Any,
        ) -> tuple[Tensor, Tensor | None]:
            """Return the result (T, B, H) of queries (T, B, H), keys and values (S, B, H), and weights."""
            # What this does not do is fairseq's: weights are wanted unless they are declined.
            if any(option not in (None, False) for option in {"need_weights": True, **asked}.values()):
                masks = {"key_padding_mask": key_padding_mask, "attn_mask": attn_mask}
                found: tuple[Tensor, Tensor | None] = super().forward(query, key, value, **masks, **asked)
                return found
            projections = (self.q_proj, query), (self.k_proj, key), (self.v_proj, value)
            q, k, v = (
                projection(x).unflatten(2, (self.num_heads, -1)).permute(1, 2, 0, 3)
                for projection, x in projections
            )
            mask, p = _mask(key_padding_mask, attn_mask, query), self.dropout_module.p
            mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p if self.training else 0.0)
            output: Tensor = self.out_proj(mixed.permute(2, 0, 1, 3).flatten(2))
            return output, None

    return Attention


def _mask(padding: Tensor | None, added: Tensor | None, like: Tensor) -> Tensor | None:
    """Return what to add to the scores (B, N, T, S): minus infinity at padding (B, S), and `added` (T, S)."""
    if padding is None:
        return None if added is None else added.to(like.dtype)
    hidden = like.new_zeros(len(padding), 1, 1, padding.shape[1]).masked_fill_(
        padding.bool()[:, None, None], -torch.inf
    )
    return hidden if added is None else hidden + added
