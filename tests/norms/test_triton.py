"""Triton's kernels: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from adanorm.norms.closed_form import Member, closed_form
from tests import commands
from tests.norms.cases import (
    FAMILY,
    assert_is_the_definition,
    fixed_weights,
    inputs,
    value_and_gradient,
)

pytest.importorskip("triton", reason="triton is not installed: its kernels cannot be run")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.cuda
# Rows and features: a program has 2,048 elements' rows, a wide row one of its own; the interpreter takes
# ten milliseconds a program. Programs are full, and full and part of one, and part of one.
SHAPES = (
    (0, 64), (1, 1), (9, 2), (1, 63), (32, 64), (9, 127), (5, 512), (3, 1000), (2, 4096), (2, 10_007),
)  # fmt: skip


of_the_family = pytest.mark.parametrize("member", FAMILY.values(), ids=list(FAMILY))


def by_kernels(x: Tensor, member: Member) -> tuple[Tensor, Tensor]:
    """Return z and the gradient of the fixed weighted sum, by the kernels, both as x."""
    # What is freed here is what the kernels' outputs are made of.
    poison = [torch.full_like(x, torch.nan) for _ in range(4)]
    del poison
    if x.is_cuda:
        return value_and_gradient(partial(closed_form, member=member, backend="fused"), x)
    from adanorm.norms.kernels import triton_rows

    z, variance = triton_rows.forward(x, member)
    is_multiple = member.k == 0 and member.detach_mean and member.detach_variance
    return z, triton_rows.backward(fixed_weights(z), None if is_multiple else x, variance, member)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@of_the_family
def test_the_kernels_are_the_definition(member: Member, dtype: torch.dtype) -> None:
    for rows, features in SHAPES:
        if member.numerics == "paper" or features in (2, 63, 512, 1000):
            x = inputs(rows, features, dtype=dtype).to(DEVICE)
            assert_is_the_definition(by_kernels(x, member), x, member)


@of_the_family
def test_a_large_mean_costs_no_more_than_its_rounding(member: Member) -> None:
    x = inputs(3, 1000, offset=1e4).to(DEVICE)
    assert_is_the_definition(by_kernels(x, member), x, member)


@of_the_family
def test_constant_rows_are_finite(member: Member) -> None:
    assert all(part.isfinite().all() for part in by_kernels(torch.full((3, 63), 0.1, device=DEVICE), member))


def test_layout_and_leading_axes_do_not_matter() -> None:
    x = inputs(30, 48).to(DEVICE)
    expected = by_kernels(x, Member(k=0.1))
    for other in (x.t().contiguous().t(), torch.stack([x, x], -1)[..., 0], x.view(2, 3, 5, 48)):
        parts = by_kernels(other, Member(k=0.1))
        assert all(torch.equal(a.view(30, 48), b) for a, b in zip(parts, expected, strict=True))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy's, in the interpreter
@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_what_is_not_finite_spreads_as_in_layernorm(value: float) -> None:
    x = inputs(4, 64).to(DEVICE)
    x[1, 5] = value
    theirs = value_and_gradient(partial(torch.nn.functional.layer_norm, normalized_shape=[64]), x)
    for a, b in zip(by_kernels(x, Member()), theirs, strict=True):
        assert torch.equal(a.isfinite(), b.isfinite())


def test_the_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    """The interpreter takes what the compiler refuses."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = commands.run("tests.norms.compiled_for_hopper", environment=environment, imported="libraries")
    assert done.returncode == 0, done.stderr
