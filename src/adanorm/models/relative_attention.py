"""Attention with relative positions (Dai et al. 2019, section 3.3), computed without large tensors.

B streams, N heads, D features per head, T queries, S = memory + T keys.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

# Largest size of the scores computed at once: a CPU's cache holds it; a GPU is faster with few
# large ones.
CHUNK_BYTES = {"cpu": 2**23}
CHUNK_BYTES_ELSEWHERE = 2**30


def relative_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance: Tensor,
    u: Tensor,
    v: Tensor,
    forbidden: Tensor,
) -> Tensor:
    """Return softmax((q_i + u) k_j + (q_i + v) r_{i-j}) V, scaled by D^-1/2, of shape (B, N, T, D).

    query is (B, N, T, D), key and value are (B, N, S, D), u and v are biases (N, D). Row s of
    distance (N, S, D) is the projected encoding of the distance S - 1 - s. forbidden (T, S) is true
    where query i may not see key j, and must be true at every later key, j > i + S - T. Scores are
    computed for one chunk of heads at a time and again in the backward pass, so none is kept.
    Differentiable once.
    """
    attention: Any = _RelativeAttention
    result: Tensor = attention.apply(
        query,
        key,
        value,
        distance,
        u,
        v,
        forbidden,
    )
    return result


class _RelativeAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        query, key, value, distance, u, v, forbidden = inputs
        output = torch.empty_like(query)
        with torch.autocast(query.device.type, enabled=False):
            for part in _parts(query, key.shape[2]):
                p, *_ = _probabilities(
                    part,
                    query,
                    key,
                    distance,
                    u,
                    v,
                    forbidden,
                )
                mixed = torch.bmm(p, value[part].flatten(0, 1))
                output[part] = mixed.view_as(output[part])
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, distance, u, v, forbidden = ctx.saved_tensors
        time, keys = forbidden.shape
        d_query = torch.empty_like(query)
        d_key = torch.empty_like(key)
        d_value = torch.empty_like(value)
        d_distance = torch.zeros_like(distance)
        d_u = torch.zeros_like(u)
        d_v = torch.zeros_like(v)
        scale = query.shape[-1] ** -0.5
        for part in _parts(query, keys):
            heads = part[1]
            shape = query[part].shape
            p, with_u, with_v, k, r = _probabilities(
                part,
                query,
                key,
                distance,
                u,
                v,
                forbidden,
            )
            # 1) Through the mixture of values and the softmax.
            g = grad[part].flatten(0, 1)
            d_value[part] = torch.bmm(p.transpose(1, 2), g).view_as(d_value[part])
            rows = value[part].flatten(0, 1)
            d_scores = torch.bmm(g, rows.transpose(1, 2)).mul_(p)
            d_scores.sub_(p.mul_(d_scores.sum(2, keepdim=True)))
            # 2) Through the scores of keys, and through those of distances, not shifted.
            unshifted = p.new_zeros(
                len(p),
                time,
                _width(keys),
            )
            _shifted(unshifted, time, keys).copy_(d_scores)
            d_with_u = torch.bmm(d_scores, k).view(shape).mul_(scale)
            d_with_v = torch.bmm(unshifted, r).view(shape).mul_(scale)
            d_key[part] = torch.bmm(d_scores.transpose(1, 2), with_u).view_as(d_key[part])
            d_r = torch.bmm(unshifted.transpose(1, 2), with_v)[:, :keys]
            d_r = d_r.reshape(*shape[:2], *d_r.shape[1:])
            d_distance[heads] += d_r.sum(0)
            # 3) To the queries and their biases.
            d_u[heads] += d_with_u.sum((0, 2))
            d_v[heads] += d_with_v.sum((0, 2))
            d_query[part] = d_with_u.add_(d_with_v)
        return d_query, d_key, d_value, d_distance, d_u, d_v, None


Part = tuple[slice, slice]  # streams, heads


def _parts(query: Tensor, keys: int) -> list[Part]:
    """Return slices of streams and heads whose scores fit a chunk, whole streams if possible."""
    streams, heads, time, _ = query.shape
    bytes_per_head = time * _width(keys) * query.element_size()
    chunk = CHUNK_BYTES.get(query.device.type, CHUNK_BYTES_ELSEWHERE)
    heads_per_part = _part_size(heads, chunk // bytes_per_head)
    streams_per_part = _part_size(streams, chunk // (bytes_per_head * heads))
    parts = []
    for stream in range(0, streams, streams_per_part):
        for head in range(0, heads, heads_per_part):
            of_streams = slice(stream, stream + streams_per_part)
            parts.append((of_streams, slice(head, head + heads_per_part)))
    return parts


def _part_size(total: int, largest: int) -> int:
    """Return the size of the fewest nearly equal parts of `total` with at most `largest`, or 1."""
    parts = math.ceil(total / max(1, largest))
    return math.ceil(total / parts)


def _probabilities(
    part: Part,
    query: Tensor,
    key: Tensor,
    distance: Tensor,
    u: Tensor,
    v: Tensor,
    forbidden: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the attention (C, T, S) of a chunk of C heads, and the factors of its scores."""
    _, heads = part
    time, keys = forbidden.shape
    scale = query.shape[-1] ** -0.5
    # 1) The factors.
    q = query[part]
    with_u = (q + u[heads, None]) * scale
    with_v = (q + v[heads, None]) * scale
    with_u, with_v = with_u.flatten(0, 1), with_v.flatten(0, 1)
    k = key[part].flatten(0, 1)
    padded = F.pad(distance[heads], (0, 0, 0, _width(keys) - keys))
    r = padded.expand(len(q), *padded.shape).flatten(0, 1)
    # 2) The scores of keys, and those of distances.
    by_distance = torch.bmm(with_v, r.transpose(1, 2))
    scores = torch.bmm(with_u, k.transpose(1, 2))
    scores.add_(_shifted(by_distance, time, keys))
    # Added, because filling by a mask takes several times as long.
    hidden = torch.zeros_like(forbidden, dtype=scores.dtype).masked_fill_(forbidden, -torch.inf)
    p = torch.softmax(scores.add_(hidden), 2)
    return p, with_u, with_v, k, r


def _width(keys: int) -> int:
    """Return the size of a row of scores by distance: above `keys`, and whole blocks of 8.

    A GPU's fast products need rows that begin at multiples of 16 bytes.
    """
    return 8 * math.ceil((keys + 1) / 8)


def _shifted(by_distance: Tensor, time: int, keys: int) -> Tensor:
    """Return scores by distance (C, T, L) as a view by key (C, T, S): Dai et al.'s shift.

    Read from number T - 1 on in rows of L - 1, they are shifted.
    """
    chunk, _, width = by_distance.shape
    start = by_distance.storage_offset() + time - 1
    return by_distance.as_strided(
        (chunk, time, keys),
        (time * width, width - 1, 1),
        start,
    )


def forbidden_keys(
    time: int, keys: int, *, memory: int, same_length: bool, device: torch.device
) -> Tensor:
    """Return a mask (T, S) that is true where a query may not see a key.

    No query sees a later byte. With `same_length` each sees at most `memory` keys, so that a
    segment's last query has no more context than its first (the original's evaluation).
    """
    ones = torch.ones(
        time,
        keys,
        dtype=torch.bool,
        device=device,
    )
    forbidden = ones.triu(1 + keys - time)
    if same_length and keys > memory:
        forbidden |= ones.tril(keys - memory - time)
    return forbidden
