"""The contract of a norm as checks, run by `adanorm check-norm norm=NAME`; `base.Norm` lists declarations."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from adanorm.norms.base import Norm
from adanorm.norms.registry import TRIAL_WIDTH, MakeNorm

H = TRIAL_WIDTH
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.1}
MIXED = "a row changes with other rows; if it should, set depends_on_batch or depends_on_positions"


def _inputs(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return (3 * torch.randn(*shape, generator=random, dtype=torch.float64) + 1).to(dtype)


def _rows(norm: Norm, count: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return `count` rows, or for a norm that needs positions `count` examples of 5 rows."""
    shape = (count, 5, H) if norm.needs_positions else (count, H)
    return _inputs(*shape, dtype=dtype)


def _value(function: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """Return a norm's result, drawing the same random numbers in every call; AssertionError for no tensor."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(
            0
        )  # torch.manual_seed records a stack trace for other devices
        z = function(*arguments)
    assert isinstance(z, Tensor), f"the norm gives a {type(z).__name__}, not a tensor"
    return z


def _perturbed(norm: Norm) -> Norm:
    """Return the norm with its parameters moved off their initial values."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in norm.parameters():
            noise = torch.randn(parameter.shape, generator=random, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))
    return norm


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the function's value and the gradient in x of a fixed weighted sum of that value."""
    x = x.clone().requires_grad_()
    z = _value(function, x)
    weights = torch.cos(torch.arange(z.numel(), dtype=z.dtype)).view_as(z)
    (gradient,) = torch.autograd.grad((weights * z).sum(), x)
    return z.detach(), gradient


def keeps_shape(make_norm: MakeNorm) -> None:
    """Every leading shape is kept, also without rows, contiguous or not."""
    norm = make_norm(H, site="check").double()
    for shape in ((0, H), (1, H), (5, H), (0, 3, H), (2, 3, H), (2, 3, 4, H)):
        if len(shape) > 2 or not norm.needs_positions:
            assert copy.deepcopy(norm)(_inputs(*shape)).shape == shape, f"shape {shape} is not kept"
    strided = _inputs(H, 4, 6).transpose(0, 2)
    # Each call gets a copy, because a norm with a running state changes in a call.
    z, expected = (_value(copy.deepcopy(norm), x) for x in (strided, strided.contiguous()))
    torch.testing.assert_close(
        z, expected, msg=lambda why: f"of a row that is not contiguous: {why}"
    )


def keeps_dtype(make_norm: MakeNorm) -> None:
    """Float64, float32 and bfloat16 are kept, and agree to their precision."""
    norm = make_norm(H, site="check")
    x = _rows(norm, 4)
    # Copies have the same parameters, also if these were drawn, and running states of their own.
    exact = _value(copy.deepcopy(norm).double(), x)
    for dtype, tolerance in TOLERANCES.items():
        z = _value(copy.deepcopy(norm).to(dtype), x.to(dtype))
        assert z.dtype == dtype, f"{dtype} became {z.dtype}"
        torch.testing.assert_close(z.double(), exact, atol=tolerance, rtol=tolerance)


