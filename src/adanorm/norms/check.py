"""The contract of a norm as checks, run by `adanorm check-norm norm=NAME`.

`base.Norm` lists what a norm may declare. One that declares nothing is a function of a row: of the
H features along the last axis, whatever other rows there are. Letters: B examples, T positions.
"""

import copy
import itertools
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from adanorm.norms.base import Norm
from adanorm.norms.process_settings import (
    everything_restored,
    read_settings,
    restore_settings,
    settings_kept,
)
from adanorm.norms.registry import TRIAL_WIDTH, MakeNorm, NormChoice, norm_factory

H = TRIAL_WIDTH
SHAPES = ((6, H), (3, 5, H), (2, 3, 4, H))  # rows, examples of positions, images
# Long examples and many of them: a norm may mix windows of positions, or large batches alone. Axes
# of H rows, one to five axes, and numbers of rows that 16 divides or does not: it may mix there.
MORE_SHAPES = (
    (2, 128, H),
    (128, 2, H),
    (140, H),
    (H, H),
    (2, H, H),
    (H, 2, H),
    (1, 9, 9, H),
    (2, 2, 2, 2, H),
)
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-4,
    torch.bfloat16: 0.1,
    torch.float16: 0.02,
}
MIXED = "a row changes with other rows; if it should, set depends_on_batch or depends_on_positions"
MIXED_EXAMPLES = "an example changes with other examples; if it should, set depends_on_batch"
MIXED_POSITIONS = (
    "it takes more from other rows than statistics over all rows of a batch in training; if it"
    " should, set depends_on_positions, or needs_positions if they are over each position's rows"
)
REMEMBERED = "a result changes with the rows of an earlier call; if it should, set depends_on_batch"
SINGLE = "it computes in float32 even what it gets in float64, and is checked at that precision"
# What `os.environ[name]`, `os.environ.get(name)` and `os.getenv(name)` all run.
READ_VARIABLE = type(os.environ).__getitem__.__code__
READERS = ("open", "fromfile")  # functions in C that read a file


class Outcome(NamedTuple):
    """What a check claims, why that does not hold (None: it holds), and what else to know."""

    claim: str
    problem: str | None
    note: str | None = None

    def __str__(self) -> str:
        """Return the claim, and the problem if it does not hold."""
        if self.problem:
            return f"FAIL {self.claim}\n     {self.problem}"
        return f"ok   {self.claim}"


