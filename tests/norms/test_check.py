import os
import random
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from adanorm.config.outside_norms import find_outside
from adanorm.config.paths import PROJECT
from adanorm.norms import NORMS, NormChoice, NormFactory, norm_factory, process_settings
from adanorm.norms import check as contract
from adanorm.norms.check import CHECKS, Check, check_before_training, check_norm
from adanorm.norms.registry import has_setting
from tests.conftest import Smoke
from tests.norms.odd_norms import ODD_NORMS, standardized

HAS_NUMERICS = [name for name in NORMS if has_setting(NORMS[name], "numerics")]


def contract_cases() -> Iterator[Any]:
    """Yield norm, numerics and check; released numerics of further norms mix rows as the paper's do."""
    numerics_of = [(name, "paper") for name in NORMS]
    numerics_of += [(name, "released") for name in HAS_NUMERICS]
    for name, numerics in numerics_of:
        for check in CHECKS:
            is_further = numerics == "released" and name != "adanorm"
            is_slow = check is contract.rows_are_independent
            marks = pytest.mark.nightly if is_further and is_slow else ()
            case = f"{name}-{numerics}-{check.__name__}"
            yield pytest.param(name, numerics, check, marks=marks, id=case)


@pytest.mark.parametrize(("name", "numerics", "check"), [*contract_cases()])
def test_every_norm_keeps_the_contract(name: str, numerics: Any, check: Check) -> None:
    check(norm_factory(NormChoice(name, numerics=numerics)))


class Foreign(nn.Module):
    """A norm from outside that computes a function of x."""

    function: Callable[..., Tensor]

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Declared(Foreign):
    def reference(self, x: Tensor) -> Tensor:
        return standardized(x) * (1 - 1e-4 * x) * self.weight


def choice(function: Callable[[Any, Tensor], Any], base: type[Foreign] = Foreign) -> NormChoice:
    cls = type("Foreign", (base,), {"function": function})
    return NormChoice("Foreign", outside=cls)


def factory(function: Callable[[Any, Tensor], Any], base: type[Foreign] = Foreign) -> NormFactory:
    return norm_factory(choice(function, base))


def by_squares(x: Tensor) -> Tensor:
    """Standardize rows by the mean square less the squared mean, which cancels."""
    mean = x.mean(-1, keepdim=True)
    return (x - mean) / (x.square().mean(-1, keepdim=True) - mean.square() + 1e-5).sqrt()


BREAKS: list[tuple[Check, Callable[[Any, Tensor], Any]]] = [
    (contract.uses_its_parameters, lambda norm, x: x),
    (contract.gradient_is_right, lambda norm, x: (x, x)),  # finite differences take a tuple
    (contract.runs_under_autocast, lambda norm, x: x + x.detach() / 0),
    (contract.rows_are_independent, lambda norm, x: x - x.mean(0, keepdim=True)),
    (contract.constant_rows_are_finite, lambda norm, x: x / x.std(-1, keepdim=True)),
    (contract.constant_rows_are_finite, lambda norm, x: x / x.norm(dim=-1, keepdim=True)),
    (
        contract.large_and_small_rows_are_right,
        lambda norm, x: x.exp() / x.exp().sum(-1, keepdim=True),
    ),
    (contract.large_and_small_rows_are_right, lambda norm, x: by_squares(x)),
    (contract.large_and_small_rows_are_right, lambda norm, x: x + (x - x.detach()) * x.exp()),
    (contract.large_and_small_rows_are_right, lambda norm, x: (1e4 + x) - 1e4),
    (contract.keeps_shape, lambda norm, x: x.squeeze(0)),
    (contract.keeps_dtype, lambda norm, x: x.double()),
    (contract.keeps_dtype, lambda norm, x: x + 0.01 if x.dtype == torch.float32 else x),
    (contract.keeps_dtype, lambda norm, x: x + 0.5 if x.dtype == torch.bfloat16 else x),
]


@pytest.mark.parametrize(("check", "function"), BREAKS)
def test_a_norm_that_breaks_the_contract_is_caught(
    check: Check, function: Callable[[Any, Tensor], Any]
) -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        check(factory(function))


def test_a_stopped_gradient_is_caught_unless_it_is_declared() -> None:
    undeclared = factory(lambda norm, x: x - x.mean(-1, keepdim=True).detach())
    with pytest.raises(AssertionError, match=r"reference\(x\)"):
        contract.gradient_is_right(undeclared)
    stopped = factory(lambda norm, x: standardized(x) * (1 - 1e-4 * x).detach(), Declared)
    with pytest.raises(AssertionError):
        contract.gradient_is_right(stopped)


