"""Derivatives beyond the first, and torch.func, against autograd through the written-out definition."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F

from adanorm.norms.functional import closed_form
from adanorm.norms.reference import reference_formula
from adanorm.norms.rowwise import RmsNorm
from tests.norms.cases import FAMILY

Norm = Callable[[Tensor], Tensor]

CASES = [
    pytest.param({**settings, "numerics": numerics}, id=f"{name}, {numerics}")
    for name, settings in FAMILY.items()
    for numerics in ("paper", "released")
    if numerics == "paper" or settings.get("centered", True)
]
STOPS = {"k", "detach_mean", "detach_variance"}
random = torch.Generator().manual_seed(0)
X, WEIGHTS = (torch.randn(3, 6, dtype=torch.float64, generator=random) for _ in range(2))

TRANSFORMS: dict[str, Callable[[Norm], Tensor]] = {
    "grad": lambda norm: torch.func.grad(lambda x: (norm(x) * WEIGHTS.to(x)).sum())(X),
    "jvp": lambda norm: torch.func.jvp(norm, (X,), (WEIGHTS,))[1],
    "hessian": lambda norm: torch.func.hessian(lambda x: (norm(x) * WEIGHTS).sum())(X),
    "reverse over reverse": lambda norm: torch.func.jacrev(torch.func.jacrev(lambda x: norm(x).sin().sum()))(
        X
    ),
}


def penalty_gradients(norm: Norm) -> list[Tensor]:
    """The gradients of a gradient penalty, where the gradient that comes in needs one and where not."""
    found = []
    for needs_grad in (True, False):
        x, weights = X.clone().requires_grad_(), WEIGHTS.clone().requires_grad_(needs_grad)
        (gradient,) = torch.autograd.grad((norm(x) * weights).sum(), x, create_graph=True)
        penalty = gradient.pow(3).sum()
        parts: Any = [None]
        if penalty.requires_grad:
            inputs = (x, weights) if needs_grad else (x,)
            parts = torch.autograd.grad(penalty, inputs, allow_unused=True)
        found += [torch.zeros_like(X) if part is None else part for part in parts]
    return found


@pytest.mark.parametrize("backend", ["eager", "fused"])
@pytest.mark.parametrize("settings", CASES)
def test_a_gradient_penalty_is_that_of_the_definition(settings: dict[str, Any], backend: Any) -> None:
    found = penalty_gradients(partial(closed_form, **settings, backend=backend))
    for ours, theirs in zip(found, penalty_gradients(partial(reference_formula, **settings)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.needs("numba")
@pytest.mark.parametrize("stops", [False, True])
def test_a_gradient_penalty_through_the_operators_alone_is_that_of_the_definition(stops: bool) -> None:
    """As tensors that are none of PyTorch's own meet them."""
    k, C = (0.0, 2.0) if stops else (0.1, 1.5)

    def operator(x: Tensor) -> Tensor:
        z: Tensor = torch.ops.adanorm.norm.default(x, k, C, stops, stops, 1e-5, False, True)[0]
        return z

    expected = penalty_gradients(
        partial(reference_formula, k=k, C=C, detach_mean=stops, detach_variance=stops)
    )
    for ours, theirs in zip(penalty_gradients(operator), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("backend", ["eager", "fused"])
@pytest.mark.parametrize("settings", [case for case in CASES if not STOPS & {*case.values[0]}])  # type: ignore[misc]
def test_second_derivatives_without_stops_are_finite_differences(
    settings: dict[str, Any], backend: Any
) -> None:
    norm = partial(closed_form, **settings, backend=backend)
    assert torch.autograd.gradgradcheck(norm, (X.clone().requires_grad_(),))


@pytest.mark.parametrize("backend", ["eager", "fused"])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=list(TRANSFORMS))
@pytest.mark.parametrize("settings", CASES)
def test_functional_transforms_are_those_of_the_definition(
    settings: dict[str, Any], transform: Callable[[Norm], Tensor], backend: Any
) -> None:
    found = transform(partial(closed_form, **settings, backend=backend))
    torch.testing.assert_close(found, transform(partial(reference_formula, **settings)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", ["eager", "fused"])
@pytest.mark.parametrize("settings", CASES)
def test_vmap_is_a_loop_forward_and_backward(
    settings: dict[str, Any], backend: Any, dtype: torch.dtype
) -> None:
    norm: Norm = partial(closed_form, **settings, backend=backend)
    x, weights = (torch.stack([part, 2 * part]).to(dtype) for part in (X, WEIGHTS))

    def gradient(x: Tensor, weights: Tensor) -> Tensor:
        found: Tensor = torch.func.grad(lambda x: (norm(x) * weights).sum())(x)
        return found

    functions: list[tuple[Any, tuple[Tensor, ...]]] = [(norm, (x,)), (gradient, (x, weights))]
    for function, arguments in functions:
        loop = torch.stack([function(*parts) for parts in zip(*arguments, strict=True)])
        assert torch.equal(torch.func.vmap(function)(*arguments), loop)
        last = [part.movedim(0, -1) for part in arguments]
        assert torch.equal(torch.func.vmap(function, in_dims=-1)(*last), loop)
    same_rows = torch.stack([gradient(x[0], one) for one in weights])
    assert torch.equal(torch.func.vmap(gradient, in_dims=(None, 0))(x[0], weights), same_rows)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_transforms_of_narrow_numbers_are_those_of_the_definition(backend: Any, dtype: torch.dtype) -> None:
    x, tangent = X.to(dtype), WEIGHTS.to(dtype)
    transforms: list[Callable[[Norm], Tensor]] = [
        lambda norm: torch.func.jvp(norm, (x,), (tangent,))[1],
        lambda norm: torch.func.grad(lambda x: (norm(x) * tangent).sum())(x),
        lambda norm: torch.func.hessian(lambda x: (norm(x) * tangent).sum())(x),
    ]
    for transform in transforms:
        found, expected = (
            transform(partial(function, k=0.1))
            for function in (partial(closed_form, backend=backend), reference_formula)
        )
        assert found.dtype == dtype
        precision = {torch.float32: 1e-4, torch.bfloat16: 0.1}[dtype]
        torch.testing.assert_close(found, expected, rtol=precision, atol=precision)


@pytest.mark.parametrize("backend", ["eager", "fused"])
@pytest.mark.parametrize("settings", CASES)
def test_derivatives_at_constant_rows_are_finite(settings: dict[str, Any], backend: Any) -> None:
    x = torch.full((2, 4), 3.0, requires_grad=True)
    weights = torch.arange(8.0).view(2, 4).requires_grad_()
    z = closed_form(x, **settings, backend=backend)
    (gradient,) = torch.autograd.grad((z * weights).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), weights)
    assert second.isfinite().all()
    (expected,) = torch.autograd.grad((reference_formula(x, **settings) * weights).sum(), x)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_forward_mode_is_no_less_without_torch_func(backend: Any) -> None:
    norm = RmsNorm(6, backend=backend)
    with forward_ad.dual_level():
        z = norm(forward_ad.make_dual(X.float(), WEIGHTS.float()))  # type: ignore[no-untyped-call]
        found = forward_ad.unpack_dual(z).tangent  # type: ignore[no-untyped-call]
    expected = torch.func.jvp(lambda x: F.rms_norm(x, [6], eps=1e-5), (X.float(),), (WEIGHTS.float(),))[1]
    torch.testing.assert_close(found, expected)