def runs_under_autocast(make_norm: MakeNorm) -> None:
    """Between layers in half precision value and gradient are finite."""
    norm, linear = make_norm(H, site="check"), nn.Linear(H, H)
    x = _rows(norm, 4, torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        z = linear(norm(linear(x))).float()
        z.sum().backward()
    assert z.isfinite().all(), "the value under autocast is not finite"
    assert x.grad is not None
    assert x.grad.isfinite().all(), "the gradient under autocast is not finite"


def gradient_is_right(make_norm: MakeNorm) -> None:
    """The float64 gradient is that of `reference`, or of finite differences."""
    norm = _perturbed(make_norm(H, site="check").double())
    x = _rows(norm, 3)
    # Each call gets a copy, because a norm with a running state changes in a call.
    if copy.deepcopy(norm).reference(x) is not None:
        reference: Callable[[Tensor], Any] = copy.deepcopy(norm).reference
        for part, expected in zip(
            _gradient(copy.deepcopy(norm), x), _gradient(reference, x), strict=True
        ):
            torch.testing.assert_close(part, expected, atol=1e-10, rtol=1e-10)
    else:
        assert torch.autograd.gradcheck(
            lambda rows: _value(copy.deepcopy(norm), rows),
            (x.requires_grad_(),),
            raise_exception=False,
        ), (
            "the gradient is not that of the output by finite differences; a norm that stops a gradient on"
            " purpose declares it: a method reference(x) with the definition in plain torch operations"
        )


def constant_rows_are_finite(make_norm: MakeNorm) -> None:
    """A constant row has a finite value and a finite gradient."""
    for value in (0.0, 1.0, -1e4):
        norm = make_norm(H, site="check")
        z, gradient = _gradient(norm, torch.full_like(_rows(norm, 2, torch.float32), value))
        assert z.isfinite().all(), f"rows of {value} give a value that is not finite"
        assert gradient.isfinite().all(), f"rows of {value} give a gradient that is not finite"


def rows_are_independent(make_norm: MakeNorm) -> None:
    """Padding changes nothing, and no row depends on another, unless declared."""
    norm = make_norm(H, site="check").double()
    if norm.depends_on_batch or norm.depends_on_positions:
        x = _inputs(6, 5, H)
        counted = torch.arange(9).expand(6, 9) < 5
        padded = torch.cat([x, 100 + _inputs(6, 4, H)], 1)
        plain, masked = copy.deepcopy(norm), copy.deepcopy(norm)  # each with its own state
        z, expected = _value(masked, padded, counted)[:, :5], _value(plain, x)
        for name, state in plain.named_buffers():
            torch.testing.assert_close(masked.get_buffer(name), state)
        before = torch.get_rng_state()
        copy.deepcopy(norm)(x)
        # A norm that draws noise has other noise for longer examples: only its buffers are
        # compared.
        if torch.equal(before, torch.get_rng_state()):
            torch.testing.assert_close(z, expected)
    else:
        x = _inputs(6, H)
        padded = torch.cat([x, torch.zeros(3, H, dtype=x.dtype)])
        torch.testing.assert_close(norm(padded)[:6], norm(x), msg=MIXED)
    if not norm.depends_on_batch:
        torch.testing.assert_close(norm(x[:1]), norm(x)[:1], msg=MIXED)


def saves_and_loads(make_norm: MakeNorm) -> None:
    """A fresh norm with the saved state gives the same result."""
    norm, fresh = _perturbed(make_norm(H, site="check")), make_norm(H, site="check")
    x = _rows(norm, 4, torch.float32)
    norm(x)  # moves a running state, if there is one
    fresh.load_state_dict(norm.state_dict())
    assert torch.equal(norm.eval()(x), fresh.eval()(x)), "the loaded norm gives another result"


def uses_its_parameters(make_norm: MakeNorm) -> None:
    """Every parameter gets a gradient: DistributedDataParallel needs it."""
    # Off their initial values, because one of 0 may stop the gradient of another.
    norm = _perturbed(make_norm(H, site="check"))
    z = norm(_rows(norm, 4, torch.float32))
    if z.requires_grad:
        (z * _inputs(*z.shape, dtype=torch.float32)).sum().backward()
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


def check_contract(make_norm: MakeNorm) -> Iterator[tuple[str, str | None]]:
    """Run the checks one by one; yield each check's claim and why it does not hold, or None if it does."""
    for check in CHECKS:
        assert check.__doc__
        claim = " ".join(
            check.__doc__.partition("\n\n")[0].split()
        )  # the first paragraph in one line
        try:
            check(make_norm)
            yield claim, None
        except Exception as error:  # the check reports whatever somebody's norm raises
            yield claim, " ".join(f"{type(error).__name__}: {error}".split())[:400]
