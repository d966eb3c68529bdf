"""The Transformer encoder that classifies sentences (RT, SST5)."""

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.model_sections import SentenceEncoderConfig
from adanorm.config.placements import Placement
from adanorm.models.draws import attention, drawn
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.residual import (
    LAST_NORMS,
    PARTS,
    ResidualLayer,
    closing_norm,
    draw_deepnorm,
    layer_norm,
)

PADDING, UNKNOWN = 0, 1  # token ids


class EncoderLayer(ResidualLayer):
    """Self-attention and a feed-forward network, each with a residual connection and norms.

    It is written out because the inference path of nn.TransformerEncoderLayer reads LayerNorm's
    weights and never calls the norm.
    """

    PROJECTIONS: ClassVar = {"query_key_value": PARTS}

    def __init__(
        self,
        make_norm: PlacedNorms,
        stack: Sequence[Placement],
        index: int,
        settings: SentenceEncoderConfig,
    ) -> None:
        super().__init__()
        self.placement, self.heads = stack[index], settings.heads
        self.attention_dropout = settings.attention_dropout or 0.0
        dim = settings.dim
        width = dim // self.heads if self.placement.over == "head" else dim
        norm = partial(
            layer_norm,
            make_norm,
            stack,
            index,
            dim=dim,
            width=width,
        )
        self.attention_norm = norm("attention_norm")
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.attention_output = nn.Linear(dim, dim)
        self.ffn_norm = norm("ffn_norm")
        self.ffn_input = nn.Linear(dim, settings.ffn_dim)
        self.ffn_output = nn.Linear(settings.ffn_dim, dim)
        self.dropout = nn.Dropout(settings.dropout)
        for name in LAST_NORMS:
            self.add_module(name, norm(name))

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        """Return the layer's output (B, T, H) for x (B, T, H); `words` (B, T) is true at words."""
        x = self.add_branch(
            "attention",
            x,
            partial(self._attend, words=words),
            rows=words,
        )
        return self.add_branch(
            "ffn",
            x,
            self._feed_forward,
            rows=words,
        )

    def _attend(self, x: Tensor, *, words: Tensor) -> Tensor:
        projected = self.query_key_value(x).unflatten(2, (3, self.heads, -1))
        query, key, value = projected.permute(
            2,
            0,
            3,
            1,
            4,
        )  # (B, N, T, D) each
        mixed = attention(
            self.in_heads("query", query, words),
            self.in_heads("key", key, words),
            self.in_heads("value", value, words),
            words[:, None, None],
            self.attention_dropout if self.training else 0.0,
        )
        return self.attention_output(mixed.transpose(1, 2).flatten(2))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.ffn_output(F.relu(self.ffn_input(x)))


class SentenceEncoder(nn.Module):
    """Embeddings with sinusoidal positions, layers, a closing norm, pooling, a linear layer."""

    def __init__(
        self,
        make_norm: PlacedNorms,
        settings: SentenceEncoderConfig,
        *,
        vocabulary: int,
        classes: int,
    ) -> None:
        super().__init__()
        dim, self.pooling = settings.dim, settings.pooling
        stack = settings.stack()
        self.embedding = nn.Embedding(
            vocabulary,
            dim,
            padding_idx=PADDING,
        )
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.layers = nn.ModuleList(
            EncoderLayer(
                make_norm,
                stack,
                i,
                settings,
            )
            for i in range(len(stack))
        )
        self.closing_norm = closing_norm(make_norm, stack, dim=dim)
        self.output = nn.Linear(dim, classes)
        self.dropout = nn.Dropout(settings.dropout)
        self.word_dropout = settings.word_dropout or 0.0
        if settings.init == "xavier":  # Glorot & Bengio 2010, as OpenNMT-py's `param_init_glorot`
            for parameter in self.parameters():
                if parameter.dim() > 1:
                    nn.init.xavier_uniform_(parameter)
            self.embedding.weight.data[PADDING] = 0
        draw_deepnorm(self.layers)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits (B, classes) for token ids (B, T) padded with 0; padding changes nothing.

        In training, each word is unknown with probability `word_dropout` (Iyyer et al. 2015).
        """
        words = tokens != PADDING
        if self.training and self.word_dropout:
            uniform = drawn(tokens.shape, partial(torch.rand, device=tokens.device))
            dropped = uniform < self.word_dropout
            tokens = tokens.masked_fill(dropped & words, UNKNOWN)
        dim = self.embedding.embedding_dim
        positions = sinusoids(
            tokens.shape[1],
            dim,
            tokens.device,
        )
        x = self.dropout(self.embedding(tokens) * math.sqrt(dim) + positions)
        for layer in self.layers:
            x = layer(x, words)
        x = self.closing_norm(x, words)
        if self.pooling == "first":
            pooled = x[:, 0]
        elif self.pooling == "max":
            pooled = x.masked_fill(~words[:, :, None], -torch.inf).amax(1)
        else:
            pooled = (x * words[:, :, None]).sum(1) / words.sum(1, keepdim=True).clamp(min=1)
        return self.output(self.dropout(pooled))


def sinusoids(time: int, dim: int, device: torch.device) -> Tensor:
    """Return sines, then cosines of positions, together (T, H) (Vaswani et al. 2017, section 3.5).

    Their order is tensor2tensor's.
    """
    count = dim // 2
    exponents = torch.arange(count, device=device) * (-math.log(10000.0) / count)
    angles = torch.arange(time, device=device)[:, None] * torch.exp(exponents)
    return torch.cat([angles.sin(), angles.cos()], 1)
