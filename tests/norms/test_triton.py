"""Triton's kernels: on a GPU where there is one, else in Triton's interpreter."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from adanorm.norms.functional import closed_form
from tests import commands
from tests.norms.cases import (
    FAMILY,
    assert_is_the_reference,
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


def found(x: Tensor, **settings: Any) -> tuple[Tensor, Tensor]:
    """Return z and the gradient of the fixed weighted sum, by the kernels, both as x."""
    # What is freed here is what the kernels' outputs are made of.
    poison = [torch.full_like(x, torch.nan) for _ in range(4)]
    del poison
    if x.is_cuda:
        return value_and_gradient(partial(closed_form, backend="fused", **settings), x)
    from adanorm.norms.kernels import triton_rows

    all_settings = {"k": 0.0, "C": 1.0, "detach_mean": False, "detach_variance": False, "eps": 1e-5}
    released, centered = settings.pop("numerics", "paper") == "released", settings.pop("centered", True)
    arguments: tuple[Any, ...] = (*{**all_settings, **settings}.values(), released, centered)
    if not centered:
        arguments = (*arguments[:2], True, *arguments[3:])
    z, variance = triton_rows.forward(x, *arguments)
    is_needed = arguments[:4] != (0.0, 1.0, True, True)
    return z, triton_rows.backward(fixed_weights(z), x if is_needed else None, variance, *arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_the_kernels_are_the_reference(settings: dict[str, Any], dtype: torch.dtype) -> None:
    for rows, features in SHAPES:
        x = inputs(rows, features, dtype=dtype).to(DEVICE)
        assert_is_the_reference(found(x, **settings), x, **settings)
        if features in (2, 63, 512, 1000) and settings.get("centered", True):
            released = {**settings, "numerics": "released"}
            assert_is_the_reference(found(x, **released), x, **released)


@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_a_large_mean_costs_no_more_than_its_rounding(settings: dict[str, Any]) -> None:
    x = inputs(3, 1000, offset=1e4).to(DEVICE)
    assert_is_the_reference(found(x, **settings), x, **settings)


@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_constant_rows_are_finite(settings: dict[str, Any]) -> None:
    x = torch.full((3, 63), 0.1, device=DEVICE)
    for numerics in ("paper", "released") if settings.get("centered", True) else ("paper",):
        assert all(part.isfinite().all() for part in found(x, **settings, numerics=numerics))


def test_layout_and_leading_axes_do_not_matter() -> None:
    x = inputs(30, 48).to(DEVICE)
    expected = found(x, k=0.1)
    for other in (x.t().contiguous().t(), torch.stack([x, x], -1)[..., 0], x.view(2, 3, 5, 48)):
        parts = found(other, k=0.1)
        assert all(torch.equal(a.view(30, 48), b) for a, b in zip(parts, expected, strict=True))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # NumPy's, in the interpreter
@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_what_is_not_finite_spreads_as_in_layernorm(value: float) -> None:
    x = inputs(4, 64).to(DEVICE)
    x[1, 5] = value
    theirs = value_and_gradient(partial(torch.nn.functional.layer_norm, normalized_shape=[64]), x)
    for a, b in zip(found(x), theirs, strict=True):
        assert torch.equal(a.isfinite(), b.isfinite())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_seednorms_kernels_are_pytorchs_operations_in_float64(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adanorm.norms.input_scaled import _Rescaled
    from adanorm.norms.kernels import triton_seednorm

    monkeypatch.setattr(triton_seednorm, "PROGRAMS", 3)  # each takes several tiles
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 2**-7}[dtype]
    for rows, features in ((1, 1), (9, 2), (9, 63), (70, 127), (5, 512), (2, 4096)):
        x = inputs(rows, features, dtype=dtype).to(DEVICE)
        dz = fixed_weights(x)
        # beta so small that tanh is not at its ends, where its slope is rounding alone.
        sizes = (0.3, 0.1 / features**0.5, 0.3)
        parts = inputs(3, features).to(DEVICE)
        alpha, beta, gain = ((a * part).to(dtype) for a, part in zip(sizes, parts, strict=True))
        z, kept = triton_seednorm.rescaled(x, alpha, beta, gain, 1e-5)
        dx, *gradients = triton_seednorm.rescaled_gradient(dz, x, alpha, beta, gain, kept, 1e-5)
        leaves = [part.double().requires_grad_() for part in (x, alpha, beta, gain)]
        exact = _Rescaled(1e-5).eager(*leaves)
        wanted = [exact, *torch.autograd.grad(exact, leaves, dz.double())]
        for found, expected in zip((z, dx, *gradients), wanted, strict=True):
            size = expected.abs().amax().clamp(min=1e-3).item()
            torch.testing.assert_close(found.double(), expected, rtol=0, atol=4 * tolerance * size)
        assert (z.dtype, dx.dtype) == (dtype, dtype)


@pytest.mark.skipif(DEVICE == "cpu", reason="kernels of CUDA, called by the norm")
def test_seednorm_on_a_gpu_is_seednorm_on_the_cpu() -> None:
    from adanorm.norms import SeeDNorm

    x = inputs(7, 3, 100)
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.05)):
        parts = []
        for device in ("cpu", DEVICE):
            norm = SeeDNorm(100).to(device)
            torch.nn.init.constant_(norm.beta, 0.1)
            leaf = x.to(device, dtype).requires_grad_()
            z = norm(leaf)
            parts.append([z, *torch.autograd.grad(z.square().sum(), [leaf, *norm.parameters()])])
        for ours, theirs in zip(*parts, strict=True):
            torch.testing.assert_close(
                theirs.cpu(), ours, rtol=tolerance, atol=tolerance * ours.abs().max().item()
            )


def test_the_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    """The interpreter takes what the compiler refuses."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = commands.run("tests.norms.compiled_for_hopper", environment=environment, imported="libraries")
    assert done.returncode == 0, done.stderr
