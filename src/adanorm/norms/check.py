"""The contract of a norm as checks: `python -m adanorm.norms.check norm=adanorm`.

A norm of your own may declare `reference(self, x)`, its definition written out in plain torch
operations (needed where it stops gradients), and `depends_on_batch = True`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from adanorm import compose
from adanorm.norms.registry import MakeNorm, norm_factory

H = 48
FLOATS = (torch.float64, torch.float32, torch.bfloat16)


def _inputs(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return (3 * torch.randn(*shape, generator=random, dtype=torch.float64) + 1).to(dtype)


def _perturbed(norm: nn.Module) -> nn.Module:
    """Return the norm with its parameters moved off their initial values."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in norm.parameters():
            noise = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))
    return norm


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the value and the gradient of a fixed weighted sum of it."""
    x = x.clone().requires_grad_()
    z = function(x)
    weights = torch.cos(torch.arange(z.numel(), dtype=z.dtype)).view_as(z)
    (gradient,) = torch.autograd.grad((weights * z).sum(), x)
    return z.detach(), gradient


def keeps_shape(make_norm: MakeNorm) -> None:
    """Any leading shape is kept, no rows included, contiguous or not."""
    norm = make_norm(H, site="check").double()
    for shape in ((0, H), (1, H), (5, H), (2, 3, H), (2, 3, 4, H)):
        assert norm(_inputs(*shape)).shape == shape, f"shape {shape} is not kept"
    strided = _inputs(H, 6).t()
    torch.testing.assert_close(norm(strided), norm(strided.contiguous()))


def keeps_dtype(make_norm: MakeNorm) -> None:
    """Float64, float32 and bfloat16 are kept, and agree to their precision."""
    exact = make_norm(H, site="check").double()(_inputs(4, H))
    for dtype in FLOATS:
        z = make_norm(H, site="check").to(dtype)(_inputs(4, H, dtype=dtype))
        assert z.dtype == dtype, f"{dtype} became {z.dtype}"
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.1}[dtype]
        torch.testing.assert_close(z.double(), exact, atol=tolerance, rtol=tolerance)


def runs_under_autocast(make_norm: MakeNorm) -> None:
    """Between layers in half precision value and gradient are finite."""
    norm, linear = make_norm(H, site="check"), nn.Linear(H, H)
    x = _inputs(4, H, dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        linear(norm(linear(x))).float().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all(), "the gradient under autocast is not finite"


def gradient_is_right(make_norm: MakeNorm) -> None:
    """The float64 gradient is that of `reference`, or of finite differences."""
    norm = _perturbed(make_norm(H, site="check").double())
    x = _inputs(3, H)
    reference: Callable[[Tensor], Tensor] | None = getattr(norm, "reference", None)
    if reference is not None:
        for found, expected in zip(_gradient(norm, x), _gradient(reference, x), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-10, rtol=1e-10)
    else:
        # A norm that stops gradients on purpose fails here: it must declare its `reference`.
        assert torch.autograd.gradcheck(norm, (x.requires_grad_(),))


def constant_rows_are_finite(make_norm: MakeNorm) -> None:
    """A constant row has a finite value and a finite gradient."""
    for value in (0.0, 1.0, -1e4):
        norm = make_norm(H, site="check")
        z, gradient = _gradient(norm, torch.full((2, H), value))
        assert z.isfinite().all(), f"rows of {value} give a value that is not finite"
        assert gradient.isfinite().all(), f"rows of {value} give a gradient that is not finite"


def rows_are_independent(make_norm: MakeNorm) -> None:
    """A row depends on no other row, padding among them, unless declared."""
    norm = make_norm(H, site="check").double()
    if getattr(norm, "depends_on_batch", False):
        return
    x = _inputs(6, H)
    padded = torch.cat([x, torch.zeros(3, H, dtype=x.dtype)])
    torch.testing.assert_close(norm(padded)[:6], norm(x))
    torch.testing.assert_close(norm(x[:1]), norm(x)[:1])


def saves_and_loads(make_norm: MakeNorm) -> None:
    """A fresh norm with the saved state gives the same result."""
    norm, fresh = _perturbed(make_norm(H, site="check")), make_norm(H, site="check")
    fresh.load_state_dict(norm.state_dict())
    x = _inputs(4, H, dtype=torch.float32)
    assert torch.equal(norm.eval()(x), fresh.eval()(x)), "the loaded norm gives another result"


def uses_its_parameters(make_norm: MakeNorm) -> None:
    """Every parameter gets a gradient: DistributedDataParallel needs it."""
    norm = make_norm(H, site="check")
    z = norm(_inputs(4, H, dtype=torch.float32))
    if z.requires_grad:
        (z * _inputs(4, H, dtype=torch.float32)).sum().backward()
    for name, parameter in norm.named_parameters():
        assert parameter.grad is not None, f"the parameter {name} is not used"
        assert bool(parameter.grad.any()), f"the gradient of the parameter {name} is all zero"


CHECKS: tuple[Callable[[MakeNorm], None], ...] = (
    keeps_shape,
    keeps_dtype,
    runs_under_autocast,
    gradient_is_right,
    constant_rows_are_finite,
    rows_are_independent,
    saves_and_loads,
    uses_its_parameters,
)


def main() -> int:
    """Check the norm of the command line; the code is 1 if it breaks the contract."""
    norm = compose.experiment(sys.argv[1:]).norm
    make_norm = norm_factory(
        norm.name, norm.params, numerics=norm.numerics, backend=norm.backend, path=norm.path
    )
    broken = 0
    for check in CHECKS:
        problem = _problem(check, make_norm)
        broken += problem is not None
        assert check.__doc__
        print(f"{'FAIL' if problem else 'ok':<5}{check.__doc__}")
        if problem:
            print(f"     {problem}")
    print(f"{norm.name}: {len(CHECKS) - broken} of {len(CHECKS)} checks hold")
    return 1 if broken else 0


def _problem(check: Callable[[MakeNorm], None], make_norm: MakeNorm) -> str | None:
    try:
        check(make_norm)
    except Exception as error:  # whatever somebody's norm raises is what the check reports
        return " ".join(f"{type(error).__name__}: {error}".split())[:400]
    return None


if __name__ == "__main__":
    compose.door(main)