def _inputs(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
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
    """Return a norm's z by a copy, because a norm with a running state changes in a call."""
    return _call(copy.deepcopy(norm), *arguments)


def _call(norm: Callable[..., Tensor], *arguments: Tensor) -> Tensor:
    """Return a norm's z, drawing the same random numbers at every call with an x of this size.

    Raises AssertionError if the norm gives no tensor, or changes x, which its caller needs.
    """
    x = arguments[0]
    before = x.detach().clone()
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would record a stack trace for other devices.
        torch.default_generator.manual_seed(x.numel())
        z = norm(*arguments)
    assert torch.equal(x.detach(), before), "the norm changes its input in place"
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


def _rounding(norm: Norm) -> float:
    """Return how far a norm in float64 rounds on the way, relative to its largest number.

    Along a short step a norm in float64 is as good as linear; one that rounds jumps.
    """
    x = _rows(norm, 4)
    step = 1e-5 * _waves(x)
    before = _value(norm, x - step).detach()
    z = _value(norm, x).detach()
    after = _value(norm, x + step).detach()
    bend = (after - 2 * z + before).abs().max()
    largest = z.abs().max().clamp(min=1e-30)
    return (bend / largest).item()


def _is_single(norm: Norm) -> bool:
    """Return whether a norm rounds float64 to float32 on the way, like LlamaRMSNorm."""
    return 1e-9 < _rounding(norm) < 1e-5


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


def _gradient(
    function: Callable[[Tensor], Tensor], x: Tensor, dz: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the function's value z and the gradient in x, for a gradient dz or a fixed one."""
    x = x.clone().requires_grad_()
    z = _value(function, x)
    if not z.requires_grad:
        return z, torch.zeros_like(x)
    dz = _waves(z.detach()) if dz is None else dz
    (gradient,) = torch.autograd.grad(z, x, dz, allow_unused=True)
    return z.detach(), torch.zeros_like(x) if gradient is None else gradient


def keeps_shape(make_norm: MakeNorm) -> None:
    """Every leading shape is kept, also without rows, contiguous or not."""
    norm = _double(make_norm)
    shapes = [(0, 3, H), *SHAPES[1:]]
    if not norm.needs_positions:
        shapes += [(0, H), (1, H), SHAPES[0]]
    for shape in shapes:
        assert _value(norm, _inputs(*shape)).shape == shape, f"shape {shape} is not kept"
    if not (norm.depends_on_batch or norm.depends_on_positions or norm.needs_positions):
        rows = _inputs(2, H)
        problem = "a row (H,) has another result than in a batch"
        _assert_equal(_value(norm, rows[0]), _value(norm, rows)[0], _tolerance(norm), problem)
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
    """Float64, float32 and both half precisions are kept, and agree to their precision."""
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
    assert x.grad is not None, "the result has no gradient in x: what lies before it cannot learn"
    assert x.grad.isfinite().all(), "the gradient under autocast is not finite"


def gradient_is_right(make_norm: MakeNorm) -> str | None:
    """The float64 gradient is that of `reference`, or of finite differences."""
    norm = _perturbed(make_norm(H, site="check").double())
    x = _rows(norm, 3)
    if copy.deepcopy(norm).reference(x) is not None:
        ours, theirs = copy.deepcopy(norm), copy.deepcopy(norm)
        torch.testing.assert_close(
            _gradients(ours, ours, x),
            _gradients(theirs, theirs.reference, x),
            atol=1e-10,
            rtol=1e-10,
        )
        return None
    rounding = _rounding(norm)
    assert rounding < 1e-5, "it rounds what it gets in float64 to half precision"
    is_single = _is_single(norm)
    # The rounding of float32 is divided by the step: it takes a longer one, and a wider tolerance.
    steps: dict[str, Any] = {"eps": 1e-2, "atol": 1e-3, "rtol": 1e-3} if is_single else {}
    trained = _trained(norm)

    def z_of(rows: Tensor, *values: Tensor) -> Tensor:
        parameters = dict(zip(trained, values, strict=True))
        return _value(lambda rows: functional_call(copy.deepcopy(norm), parameters, rows), rows)

    inputs = [tensor.detach().clone().requires_grad_() for tensor in (x, *trained.values())]
    is_right = torch.autograd.gradcheck(
        z_of,
        inputs,
        raise_exception=False,
        **steps,
    )
    assert is_right, (
        "the gradient is not that of the output by finite differences; a norm that stops a gradient"
        " on purpose declares it: a method reference(x) with the definition in torch's operations"
    )
    return SINGLE if is_single else None


def _trained(norm: Norm) -> dict[str, nn.Parameter]:
    """Return the parameters that are trained by name."""
    return {
        name: parameter for name, parameter in norm.named_parameters() if parameter.requires_grad
    }


def _gradients(norm: Norm, function: Any, x: Tensor) -> tuple[Tensor, ...]:
    """Return z of a function of the norm and its gradients in x and the norm's parameters."""
    x = x.clone().requires_grad_()
    z = _call(function, x)
    gradients = torch.autograd.grad(
        z,
        (x, *_trained(norm).values()),
        _waves(z.detach()),
        materialize_grads=True,
    )
    return z.detach(), *gradients


def constant_rows_are_finite(make_norm: MakeNorm) -> None:
    """A constant row has a finite value and a finite gradient."""
    norm = make_norm(H, site="check")
    rows = _rows(norm, 2, torch.float32)
    for value in (0.0, 1.0, -1e4):
        z, gradient = _gradient(norm, torch.full_like(rows, value))
        assert z.isfinite().all(), f"rows of {value} give a value that is not finite"
        assert gradient.isfinite().all(), f"rows of {value} give a gradient that is not finite"


def large_and_small_rows_are_right(make_norm: MakeNorm) -> None:
    """Large rows, small rows and rows with a large mean lose no more than rounding costs."""
    double = _double(make_norm)
    norm = copy.deepcopy(double).float()
    for module in double.modules():
        if getattr(module, "eps", 0) is None:  # in torch's norms the eps of the type of x
            vars(module)["eps"] = torch.finfo(torch.float32).eps
    for shape in SHAPES[norm.needs_positions :]:
        for mean, deviation in ((0, 1e12), (0, 1e6), (1e4, 1), (0, 1e-3)):
            x = mean + deviation * (_inputs(*shape, dtype=torch.float32) - 1) / 3
            rows = f"rows {shape} of mean {mean:g} and deviation {deviation:g}"
            z, gradient = _gradient(norm, x)
            assert z.isfinite().all(), f"{rows} give a value that is not finite"
            assert gradient.isfinite().all(), f"{rows} give a gradient that is not finite"
            exact = _value(double, x.double())
            # Rounding x - mean, which no float32 norm escapes, grows with max |x| / deviation.
            conditioning = 1 + x.abs().max() / deviation
            allowed = 1e-5 * conditioning * exact.abs().max()
            assert (z.double() - exact).abs().max() <= allowed, f"{rows} lose digits"


def rows_are_independent(make_norm: MakeNorm) -> None:
    """A row alone has the result that it has among others; padding changes nothing."""
    norm = make_norm(H, site="check").double()
    for is_training in (True, False):
        norm.train(is_training)
        shapes = [*SHAPES[1:], *MORE_SHAPES]
        if norm.depends_on_batch or norm.depends_on_positions:
            _ignores_padding(norm)
        if not norm.needs_positions:
            shapes.append(SHAPES[0])
        if _draws_noise(norm):  # other sizes draw other numbers: what is rare may show
            shapes += [(count, 3, H) for count in range(2, 30)]
        for shape in shapes:
            if len(shape) > 2 or not norm.needs_positions:
                _is_a_function_of_its_row(norm, shape)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            _ignores_other_rows(norm, _inputs(*SHAPES[1], dtype=dtype))
        with torch.autocast("cpu", torch.bfloat16):
            _ignores_other_rows(norm, _inputs(*SHAPES[1], dtype=torch.float32))
        if not _is_pooled(norm):
            _forgets_earlier_rows(norm)


def _is_pooled(norm: Norm) -> bool:
    """Return whether a norm takes statistics over the batch in its mode."""
    return norm.depends_on_batch and norm.training


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


def _is_a_function_of_its_row(norm: Norm, shape: tuple[int, ...]) -> None:
    """Compare the parts of x with themselves elsewhere and alone."""
    x = _inputs(*shape)
    z = _ignores_other_rows(norm, x)
    tolerance, problem = _tolerance(norm), _mixed(norm)
    with torch.no_grad():
        without = _value(norm, x)
    _assert_equal(without, z, tolerance, "a call without gradients gives another result")
    if _draws_noise(norm):  # a row elsewhere or alone has other noise
        return
    parts, results = _parts(norm, x), _parts(norm, z)
    half = len(parts) // 2
    elsewhere = x.clone()
    _parts(norm, elsewhere)[:] = parts.roll(half, 0)
    rolled = _parts(norm, _value(norm, elsewhere))
    _assert_equal(rolled.roll(-half, 0), results, tolerance, problem)
    if _is_pooled(norm):
        return
    for index in (0, 1, -1):
        part = parts[index % len(parts)]
        alone = part[None] if x.dim() < 3 or norm.depends_on_positions else part[None, None]
        result = results[index % len(parts)]
        _assert_equal(_value(norm, alone).view_as(result), result, tolerance, problem)


def _ignores_other_rows(norm: Norm, x: Tensor) -> Tensor:
    """Return z; raises AssertionError if value or gradient at a part changes with other parts.

    All parts are replaced whose number has a certain bit, or lacks it. Any two parts differ in a
    bit, so every part is compared while every other part is replaced. Statistics over the batch
    must stay, so there the parts that are replaced change places.
    """
    norm = copy.deepcopy(norm).to(x.dtype)
    tolerance = TOLERANCES[x.dtype]
    if x.dtype == torch.float64:
        tolerance = _tolerance(norm)
    is_pooled = _is_pooled(norm)
    dz = _waves(x)
    before = _gradient(norm, x, dz)
    replacements = _replacement(x), _inputs(*x.shape, seed=1).to(x)
    # Rows that change places have other noise, and so other shares in the batch's gradient.
    compared = 1 if is_pooled and _draws_noise(norm) else 2
    numbers = torch.arange(len(_parts(norm, x)))
    for bit in range(len(numbers).bit_length()):
        has_bit = (numbers >> bit & 1).bool()
        for stays in (has_bit, ~has_bit):
            changed = x.clone(), dz.clone()
            for tensor, replacement in zip(changed, replacements, strict=True):
                parts = _parts(norm, tensor)
                if is_pooled:
                    parts[~stays] = parts[~stays].roll(1, 0)
                else:
                    parts[~stays] = _parts(norm, replacement)[~stays]
            after = _gradient(norm, *changed)
            for index in range(compared):
                kept = _parts(norm, after[index])[stays]
                expected = _parts(norm, before[index])[stays]
                _assert_equal(kept, expected, tolerance, _mixed(norm))
    return before[0]


def _replacement(x: Tensor) -> Tensor:
    """Return large rows, rows of zeros and constant rows of the shape of x."""
    large = 1e4 * _inputs(*x.shape, dtype=x.dtype, seed=1)
    rows = large.view(-1, H)
    rows[1::3] = 0
    rows[2::3] = rows[2::3, :1]
    return large


def _parts(norm: Norm, x: Tensor) -> Tensor:
    """Return a view of x as its parts; no part's result may depend on another part.

    They are rows (R, H); of a norm over positions examples; of one over the examples at each
    position these, (positions, B, H).
    """
    if norm.depends_on_positions:
        return x
    if _is_pooled(norm) and norm.needs_positions:
        return x.view(len(x), -1, H).transpose(0, 1)
    return x.view(-1, H)


def _mixed(norm: Norm) -> str:
    if norm.depends_on_positions:
        return MIXED_EXAMPLES
    return MIXED_POSITIONS if norm.depends_on_batch else MIXED


def _forgets_earlier_rows(norm: Norm) -> None:
    """Compare a second call after a first one with these rows, and after one with other rows.

    The first call is in the norm's mode and, unless it declares a memory, in training too, with and
    without gradients. After it a row must still not depend on other rows: a call may register a
    hook.
    """
    x = _inputs(*SHAPES[1])
    modes = {norm.training, norm.training or not norm.depends_on_batch}
    for is_training, has_gradients in itertools.product(modes, (True, False)):
        results = []
        for seed in (1, 2):
            used = copy.deepcopy(norm).train(is_training)
            with torch.set_grad_enabled(has_gradients):
                first = _call(used, _inputs(*SHAPES[1], seed=seed).requires_grad_())
            if first.requires_grad:
                torch.autograd.backward(first.square().sum())
            results.append(_call(used.train(norm.training), x))
        after_one, after_another = results
        _assert_equal(after_one, after_another, _tolerance(norm), REMEMBERED)
        _ignores_other_rows(used, x)
    with torch.no_grad():
        used = copy.deepcopy(norm)
        first = _call(used, _inputs(*SHAPES[1], seed=1))
        kept = first.clone()
        _call(used, x)
    assert torch.equal(first, kept), "a call changes the result of the call before it"


def repeats_itself(make_norm: MakeNorm) -> None:
    """The same seed of torch gives the same result again; no call reads a file or a variable."""
    norm, other = _built_by_seed(make_norm), _built_by_seed(make_norm)
    x = _rows(norm, 4, torch.float32)
    problem = "it draws noise that torch's seed does not fix, so that no run could be repeated"
    for name, state in norm.state_dict().items():
        assert torch.equal(state, other.state_dict()[name]), f"{name}: {problem}"
    for is_training in (True, False):
        norm.train(is_training)
        twin = copy.deepcopy(other).train(is_training)
        for again in (norm, twin):
            assert torch.equal(_value(norm, x), _value(again, x)), problem
        _call(twin, x)  # a first call may import or compile
        with _noticing_what_is_read() as read:
            _call(twin, x)
        assert not read, f"a call reads {read[0]}, which no record has: make it a parameter"


def _built_by_seed(make_norm: MakeNorm) -> Norm:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return make_norm(H, site="check")


@contextmanager
def _noticing_what_is_read() -> Iterator[list[str]]:
    """Yield a list that fills with the files and variables that Python code reads in the block."""
    read = []

    def notice(frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ in READERS:
            read.append("a file")
        elif event == "call" and frame.f_code is READ_VARIABLE:
            read.append(f"the variable {frame.f_locals['key']} of the environment")

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        yield read
    finally:
        sys.setprofile(before)


def remembers_and_draws_nothing(make_norm: MakeNorm) -> None:
    """In training too, two calls with one input give one result, and draw no random numbers."""
    norm = make_norm(H, site="check")
    x = _rows(norm, 4, torch.float32)
    state = copy.deepcopy(norm.state_dict())
    started = _random_states()
    first = norm(x).detach().clone()
    second = norm(x).detach()
    assert _random_states() == started, "a call draws random numbers"
    for name, tensor in norm.state_dict().items():
        is_kept = torch.equal(tensor, state[name])
        assert is_kept, f"a call changes the state {name}"
    assert torch.equal(first, second), "a second call with one input gives another result"


def leaves_the_process_alone(make_norm: MakeNorm) -> None:
    """Random states and torch's settings are as before, but for the noise that a norm draws."""
    built, called = [], []
    for seed in (0, 1):
        _seed_everything(seed)
        with settings_kept("building a norm"):
            norm = make_norm(H, site="check")
        built.append(_random_states())
        _seed_everything(seed)
        _call_and_compare(norm)
        called.append(_random_states())
    problem = "sets the random state: every dropout would repeat"
    for action, states in (("building a norm", built), ("a call", called)):
        for first, second in zip(*states, strict=True):
            assert first != second, f"{action} {problem}"
    started = _random_states()
    _call_and_compare(norm.eval())
    assert _random_states() == started, "a call in evaluation mode moves the random state"


def _call_and_compare(norm: Norm) -> None:
    """Call a norm forward and backward; raises AssertionError if torch's settings have changed."""
    x = _rows(norm, 4, torch.float32).requires_grad_()
    before = read_settings()
    z = norm(x)
    if z.requires_grad:
        z.sum().backward()
    for name in restore_settings(before):
        raise AssertionError(f"a call changes {name} of the whole process")


def _seed_everything(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _random_states() -> tuple[object, ...]:
    """Return the states of the generators of torch, Python and NumPy, each as a comparable value."""
    numpys: Any = np.random.get_state()
    torchs = bytes(torch.get_rng_state().numpy())
    return torchs, random.getstate(), (numpys[1].tobytes(), numpys[2:])


def saves_and_loads(make_norm: MakeNorm) -> None:
    """A fresh norm with the saved state gives the same result."""
    norm = _perturbed(make_norm(H, site="check"))
    fresh = make_norm(H, site="check")
    x = _rows(norm, 4, torch.float32)
    norm(x)  # moves a running state, if there is one
    fresh.load_state_dict(norm.state_dict())
    assert torch.equal(norm.eval()(x), fresh.eval()(x)), "the loaded norm gives another result"


def uses_its_parameters(make_norm: MakeNorm) -> None:
    """Every trained parameter gets a gradient: DistributedDataParallel needs it."""
    # Off their initial values, because one of 0 may stop the gradient of another.
    norm = _perturbed(make_norm(H, site="check"))
    z = norm(_rows(norm, 4, torch.float32))
    if z.requires_grad:
        (z * _inputs(*z.shape, dtype=torch.float32)).sum().backward()
    for name, parameter in _trained(norm).items():
        assert parameter.grad is not None, f"the parameter {name} is not used"
        assert parameter.grad.any(), f"the gradient of the parameter {name} is all zero"


Check = Callable[[MakeNorm], str | None]  # raises an error, or returns a note
CHECKS: tuple[Check, ...] = (
    keeps_shape,
    keeps_dtype,
    runs_under_autocast,
    gradient_is_right,
    constant_rows_are_finite,
    large_and_small_rows_are_right,
    rows_are_independent,
    repeats_itself,
    leaves_the_process_alone,
    saves_and_loads,
    uses_its_parameters,
)
# A trial asks more: a lead must be of the norm's formula, not of its memory or its noise.
IN_TRIALS = (*CHECKS, remembers_and_draws_nothing)
# Those without which a score says nothing about the norm.
BEFORE_TRAINING = (leaves_the_process_alone, repeats_itself, rows_are_independent)


def check_contract(
    make_norm: MakeNorm, checks: tuple[Check, ...] = CHECKS, *, until_problem: bool = False
) -> Iterator[Outcome]:
    """Run the checks one by one, all or until one fails, and yield each outcome; they raise nothing."""
    for check in checks:
        assert check.__doc__
        claim = " ".join(
            check.__doc__.partition("\n\n")[0].split()
        )  # the first paragraph in a line
        try:
            with everything_restored():
                outcome = Outcome(claim, None, check(make_norm))
        except BaseException as error:  # whatever somebody's norm raises
            # In a child, which ignores SIGINT, no user has raised it.
            if isinstance(error, KeyboardInterrupt) and not multiprocessing.parent_process():
                raise
            problem = " ".join(f"{type(error).__name__}: {error}".split())
            outcome = Outcome(claim, problem[:400])
        yield outcome
        if until_problem and outcome.problem is not None:
            return


def check_norm(
    norm: NormChoice, outside: tuple[Check, ...] = CHECKS, *, until_problem: bool = False
) -> Iterator[Outcome]:
    """Run the checks for a norm of the suite or, those in `outside`, for one from outside.

    A child process checks a norm from outside: the outcome says so if the norm ends the process.
    Raises ValueError if the norm cannot be built.
    """
    if norm.outside is None:
        yield from check_contract(norm_factory(norm))
        return
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    sys.stdout.flush()
    arguments = norm, sender, outside, until_problem
    child = fork.Process(target=_send_outcomes, args=arguments, daemon=True)
    child.start()
    sender.close()
    while True:
        try:
            outcome = receiver.recv()
        except EOFError:
            child.join()
            code = child.exitcode or 0  # multiprocessing gives signals as negative codes
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            problem = f"it ended the process, {how}"
            yield Outcome("The process goes on after a call.", problem)
            return
        if isinstance(outcome, ValueError):
            raise outcome
        if outcome is None:
            break
        yield outcome
    child.join()


def _send_outcomes(
    norm: NormChoice, sender: Any, checks: tuple[Check, ...], until_problem: bool
) -> None:
    """Send each outcome and then None, or the error with which the norm cannot be built."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    torch.set_num_threads(1)  # OpenMP's threads have not survived the fork
    try:
        make_norm = norm_factory(norm)
    except ValueError as error:
        sender.send(error)
        return
    for outcome in check_contract(make_norm, checks, until_problem=until_problem):
        sender.send(outcome)
    sender.send(None)


def check_before_training(norm: NormChoice) -> None:
    """Raise ValueError if a norm from outside mixes rows undeclared, or changes the process.

    A child process checks it, but where torch has CUDA: gradients do not work in a child of a
    process that has used it.
    """
    if not torch.cuda.is_available():
        outcomes = [*check_norm(norm, BEFORE_TRAINING, until_problem=True)]
    else:
        with settings_kept(f"norm {norm.name}"):
            make_norm = norm_factory(norm)
            outcomes = [*check_contract(make_norm, BEFORE_TRAINING, until_problem=True)]
    for _, problem, _ in outcomes:
        if problem is not None:
            raise ValueError(f"norm {norm.name}: {problem} (`adanorm check-norm` runs every check)")


def check_before_processes(make_norm: MakeNorm, name: str) -> None:
    """Raise ValueError if a norm draws noise: several processes would draw other noise than one."""
    if _draws_noise(make_norm(H, site="check")):
        raise ValueError(
            f"norm {name}: draws noise, which would be another with several processes; train in one"
            " process"
        )