MIXES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "later rows": lambda norm, x: standardized(x) + x.flip(-2).cumsum(-2).flip(-2),
    "all": lambda norm, x: x / (1 + x.norm()),
    "the order of rows": lambda norm, x: x.sort(-2).values,
    "in training": lambda norm, x: x - x.mean(1, keepdim=True) * norm.training * (x.dim() > 2),
    "in evaluation": lambda norm, x: x if norm.training else x - x.mean(-2, keepdim=True),
    "with noise": lambda norm, x: (
        x - x.mean(0, keepdim=True) + torch.randn_like(x) if norm.training else x
    ),
}


ODD = [(check, cls) for check, classes in ODD_NORMS.items() for cls in classes]


@pytest.mark.parametrize(("check", "cls"), ODD, ids=[cls.__name__ for _, cls in ODD])
def test_an_odd_norm_is_caught_by_its_check(check: Check, cls: type[nn.Module]) -> None:
    make_norm = norm_factory(NormChoice(cls.__name__, outside=cls))
    (outcome,) = contract.check_contract(make_norm, (check,))
    assert outcome.problem is not None
    if check in contract.BEFORE_TRAINING and cls is ODD_NORMS[check][0]:
        with pytest.raises(ValueError, match=r"^norm mine: "):
            check_before_training(NormChoice("mine", outside=cls))


def test_the_page_on_your_norm_lists_what_each_check_catches() -> None:
    page = (PROJECT / "docs/howto/your-norm.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([A-Z][^|]*\.) \| (.*) \|$", page, re.MULTILINE))
    claims = [" ".join(check.__doc__.split()) for check in CHECKS if check.__doc__]
    assert [*rows] == claims
    for check, claim in zip(CHECKS, claims, strict=True):
        names = [cls.__name__ for cls in ODD_NORMS.get(check, [])]
        assert re.findall(r"`(\w+)`", rows[claim]) == names
    assert len(ODD) == 64
    assert "The suite's own norms pass all checks." in page


@pytest.mark.parametrize("function", MIXES.values(), ids=list(MIXES))
def test_a_norm_that_mixes_rows_undeclared_is_caught_before_it_trains(
    function: Callable[[Any, Tensor], Tensor],
) -> None:
    with pytest.raises(AssertionError, match="a row changes with other rows"):
        contract.rows_are_independent(factory(function))
    with pytest.raises(
        ValueError, match=r"^norm Foreign: AssertionError: a row changes with other"
    ):
        check_before_training(choice(function))


def test_a_norm_over_positions_that_mixes_examples_is_caught() -> None:
    class OverPositions(Foreign):
        depends_on_positions = True

        def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
            counted = x if rows is None else x[rows].view(len(x), -1, x.shape[-1])
            return x - counted.flatten(0, -2).mean(0)

    norm = norm_factory(NormChoice("mine", outside=OverPositions))
    with pytest.raises(AssertionError, match="an example changes with other examples"):
        contract.rows_are_independent(norm)


def calling(change: Callable[[], object]) -> Callable[[Any, Tensor], Tensor]:
    """Return a function that changes something and gives back x."""

    def function(norm: Any, x: Tensor) -> Tensor:
        change()
        return norm.weight * x

    return function


