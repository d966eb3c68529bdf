"""Masks of a batch that processes share: each has the rows of the mask that one process draws."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.data.examples import Part
from adanorm.models.draws import attention, part_of_batch
from adanorm.models.fast_layers import Dropout

COUNT = 5  # rows of a batch


def dropped(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """Return dropout of x and its gradient, after which a second mask has been drawn."""
    torch.manual_seed(1)
    layer = Dropout(0.4)
    layer.rows = axis
    x = x.clone().requires_grad_()
    layer(x)
    z = layer(x)
    (gradient,) = torch.autograd.grad(z.float().square().sum(), x)
    return z.detach(), gradient


@pytest.mark.parametrize("world", [2, 3, 7])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_process_drops_what_one_process_drops_of_its_rows(
    world: int, axis: int, dtype: torch.dtype
) -> None:
    shape = [3, 3, 4]
    shape[axis] = COUNT
    x = torch.randn(shape, dtype=dtype)
    whole = dropped(x, axis)
    assert 0 < int((whole[0] == 0).sum()) < x.numel()
    for rank in range(world):
        rows = torch.arange(COUNT)[rank::world]
        with part_of_batch(Part(rank, world, COUNT)):
            part = dropped(x.index_select(axis, rows), axis)
        for mine, every in zip(part, whole, strict=True):
            assert torch.equal(mine, every.index_select(axis, rows))


@pytest.mark.parametrize("rank", [0, 1])
def test_attention_of_a_part_drops_the_weights_that_pytorchs_own_drops(rank: int) -> None:
    query, key, value = torch.randn(3, COUNT, 2, 6, 4)
    mask = torch.zeros(COUNT, 1, 1, 6)
    mask[1, ..., 4:] = -torch.inf
    torch.manual_seed(2)
    whole = F.scaled_dot_product_attention(query, key, value, mask, dropout_p=0.3)
    torch.manual_seed(2)
    with part_of_batch(Part(rank, 2, COUNT)):
        q, k, v, m = (tensor[rank::2] for tensor in (query, key, value, mask))
        mixed = attention(q, k, v, m, 0.3)
    torch.testing.assert_close(mixed, whole[rank::2])
