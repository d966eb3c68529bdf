"""Relative attention as its paper writes it, to compare the faster one with."""

import torch
from torch import Tensor


def straightforward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    distance: Tensor,
    u: Tensor,
    v: Tensor,
    forbidden: Tensor,
) -> Tensor:
    """Return what relative_attention does, as Dai et al. 2019, section 3.3 and appendix B write it.

    Time leads, as it does in their formulation: scores are (T, S, B, N).
    """
    q, k, values = (
        tensor.permute(
            2,
            0,
            1,
            3,
        )
        for tensor in (query, key, value)
    )
    content = torch.einsum("ibnd,jbnd->ijbn", q + u, k)
    position = torch.einsum("ibnd,jnd->ijbn", q + v, distance.transpose(0, 1))
    time_, keys, streams, heads = position.shape
    padded = torch.cat(
        [
            position.new_zeros(
                time_,
                1,
                streams,
                heads,
            ),
            position,
        ],
        1,
    )
    position = padded.view(
        keys + 1,
        time_,
        streams,
        heads,
    )[1:].view_as(position)
    scores = (content + position) / query.shape[-1] ** 0.5
    p = scores.masked_fill(forbidden[:, :, None, None], -torch.inf).softmax(1)
    return torch.einsum("ijbn,jbnd->ibnd", p, values).permute(
        1,
        2,
        0,
        3,
    )
