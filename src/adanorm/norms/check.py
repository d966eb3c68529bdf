"""The contract of a norm as checks, run by `adanorm check-norm norm=NAME`.

`base.Norm` lists what a norm may declare. One that declares nothing is a function of a row: of the
H features along the last axis, whatever other rows there are. Letters: B examples, T positions.
"""

import copy
import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adanorm.norms.base import Norm
from adanorm.norms.registry import TRIAL_WIDTH, MakeNorm

H = TRIAL_WIDTH
SHAPES = ((6, H), (3, 5, H), (2, 3, 4, H))  # rows, examples of positions, images
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.1}
MIXED = "a row changes with other rows; if it should, set depends_on_batch or depends_on_positions"
MIXED_EXAMPLES = "an example changes with other examples; if it should, set depends_on_batch"
SINGLE = "it computes in float32 even what it gets in float64, and is checked at that precision"
# torch's settings that a norm must leave as they are: how to read and set each.
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "the default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "the precision of matrix products": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "the mode of gradients": (torch.is_grad_enabled, torch._C._set_grad_enabled),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "deterministic algorithms": (
        torch._C._get_deterministic_algorithms,
        torch._C._set_deterministic_algorithms,
    ),
}


class Outcome(NamedTuple):
    """What a check claims, why that does not hold (None: it holds), and what else to know."""

    claim: str
    problem: str | None
    note: str | None = None


