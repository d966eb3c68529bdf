"""The closed form on CUDA, by Triton: each program loads whole rows into registers.

Letters are those of norms.closed_form; tensors are (R, H) and contiguous, variance is (R,).
Arithmetic and sums are in float32. It is made for H up to 16,384; wider rows spill registers.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from adanorm.norms.closed_form import Member

ELEMENTS = 2048  # of the narrow rows that one program takes together
ELEMENTS_A_WARP = 512  # 16 per thread: two loads of 16 bytes in half precision


@triton.jit
def _offsets(rows, features, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Return this program's rows (ROWS,), a mask of what exists and offsets (ROWS, BLOCK)."""
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i = tl.arange(0, BLOCK)
    return r, (r < rows)[:, None] & (i < features)[None, :], r[:, None] * features + i[None, :]


@triton.jit
def _shifted(x, offsets, inside, features):
    """Return x - mean, 0 where no element exists; its squares give the variance uncancelled."""
    row = tl.load(
        x + offsets,
        mask=inside,
        other=0.0,
    ).to(tl.float32)
    return tl.where(
        inside,
        row - (tl.sum(row, 1) / features)[:, None],
        0.0,
    )


@triton.jit
def _scales(variance, eps: tl.constexpr, unbiased: tl.constexpr):
    """Return 1/std and the factor of the variance's term in the gradient, as in numba_rows."""
    variance = tl.where(
        variance == float("inf"),
        float("nan"),
        variance,
    )  # as in numba_rows
    variance_factor = tl.full(
        variance.shape,
        1.0,
        variance.dtype,
    )
    std = tl.sqrt(variance + eps)
    if unbiased > 0:
        spread = tl.sqrt(variance * unbiased)
        std = spread + eps
        # A constant row has y = 0 and no variance term; its 0/0 must not reach the gradient.
        variance_factor = tl.where(
            spread == 0.0,
            0.0,
            unbiased
            * std
            / tl.where(
                spread == 0.0,
                1.0,
                spread,
            ),
        )
    return 1.0 / std, variance_factor


@triton.jit
def _forward(
    x,
    z,
    variance,
    rows,
    features,
    k: tl.constexpr,
    C: tl.constexpr,
    eps: tl.constexpr,
    unbiased: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    r, inside, offsets = _offsets(
        rows,
        features,
        ROWS,
        BLOCK,
    )
    shifted = _shifted(x, offsets, inside, features)
    row_variance = tl.sum(shifted * shifted, 1) / features
    tl.store(
        variance + r,
        row_variance,
        mask=r < rows,
    )
    inverse_std, _ = _scales(row_variance, eps, unbiased)
    y = shifted * inverse_std[:, None]
    tl.store(
        z + offsets,
        (C - C * k * y) * y,
        mask=inside,
    )


@triton.jit
def _backward(
    dz,
    x,
    variance,
    dx,
    rows,
    features,
    k: tl.constexpr,
    C: tl.constexpr,
    eps: tl.constexpr,
    unbiased: tl.constexpr,
    detach_mean: tl.constexpr,
    detach_variance: tl.constexpr,
    needs_x: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    r, inside, offsets = _offsets(
        rows,
        features,
        ROWS,
        BLOCK,
    )
    g = C * tl.load(
        dz + offsets,
        mask=inside,
        other=0.0,
    ).to(tl.float32)
    row_variance = tl.load(
        variance + r,
        mask=r < rows,
        other=1.0,
    )
    inverse_std, variance_factor = _scales(row_variance, eps, unbiased)
    if needs_x:
        y = (
            _shifted(
                x,
                offsets,
                inside,
                features,
            )
            * inverse_std[:, None]
        )
        g = g - k * y * g
        mean_gy = variance_factor * tl.sum(g * y, 1) / features
    result = g
    if not detach_mean:
        result = result - (tl.sum(g, 1) / features)[:, None]
    if not detach_variance:
        result = result - y * mean_gy[:, None]
    tl.store(
        dx + offsets,
        inverse_std[:, None] * result,
        mask=inside,
    )


def forward(x: Tensor, member: Member) -> tuple[Tensor, Tensor]:
    """Return z (..., H) in x's type and the biased variance (...) in float32."""
    x = x.contiguous()
    z, variance = torch.empty_like(x), x.new_empty(x.shape[:-1], dtype=torch.float32)
    _launch(_forward, (x, z, variance), member)
    return z, variance


def backward(grad: Tensor, x: Tensor | None, variance: Tensor, member: Member) -> Tensor:
    """Return dl/dx (..., H) in the type of grad = dl/dz; x is None if it is a multiple of that."""
    dz = grad.contiguous()
    dx = torch.empty_like(dz)
    tensors = (dz, dz if x is None else x.contiguous(), variance, dx)
    detached = {"detach_mean": member.detach_mean, "detach_variance": member.detach_variance}
    _launch(
        _backward,
        tensors,
        member,
        needs_x=x is not None,
        **detached,
    )
    return dx


def _launch(kernel: Any, tensors: tuple[Tensor, ...], member: Member, **settings: bool) -> None:
    """Run a kernel on its tensors, over all rows of the first one and on that one's device."""
    like = tensors[0]
    features = like.shape[-1]
    if like.numel() == 0:
        return
    rows, block = like.numel() // features, triton.next_power_of_2(features)
    together = max(1, ELEMENTS // block)
    shape = {
        "ROWS": together,
        "BLOCK": block,
        "num_warps": min(32, together * block // ELEMENTS_A_WARP),
    }
    unbiased = (
        features / (features - 1) if member.numerics == "released" else 0.0
    )  # 0: the paper's variance
    with torch.cuda.device_of(like):  # type: ignore[no-untyped-call]
        kernel[(triton.cdiv(rows, together),)](
            *tensors,
            rows,
            features,
            k=member.k,
            C=member.C,
            eps=member.eps,
            unbiased=unbiased,
            **settings,
            **shape,
        )
