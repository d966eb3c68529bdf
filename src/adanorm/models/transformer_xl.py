"""Transformer-XL (Dai et al. 2019) over bytes, with norms from `make_norm`.

B streams, T bytes per segment, M remembered positions, H features.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.model_sections import TransformerXlConfig
from adanorm.config.placements import Placement
from adanorm.data.examples import WHOLE
from adanorm.models.draws import part_of_batch
from adanorm.models.fast_layers import linear
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.relative_attention import forbidden_keys, relative_attention
from adanorm.models.residual import (
    LAST_NORMS,
    ResidualLayer,
    closing_norm,
    draw_deepnorm,
    layer_norm,
)

Memory = list[Tensor]  # earlier inputs of each layer, (B, up to M, H)
INIT_STD = 0.02
BYTES = 256


class Layer(ResidualLayer):
    """Relative attention over memory and segment, and a feed-forward network."""

    PROJECTIONS: ClassVar = {
        "query": ("query",),
        "key_value": ("key", "value"),
        "distance": ("key",),
    }

    def __init__(
        self,
        make_norm: PlacedNorms,
        stack: Sequence[Placement],
        index: int,
        settings: TransformerXlConfig,
    ) -> None:
        super().__init__()
        self.placement, self.heads, dim = stack[index], settings.heads, settings.dim
        self.attention = relative_attention
        inner = settings.heads * settings.head_dim
        self.query = nn.Linear(
            dim,
            inner,
            bias=False,
        )
        self.key_value = nn.Linear(
            dim,
            2 * inner,
            bias=False,
        )
        self.distance = nn.Linear(
            dim,
            inner,
            bias=False,
        )
        self.attention_output = nn.Linear(
            inner,
            dim,
            bias=False,
        )
        width = settings.head_dim if self.placement.over == "head" else inner
        norm = partial(
            layer_norm,
            make_norm,
            stack,
            index,
            dim=dim,
            width=width,
        )
        self.attention_norm = norm("attention_norm")
        self.ffn_input = nn.Linear(dim, settings.ffn_dim)
        self.ffn_output = nn.Linear(settings.ffn_dim, dim)
        self.ffn_norm = norm("ffn_norm")
        self.dropout = nn.Dropout(settings.dropout)
        for name in LAST_NORMS:
            self.add_module(name, norm(name))

    def forward(self, x: Tensor, memory: Tensor, *shared: Tensor) -> Tensor:
        """Return the output (B, T, H) for x, memory (B, M, H) and _attend's first arguments."""
        x = self.add_branch(
            "attention", x, partial(self._attend, *shared), reads=torch.cat([memory, x], 1)
        )
        return self.add_branch("ffn", x, self._feed_forward)

    def _attend(
        self, encoding: Tensor, u: Tensor, v: Tensor, forbidden: Tensor, x: Tensor
    ) -> Tensor:
        """Return attention (B, T, H) of the last T positions in x (B, S, H); encoding is (S, H)."""
        time = len(forbidden)
        query = self._heads_of("query", self.query(x[:, -time:]))
        keys, values = self.key_value(x).chunk(2, -1)
        key = self._heads_of("key", keys)
        value = self._heads_of("value", values)
        distance = self.distance(encoding).unflatten(1, (self.heads, -1)).transpose(0, 1)
        u, v = u.to(query), v.to(query)
        mixed = self.attention(
            query,
            key,
            value,
            distance,
            u,
            v,
            forbidden,
        )
        return self.attention_output(mixed.transpose(1, 2).flatten(2))

    def _heads_of(self, part: str, rows: Tensor) -> Tensor:
        """Return queries, keys or values (B, T, N * D) by head (B, N, T, D), and normed."""
        by_head = rows.reshape(
            *rows.shape[:2],
            self.heads,
            -1,
        )
        return self.in_heads(part, by_head.transpose(1, 2))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.ffn_output(self.dropout(F.relu(self.ffn_input(x))))


class TransformerXl(nn.Module):
    """A model from bytes to the logits of the next byte, with a memory of earlier segments."""

    def __init__(self, make_norm: PlacedNorms, settings: TransformerXlConfig) -> None:
        super().__init__()
        stack = settings.stack()
        self.embedding = nn.Embedding(BYTES, settings.dim)
        # The content and position biases u and v of the paper, shared by the layers.
        self.u = nn.Parameter(torch.empty(settings.heads, settings.head_dim))
        self.v = nn.Parameter(torch.empty(settings.heads, settings.head_dim))
        self.layers = nn.ModuleList(
            Layer(
                make_norm,
                stack,
                i,
                settings,
            )
            for i in range(len(stack))
        )
        self.closing_norm = closing_norm(
            make_norm,
            stack,
            dim=settings.dim,
        )
        self.output_bias = nn.Parameter(torch.zeros(BYTES))  # the output is tied to the embedding
        self.dropout = nn.Dropout(settings.dropout)
        self.apply(_initialize)
        draw_deepnorm(self.layers)
        nn.init.normal_(self.u, std=INIT_STD)
        nn.init.normal_(self.v, std=INIT_STD)

    def forward(
        self,
        x: Tensor,
        memory: Memory,
        *,
        remember: int,
        clamp: int | None = None,
        same_length: bool = False,
    ) -> tuple[Tensor, Memory]:
        """Return logits (B, T, 256) for the byte after each byte of x (B, T), and the new memory.

        `memory` comes from the previous call and is empty at a stream's start. The new one holds
        the last `remember` positions and no gradient. Distances above `clamp` count as `clamp`.
        """
        x = self.dropout(self.embedding(x) * self.embedding.embedding_dim**0.5)
        streams, time, dim = x.shape
        if not memory:
            memory = [
                x.new_empty(
                    streams,
                    0,
                    dim,
                )
            ] * len(self.layers)
        keys = memory[0].shape[1] + time
        encoding = distance_encoding(keys, dim, clamp, x.device)
        with part_of_batch(WHOLE):  # it has no rows: all streams have the same mask
            encoding = self.dropout(encoding.to(x.dtype))
        forbidden = forbidden_keys(
            time, keys, memory=remember, same_length=same_length, device=x.device
        )
        following: Memory = []
        for layer, earlier in zip(
            self.layers,
            memory,
            strict=True,
        ):
            inputs = torch.cat([earlier, x.detach()], 1)
            following.append(inputs[:, -remember:])
            x = layer(
                x,
                earlier,
                encoding,
                self.u,
                self.v,
                forbidden,
            )
        x = self.dropout(self.closing_norm(x))
        return linear(
            x,
            self.embedding.weight,
            self.output_bias,
        ), following


def distance_encoding(keys: int, dim: int, clamp: int | None, device: torch.device) -> Tensor:
    """Return sines, then cosines, (S, H), of the distances S - 1 ... 0, each at most `clamp`."""
    distance = torch.arange(
        keys - 1,
        -1,
        -1,
        device=device,
        dtype=torch.float32,
    )
    if clamp is not None:
        distance = distance.clamp(max=clamp)
    frequency = 10_000 ** -(
        torch.arange(
            0,
            dim,
            2,
            device=device,
        )
        / dim
    )
    angle = distance[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], 1)


def _initialize(module: nn.Module) -> None:
    """Draw weights like the original: N(0, 0.02), biases 0, the gain of a LayerNorm N(1, 0.02)."""
    if isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=INIT_STD)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=INIT_STD)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.LayerNorm) and module.weight is not None:
        nn.init.normal_(module.weight, 1.0, INIT_STD)
