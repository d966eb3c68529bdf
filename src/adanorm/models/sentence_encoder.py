"""The Transformer encoder that classifies sentences (RT, SST5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.placements import Heads, Placement, placements
from adanorm.models.norm_sites import PlacedNorms, normalized
from adanorm.models.residual import LayerNorms, ResidualLayer, closing_norm, draw_by_placement

PADDING = 0  # the token id of padding


class EncoderLayer(ResidualLayer):
    """Self-attention and a feed-forward network, each with a residual and norms.

    Written out because nn.TransformerEncoderLayer has an inference path that reads LayerNorm's
    weights and never calls the norm.
    """

    PROJECTIONS: ClassVar = {"query_key_value": ("query", "key", "value")}

    def __init__(
        self,
        make_norm: PlacedNorms,
        stack: Sequence[Placement],
        index: int,
        *,
        dim: int,
        heads: int,
        ffn_dim: int,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__(stack[index])
        self.heads, self.attention_dropout = heads, attention_dropout
        norms = LayerNorms(make_norm, stack, index, dim=dim, heads=heads, head_dim=dim // heads)
        self.attention_norm = norms("attention")
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.attention_output = nn.Linear(dim, dim)
        self.ffn_norm = norms("ffn")
        self.ffn_input = nn.Linear(dim, ffn_dim)
        self.ffn_output = nn.Linear(ffn_dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.attention_output_norm = norms.of_output("attention")
        self.ffn_output_norm = norms.of_output("ffn")
        self.query_norm, self.key_norm, self.value_norm = map(norms.in_heads, ("query", "key", "value"))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return (B, T, H) from x (B, T, H); `mask` (B, 1, 1, T) is true at words."""
        words = mask[:, 0, 0]
        x = self.add_branch("attention", x, partial(self._attend, mask=mask, words=words), rows=words)
        return self.add_branch("ffn", x, self._feed_forward, rows=words)

    def _attend(self, x: Tensor, *, mask: Tensor, words: Tensor) -> Tensor:
        batch, time, dim = x.shape
        heads = self.query_key_value(x).view(batch, time, 3, self.heads, dim // self.heads)
        query, key, value = (
            self.in_heads(part, projected, words)
            for part, projected in zip(("query", "key", "value"), heads.permute(2, 0, 3, 1, 4), strict=True)
        )
        dropout = self.attention_dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        output: Tensor = self.attention_output(mixed.transpose(1, 2).reshape(batch, time, dim))
        return output

    def _feed_forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.ffn_output(F.relu(self.ffn_input(x)))
        return output


class SentenceEncoder(nn.Module):
    """Embeddings with sinusoidal positions, encoder layers, a closing norm, pooling, a linear layer."""

    def __init__(
        self,
        make_norm: PlacedNorms,
        *,
        vocabulary: int,
        classes: int,
        layers: int,
        dim: int,
        heads: int,
        ffn_dim: int,
        dropout: float,
        pre_norm: bool,
        pooling: Literal["mean", "max", "first"],
        norm_position: str | None = None,
        post_layers: int | None = None,
        qk_norm: Heads | None = None,
        attention_dropout: float | None = None,
        init: Literal["xavier"] | None = None,
    ) -> None:
        super().__init__()
        position = norm_position or ("pre" if pre_norm else "post")
        stack = placements(position, layers, post_layers=post_layers, qk_norm=qk_norm)
        self.pooling = pooling
        self.embedding = nn.Embedding(vocabulary, dim, padding_idx=PADDING)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.layers = nn.ModuleList(
            EncoderLayer(
                make_norm,
                stack,
                index,
                dim=dim,
                heads=heads,
                ffn_dim=ffn_dim,
                dropout=dropout,
                attention_dropout=attention_dropout or 0.0,
            )
            for index in range(layers)
        )
        self.closing_norm = closing_norm(make_norm, stack, dim=dim)
        self.output = nn.Linear(dim, classes)
        self.dropout = nn.Dropout(dropout)
        if init == "xavier":
            self._draw_by_glorot()
        draw_by_placement(self.layers)

    def _draw_by_glorot(self) -> None:
        """Draw every matrix by Glorot & Bengio 2010, as OpenNMT-py's `param_init_glorot` does."""
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)
            self.embedding.weight[PADDING] = 0

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (B, classes) of token ids (B, T) padded with 0; padding changes nothing."""
        words = tokens != PADDING
        dim = self.embedding.embedding_dim
        x = self.embedding(tokens) * math.sqrt(dim) + sinusoids(tokens.shape[1], dim, tokens.device)
        x = self.dropout(x)
        mask = words[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        logits: Tensor = self.output(self.dropout(self._pool(normalized(self.closing_norm, x, words), words)))
        return logits

    def _pool(self, x: Tensor, words: Tensor) -> Tensor:
        if self.pooling == "first":
            return x[:, 0]
        if self.pooling == "max":
            return x.masked_fill(~words[:, :, None], -torch.inf).amax(1)
        total = (x * words[:, :, None]).sum(1)
        return total / words.sum(1, keepdim=True).clamp(min=1)


def sinusoids(time: int, dim: int, device: torch.device) -> Tensor:
    """Return position encodings (T, H): sines in the first half, cosines in the second.

    Vaswani et al. 2017, section 3.5, with the frequencies ordered as in tensor2tensor.
    """
    frequencies = torch.exp(torch.arange(dim // 2, device=device) * (-math.log(10000.0) / (dim // 2)))
    angles = torch.arange(time, device=device)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], 1)