CHANGES: dict[str, Callable[[], object]] = {
    "the seed of noise": lambda: (torch.manual_seed(0), torch.rand(1)),
    "Python's seed": lambda: random.seed(0),
    "the default type": lambda: torch.set_default_dtype(torch.float64),
    "gradients": lambda: torch._C._set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "anomalies": lambda: torch.autograd.set_detect_anomaly(True),
    "NumPy's errors": lambda: np.seterr(all="raise", under="ignore"),
    "the search for kernels": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "determinism": lambda: torch.use_deterministic_algorithms(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "attention": lambda: torch.backends.cuda.enable_math_sdp(False),
    "the device": lambda: torch.set_default_device("meta"),
    "the folder": lambda: os.chdir("/"),
    "the environment": lambda: os.environ.update(OMP_SCHEDULE="static"),
    "dropout": lambda: setattr(nn.functional, "dropout", lambda x, *_: x),
    "LayerNorm": lambda: setattr(nn.LayerNorm, "forward", lambda norm, x: x),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_norm_that_changes_the_process_is_caught_and_its_changes_are_undone(
    change: Callable[[], object],
) -> None:
    settings = process_settings.read_settings()
    states = torch.get_rng_state(), random.getstate()
    with pytest.raises(ValueError, match=r"a call (changes|sets|in evaluation mode)"):
        check_before_training(choice(calling(change)))
    assert process_settings.read_settings() == settings
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


class Ending(Foreign):
    def __init__(self, dim: int) -> None:
        os._exit(4)


class EndingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        os._exit(5)


@pytest.mark.parametrize(
    ("norm", "how"),
    [
        (choice(calling(lambda: os._exit(3))), "with exit code 3"),
        (choice(calling(lambda: os.kill(os.getpid(), signal.SIGKILL))), "by SIGKILL"),
        (choice(lambda norm, x: EndingBackward.apply(x)), "with exit code 5"),  # type: ignore[no-untyped-call]
    ],
)
def test_a_norm_that_ends_the_process_is_told_in_one_line(norm: NormChoice, how: str) -> None:
    *_, outcome = check_norm(norm)
    assert outcome.problem == f"it ended the process, {how}"


def test_a_norm_that_exits_is_a_fault_and_one_that_cannot_be_built_an_error() -> None:
    with pytest.raises(ValueError, match=r"^norm Foreign: SystemExit"):
        check_before_training(choice(calling(sys.exit)))
    with pytest.raises(ValueError, match=r"^norm Ending: SystemExit: 4"):
        check_before_training(NormChoice("Ending", outside=Ending))
    unbuilt = NormChoice("mine", {"eps": 1e-3}, outside=Foreign)
    with pytest.raises(ValueError, match=r"^norm.params.eps: mine has no such parameter"):
        list(check_norm(unbuilt))


def llama(norm: Any, x: Tensor) -> Tensor:
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return norm.weight * (wide * scale).to(x.dtype)


def t5(norm: Any, x: Tensor) -> Tensor:
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return (norm.weight * (x * torch.rsqrt(variance + 1e-6))).to(x.dtype)


@pytest.mark.parametrize("function", [llama, t5])
def test_a_norm_that_computes_in_float32_alone_is_told_so_and_keeps_the_contract(
    function: Callable[[Any, Tensor], Tensor],
) -> None:
    outcomes = [*check_norm(choice(function))]
    assert [outcome.problem for outcome in outcomes] == [None] * len(CHECKS)
    assert [outcome.note for outcome in outcomes if outcome.note] == [contract.SINGLE]
    stopped = factory(lambda norm, x: x * (function(norm, x) / x).detach())
    with pytest.raises(AssertionError, match=r"reference\(x\)"):
        contract.gradient_is_right(stopped)


def test_noise_in_training_is_no_fault() -> None:
    def noisy(norm: Any, x: Tensor) -> Tensor:
        return norm.weight * x + (torch.randn_like(x) if norm.training else 0)

    assert not any(outcome.problem for outcome in contract.check_contract(factory(noisy)))


def interrupted(norm: Any, x: Tensor) -> Tensor:
    raise KeyboardInterrupt


def test_a_norm_that_interrupts_is_told_in_a_line_of_each_check() -> None:
    problems = [outcome.problem for outcome in check_norm(choice(interrupted))]
    assert problems == ["KeyboardInterrupt:"] * len(CHECKS)


class BuiltCoarse(Foreign):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        torch.set_float32_matmul_precision("medium")


def test_a_norm_that_changes_a_setting_when_it_is_built_or_imported_is_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=r"^norm mine: building it changes the precision of"):
        norm_factory(NormChoice("mine", outside=BuiltCoarse))
    text = "import torch\ntorch.set_default_dtype(torch.float64)\nMine = torch.nn.LayerNorm\n"
    (tmp_path / "coarse_norm.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="importing it changes the default dtype"):
        find_outside("mine", "coarse_norm:Mine")
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_float32_matmul_precision() == "highest"


class Frozen(nn.LayerNorm):
    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.scale = nn.Parameter(torch.full((dim,), 2.0), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


@pytest.mark.parametrize("cls", [nn.RMSNorm, Frozen])
def test_an_eps_of_the_type_and_a_frozen_parameter_are_no_fault(cls: type[nn.Module]) -> None:
    make_norm = norm_factory(NormChoice("mine", outside=cls))
    checks = (contract.large_and_small_rows_are_right, contract.uses_its_parameters)
    assert not any(outcome.problem for outcome in contract.check_contract(make_norm, checks))


@pytest.mark.parametrize("positions", [4, 256])
def test_batchnorm_over_the_examples_of_a_position_reads_no_other_position(positions: int) -> None:
    norm = NormChoice("batchnorm", {"over": "examples", "positions": positions})
    contract.rows_are_independent(norm_factory(norm))


def test_running_statistics_do_not_fail_the_check_of_shapes() -> None:
    """Without warmup PowerNorm divides by the size of what it has seen in training."""
    contract.keeps_shape(norm_factory(NormChoice("powernorm", {"warmup": 0})))


MIXING = """
from torch import nn

class Mixing(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x) + x.mean(1, keepdim=True)
"""


def test_a_run_refuses_a_norm_from_outside_that_mixes_rows(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, smoke: Smoke
) -> None:
    from adanorm.runs.execute import prepare

    (tmp_path / "mixing_norm.py").write_text(MIXING)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match=r"^norm Mixing: AssertionError: a row changes with other"):
        prepare(smoke("task=enwik8", "norm=mixing_norm:Mixing"))