def _inputs(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return (
        3
        * torch.randn(
            *shape,
            generator=generator,
            dtype=torch.float64,
        )
        + 1
    ).to(dtype)


def _rows(norm: Norm, count: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return `count` rows, or for a norm that needs positions `count` examples of 5 rows."""
    shape = (count, 5, H) if norm.needs_positions else (count, H)
    return _inputs(*shape, dtype=dtype)


def _value(norm: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """Return a norm's z, drawing the same random numbers at every call.

    A copy computes it, because a norm with a running state changes in a call. Raises AssertionError
    if the norm gives no tensor.
    """
    fresh = copy.deepcopy(norm)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would record a stack trace for other devices.
        torch.default_generator.manual_seed(0)
        z = fresh(*arguments)
    assert isinstance(z, Tensor), f"the norm gives a {type(z).__name__}, not a tensor"
    return z


def _draws_noise(norm: Norm) -> bool:
    """Return whether a call draws from torch's generator."""
    double = copy.deepcopy(norm).double()
    with torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        double(_rows(norm, 4))
        return not torch.equal(before, torch.get_rng_state())


def _double(make_norm: MakeNorm) -> Norm:
    """Return the norm in float64, in evaluation mode if it draws noise in training."""
    norm = make_norm(H, site="check").double()
    return norm.eval() if _draws_noise(norm) else norm


def _perturbed(norm: Norm) -> Norm:
    """Return the norm with its parameters moved off their initial values."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in norm.parameters():
            noise = torch.randn(
                parameter.shape,
                generator=generator,
                dtype=torch.float64,
            )
            parameter.add_(0.1 * noise.to(parameter.dtype))
    return norm


def _is_single(norm: Norm) -> bool:
    """Return whether a norm rounds float64 to float32 on the way, like LlamaRMSNorm.

    Along a short step a norm in float64 is as good as linear; one that rounds jumps.
    """
    x = _rows(norm, 4)
    step = 1e-5 * _waves(x)
    z = _value(norm, x)
    after, before = _value(norm, x + step), _value(norm, x - step)
    bend = after - 2 * z + before
    return bool(bend.abs().max() > 1e-9 * z.abs().max())


def _waves(x: Tensor) -> Tensor:
    """Return fixed numbers between -1 and 1 of the shape and type of x."""
    return torch.cos(torch.arange(x.numel(), dtype=x.dtype)).view_as(x)


def _tolerance(norm: Norm) -> float:
    """Return the error that the precision of a norm in float64 allows."""
    return 1e-5 if _is_single(norm) else 1e-9


def _assert_equal(z: Tensor, expected: Tensor, tolerance: float, problem: str) -> None:
    """Raise AssertionError with the problem unless z is as expected."""
    assert z.shape == expected.shape, problem
    assert torch.allclose(
        z,
        expected,
        rtol=tolerance,
        atol=tolerance,
    ), problem


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the function's value and the gradient in x of a fixed weighted sum of that value."""
    x = x.clone().requires_grad_()
    z = _value(function, x)
    loss = (_waves(z) * z).sum()
    (gradient,) = torch.autograd.grad(loss, x)
    return z.detach(), gradient


def keeps_shape(make_norm: MakeNorm) -> None:
    """Every leading shape is kept, also without rows, contiguous or not."""
    norm = _double(make_norm)
    shapes = [(0, 3, H), *SHAPES[1:]]
    if not norm.needs_positions:
        shapes += [(0, H), (1, H), SHAPES[0]]
    for shape in shapes:
        assert _value(norm, _inputs(*shape)).shape == shape, f"shape {shape} is not kept"
    strided = _inputs(
        H,
        4,
        6,
    ).transpose(0, 2)
    problem = "a row that is not contiguous in memory has another result"
    expected = _value(norm, strided.contiguous())
    _assert_equal(
        _value(norm, strided),
        expected,
        _tolerance(norm),
        problem,
    )


def keeps_dtype(make_norm: MakeNorm) -> None:
    """Float64, float32 and bfloat16 are kept, and agree to their precision."""
    norm = _double(make_norm)
    x = _rows(norm, 4)
    exact = _value(norm, x)
    for dtype, tolerance in TOLERANCES.items():
        z = _value(copy.deepcopy(norm).to(dtype), x.to(dtype))
        assert z.dtype == dtype, f"{dtype} became {z.dtype}"
        torch.testing.assert_close(
            z.double(),
            exact,
            atol=tolerance,
            rtol=tolerance,
        )


def runs_under_autocast(make_norm: MakeNorm) -> None:
    """Between layers in half precision value and gradient are finite."""
    norm = make_norm(H, site="check")
    linear = nn.Linear(H, H)
    x = _rows(
        norm,
        4,
        torch.float32,
    ).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        z = linear(norm(linear(x))).float()
        z.sum().backward()
    assert z.isfinite().all(), "the value under autocast is not finite"
    assert x.grad is not None
    assert x.grad.isfinite().all(), "the gradient under autocast is not finite"


def gradient_is_right(make_norm: MakeNorm) -> str | None:
    """The float64 gradient is that of `reference`, or of finite differences."""
    norm = _perturbed(make_norm(H, site="check").double())
    x = _rows(norm, 3)
    if copy.deepcopy(norm).reference(x) is not None:
        reference: Any = copy.deepcopy(norm).reference
        ours, theirs = _gradient(norm, x), _gradient(reference, x)
        for part, expected in zip(
            ours,
            theirs,
            strict=True,
        ):
            torch.testing.assert_close(
                part,
                expected,
                atol=1e-10,
                rtol=1e-10,
            )
        return None
    is_single = _is_single(norm)
    # The rounding of float32 is divided by the step: it takes a longer one, and a wider tolerance.
    steps: dict[str, Any] = {"eps": 1e-2, "atol": 1e-3, "rtol": 1e-3} if is_single else {}
    is_right = torch.autograd.gradcheck(
        lambda rows: _value(norm, rows),
        (x.requires_grad_(),),
        raise_exception=False,
        **steps,
    )
    assert is_right, (
        "the gradient is not that of the output by finite differences; a norm that stops a gradient"
        " on purpose declares it: a method reference(x) with the definition in torch's operations"
    )
    return SINGLE if is_single else None


def constant_rows_are_finite(make_norm: MakeNorm) -> None:
    """A constant row has a finite value and a finite gradient."""
    norm = make_norm(H, site="check")
    rows = _rows(norm, 2, torch.float32)
    for value in (0.0, 1.0, -1e4):
        z, gradient = _gradient(norm, torch.full_like(rows, value))
        assert z.isfinite().all(), f"rows of {value} give a value that is not finite"
        assert gradient.isfinite().all(), f"rows of {value} give a gradient that is not finite"


def large_rows_are_right(make_norm: MakeNorm) -> None:
    """Large rows, and rows with a large mean, are finite and lose no more than rounding costs."""
    double = _double(make_norm)
    norm = copy.deepcopy(double).float()
    for shape in SHAPES[norm.needs_positions :]:
        for mean, deviation in ((0, 1e6), (1e4, 1)):
            x = mean + deviation * (_inputs(*shape, dtype=torch.float32) - 1) / 3
            z = _value(norm, x).double()
            exact = _value(double, x.double())
            rows = f"rows {shape} of mean {mean:g} and deviation {deviation:g}"
            assert z.isfinite().all(), f"{rows} give a value that is not finite"
            # Rounding x - mean, which no float32 norm escapes, grows with max |x| / deviation.
            conditioning = 1 + x.abs().max() / deviation
            size = 1 + exact.abs().max()
            assert (z - exact).abs().max() <= 1e-5 * conditioning * size, f"{rows} lose digits"


def rows_are_independent(make_norm: MakeNorm) -> None:
    """A row alone has the result that it has among others; padding changes nothing."""
    norm = make_norm(H, site="check").double()
    for is_training in (True, False):
        norm.train(is_training)
        if norm.depends_on_batch or norm.depends_on_positions:
            _ignores_padding(norm)
        if not norm.depends_on_batch:
            _is_a_function_of_its_row(norm)


def _ignores_padding(norm: Norm) -> None:
    x = _inputs(6, 5, H)
    counted = torch.arange(9).expand(6, 9) < 5
    padded = torch.cat(
        [
            x,
            100
            + _inputs(
                6,
                4,
                H,
            ),
        ],
        1,
    )
    plain, masked = copy.deepcopy(norm), copy.deepcopy(norm)  # each moves a state of its own
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        expected = plain(x)
        z = masked(padded, counted)[:, :5]
    for name, state in plain.named_buffers():
        torch.testing.assert_close(masked.get_buffer(name), state)
    if not _draws_noise(norm):  # longer examples have other noise
        _assert_equal(z, expected, _tolerance(norm), "padding changes the rows that count")


def _is_a_function_of_its_row(norm: Norm) -> None:
    """Compare rows, or of a norm over positions examples, with themselves alone."""
    problem = MIXED_EXAMPLES if norm.depends_on_positions else MIXED
    tolerance, is_noisy = _tolerance(norm), _draws_noise(norm)
    for shape in SHAPES[norm.needs_positions :]:
        x = _inputs(*shape)
        parts = x if norm.depends_on_positions else x.view(-1, H)
        z = _value(norm, x).reshape(parts.shape)
        for index in () if is_noisy else (0, 1, -1):  # a row alone has other noise
            alone = _value(norm, parts[index][None])[0]
            _assert_equal(z[index], alone, tolerance, problem)
        changed = parts.clone()
        changed[-1] += 100
        after = _value(norm, changed.view(shape)).reshape(parts.shape)
        _assert_equal(
            after[:-1],
            z[:-1],
            tolerance,
            problem,
        )


def leaves_the_process_alone(make_norm: MakeNorm) -> None:
    """Random states and torch's settings are as before, but for the noise that a norm draws."""
    norm = make_norm(H, site="check")
    before = {name: read() for name, (read, _) in SETTINGS.items()}
    states = []
    for is_training, seed in ((True, 0), (True, 1), (False, 0)):
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        started = _random_states()
        z = norm.train(is_training)(
            _rows(
                norm,
                4,
                torch.float32,
            ).requires_grad_()
        )
        for name, (read, _) in SETTINGS.items():
            assert read() == before[name], f"a call changes {name} of the whole process"
        z.sum().backward()
        states.append(_random_states())
    assert states[2] == started, "a call in evaluation mode moves the random state"
    for first, second in zip(
        states[0],
        states[1],
        strict=True,
    ):
        assert first != second, "a call sets the random state: every dropout would repeat"


def _random_states() -> tuple[object, object]:
    return bytes(torch.get_rng_state().numpy()), random.getstate()


def saves_and_loads(make_norm: MakeNorm) -> None:
    """A fresh norm with the saved state gives the same result."""
    norm = _perturbed(make_norm(H, site="check"))
    fresh = make_norm(H, site="check")
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


Check = Callable[[MakeNorm], str | None]  # raises an error, or returns a note
CHECKS: tuple[Check, ...] = (
    keeps_shape,
    keeps_dtype,
    runs_under_autocast,
    gradient_is_right,
    constant_rows_are_finite,
    large_rows_are_right,
    rows_are_independent,
    leaves_the_process_alone,
    saves_and_loads,
    uses_its_parameters,
)
# Those without which a score says nothing about the norm.
BEFORE_TRAINING = (rows_are_independent, leaves_the_process_alone)


def check_contract(make_norm: MakeNorm, checks: tuple[Check, ...] = CHECKS) -> Iterator[Outcome]:
    """Run the checks one by one and yield the outcome of each; they raise nothing."""
    for check in checks:
        assert check.__doc__
        claim = " ".join(
            check.__doc__.partition("\n\n")[0].split()
        )  # the first paragraph in a line
        try:
            with _settings_restored():
                yield Outcome(claim, None, check(make_norm))
        except Exception as error:  # whatever somebody's norm raises
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            yield Outcome(claim, problem[:400])


@contextmanager
def _settings_restored() -> Iterator[None]:
    """Restore torch's settings and the random states, whatever a norm does to them."""
    before = {name: read() for name, (read, _) in SETTINGS.items()}
    state = random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(state)
            for name, (_, write) in SETTINGS.items():
                write(before[name])


def check_outside_contract(make_norm: MakeNorm) -> Iterator[Outcome]:
    """Do as `check_contract` in a child process, and say so if the norm ends that process."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    sys.stdout.flush()
    child = fork.Process(target=_send_outcomes, args=(make_norm, sender))
    child.start()
    sender.close()
    outcomes = 0
    while outcomes < len(CHECKS):
        try:
            yield receiver.recv()
        except EOFError:
            child.join()
            reason = f"it ended the process, with exit code {child.exitcode}"
            yield Outcome("The process goes on after a call.", reason)
            return
        outcomes += 1
    child.join()


def _send_outcomes(make_norm: MakeNorm, sender: Any) -> None:
    torch.set_num_threads(1)  # OpenMP's threads have not survived the fork
    for outcome in check_contract(make_norm):
        sender.send(outcome)


def check_before_training(make_norm: MakeNorm, name: str) -> None:
    """Raise ValueError if a norm from outside mixes rows undeclared, or changes the process."""
    for _, problem, _ in check_contract(make_norm, BEFORE_TRAINING):
        if problem is not None:
            raise ValueError(f"norm {name}: {problem} (`adanorm check-norm` runs every check)")
