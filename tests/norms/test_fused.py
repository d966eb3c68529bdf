"""The kernels of the CPU, and what is computed where there are none."""

import importlib
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from adanorm.config.paths import PROJECT
from adanorm.norms import NORMS, AdaNorm, LayerNorm, NormChoice, norm_factory
from adanorm.norms import closed_form as module
from adanorm.norms.closed_form import Member, closed_form, definition
from tests import commands
from tests.norms.cases import (
    FAMILY,
    assert_is_the_definition,
    fixed_weights,
    inputs,
    of_the_family,
    value_and_gradient,
)

pytestmark = pytest.mark.needs("numba")
ADANORM = Member(k=0.1)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Kernels = Callable[..., tuple[Tensor, Tensor]]  # from x, a member and perhaps dz to z and dx


def fused(member: Member) -> partial[Tensor]:
    return partial(closed_form, member=member, backend="fused")


def by_definition(x: Tensor, member: Member) -> tuple[Tensor, Tensor]:
    return value_and_gradient(partial(definition, member=member), x)


def by_numba(x: Tensor, member: Member, dz: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return value_and_gradient(fused(member), x, dz)


def by_triton(x: Tensor, member: Member, dz: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Compute on a GPU if there is one, otherwise in Triton's interpreter."""
    # The kernels' outputs reuse this freed memory: a part that they do not write is NaN.
    poison = [torch.full_like(x, torch.nan, device=DEVICE) for _ in range(4)]
    del poison
    if DEVICE == "cuda":
        z, dx = value_and_gradient(fused(member), x.cuda(), None if dz is None else dz.cuda())
        return z.cpu(), dx.cpu()
    from adanorm.norms.kernels import triton_rows

    z, variance = triton_rows.forward(x, member)
    is_multiple = member.k == 0 and member.detach_mean and member.detach_variance
    dz = fixed_weights(z) if dz is None else dz
    return z, triton_rows.backward(
        dz,
        None if is_multiple else x,
        variance,
        member,
    )


TRITON = pytest.param(
    by_triton,
    id="triton",
    marks=[
        pytest.mark.needs("triton"),
        pytest.mark.cuda,
        pytest.mark.filterwarnings(
            "ignore:invalid value:RuntimeWarning"
        ),  # NumPy's, in the interpreter
    ],
)
by_all = pytest.mark.parametrize("kernels", [by_definition, by_numba, TRITON])
by_kernels = pytest.mark.parametrize("kernels", [by_numba, TRITON])
SHAPES = [
    (rows, features)
    for rows in (0, 1, 9)
    for features in (1, 2, 63, 64, 127, 512, 1000, 4096, 10_007)
]
# A program of Triton computes rows of 2,048 elements together, or one wide row; the interpreter
# takes ten milliseconds per program. The shapes make full programs, full and partial ones, and
# partial ones.
FEWER = [
    (0, 64),
    (1, 1),
    (9, 2),
    (1, 63),
    (32, 64),
    (9, 127),
    (5, 512),
    (3, 1000),
    (2, 4096),
    (2, 10_007),
]
OF_EACH_KIND = FEWER[4:7]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@of_the_family
@by_all
def test_kernels_compute_the_definition(
    kernels: Kernels, member: Member, dtype: torch.dtype
) -> None:
    shapes = SHAPES
    if kernels is by_triton:  # the released numerics have the same loops
        shapes = FEWER if member.numerics == "paper" else OF_EACH_KIND
    for rows, features in shapes:
        if member.numerics == "paper" or features > 1:
            x = inputs(rows, features, dtype=dtype)
            assert_is_the_definition(kernels(x, member), x, member)


@of_the_family
@by_kernels
def test_a_large_mean_costs_no_more_than_its_rounding(kernels: Kernels, member: Member) -> None:
    for features in (64, 512, 10_007):
        x = inputs(3, features, offset=1e4)
        assert_is_the_definition(kernels(x, member), x, member)


@of_the_family
@by_kernels
def test_constant_rows_are_finite(kernels: Kernels, member: Member) -> None:
    assert all(part.isfinite().all() for part in kernels(torch.full((3, 63), 0.1), member))


@by_kernels
def test_layout_and_leading_axes_do_not_matter(kernels: Kernels) -> None:
    x = inputs(30, 48)
    expected = kernels(x, ADANORM)
    by_column = x.t().contiguous().t()
    every_other = torch.stack([x, x], -1)[..., 0]
    side_by_side = x.repeat(1, 2)[:, :48]
    for layout in (
        by_column,
        every_other,
        side_by_side,
        x.view(
            2,
            3,
            5,
            48,
        ),
    ):
        parts = kernels(layout, ADANORM)
        for part, contiguous in zip(parts, expected, strict=True):
            assert torch.equal(part.view(30, 48), contiguous)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@by_kernels
def test_infinity_and_nan_spread_as_in_layernorm(kernels: Kernels, value: float) -> None:
    x, dz = inputs(4, 64), inputs(4, 64)
    x[1, 5], dz[2, 7] = value, value
    theirs = value_and_gradient(
        partial(torch.nn.functional.layer_norm, normalized_shape=[64]), x, dz
    )
    for ours, expected in zip(kernels(x, Member(), dz), theirs, strict=True):
        assert torch.equal(ours.isfinite(), expected.isfinite())
        torch.testing.assert_close(
            ours[[0, 3]],
            expected[[0, 3]],
            rtol=1e-5,
            atol=1e-5,
        )


@of_the_family
def test_transposed_rows_are_computed_where_they_lie(member: Member) -> None:
    x = inputs(7, 5, 48)
    expected = value_and_gradient(fused(member), x)
    for axes in ((0, 1), (0, 2), (1, 2)):  # by the first, (T, B, H) lies in memory as (B, T, H)
        transposed = x.transpose(*axes).contiguous().transpose(*axes)
        parts = value_and_gradient(fused(member), transposed)
        for part, contiguous in zip(parts, expected, strict=True):
            assert torch.equal(part, contiguous)
            assert part.is_contiguous()


@of_the_family
@by_all
def test_a_row_whose_variance_overflows_becomes_nan_and_not_zero(
    kernels: Kernels, member: Member
) -> None:
    """The same holds for torch's LayerNorm."""
    x = inputs(3, 8)
    x[1] = 1e25 * torch.tensor([1.0, -1.0]).repeat(4)
    assert torch.nn.functional.layer_norm(x, [8])[1].isnan().all()
    for part in kernels(x, member):
        assert part[1].isnan().all()
        assert part[[0, 2]].isfinite().all()


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("features", [1000, 150_000])
def test_the_number_of_threads_changes_no_bit(features: int) -> None:
    x = inputs(300_000 // features, features)
    many = value_and_gradient(fused(ADANORM), x)
    torch.set_num_threads(1)
    alone = value_and_gradient(fused(ADANORM), x)
    assert all(torch.equal(a, b) for a, b in zip(many, alone, strict=True))


@pytest.mark.usefixtures("two_threads")
def test_a_forked_child_computes_with_the_threads_that_it_has() -> None:
    x = inputs(600, 512)
    expected = fused(ADANORM)(x)
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # it ends, whatever it waits for
        os._exit(
            0 if (fused(ADANORM)(x).numpy() == expected.numpy()).all() else 1
        )  # NumPy has no threads
    assert os.waitpid(child, 0) == (child, 0)


def test_compiled_code_lies_in_a_private_temporary_folder_if_no_other_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubling.py").write_text(
        "from numba import carray, float32\n"
        "def double(x):\n    x[0] = 2 * x[0]\n"
        "def double_at(place):\n    x = carray(place, 1, float32)\n    x[0] = 2 * x[0]\n"
    )
    (tmp_path / "__pycache__").write_text("no folder, so nobody can write there, root included")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    from adanorm.norms.kernels import numba_rows

    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    monkeypatch.setenv("HOME", "/proc/nowhere")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    doubling = importlib.import_module("doubling")
    number = torch.tensor([21.0])
    numba_rows.entry(doubling.double_at)(number.data_ptr())
    assert number.item() == 42
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    module.cached_njit(doubling.double)(number.numpy())
    assert number.item() == 84
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [*folder.rglob("*.nbc")]
    folder.chmod(0o777)
    assert module._temporary_folder() != folder, "others can write to it"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@of_the_family
def test_autograd_saves_no_more_than_x_and_one_number_per_row(
    member: Member, dtype: torch.dtype
) -> None:
    saved: list[Tensor] = []

    def save(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    x = inputs(10, 64, dtype=dtype).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        fused(member)(x)
    is_multiple = member.k == 0 and member.detach_mean and member.detach_variance
    assert [tensor.numel() for tensor in saved] == ([10] if is_multiple else [640, 10])
    assert is_multiple or saved[0].data_ptr() == x.data_ptr()


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_the_result_under_autocast_is_float32(backend: Any) -> None:
    x = inputs(4, 16, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        z = closed_form(x, ADANORM, backend=backend)
    assert torch.equal(z, closed_form(x.float(), ADANORM, backend=backend))


def test_auto_takes_the_kernels_except_in_float64() -> None:
    x = inputs(7, 100)
    assert torch.equal(closed_form(x, ADANORM), fused(ADANORM)(x))
    for backend in get_args(module.Backend):
        wide = closed_form(x.double(), ADANORM, backend=backend)
        assert torch.equal(wide, definition(x.double(), ADANORM))
    assert not module.is_fused("auto", x.to("meta"))


def test_a_record_says_in_one_line_what_computed_the_norms() -> None:
    norm = AdaNorm(8)
    assert module.computed_by(norm, "auto", "cpu").startswith("fused: numba 0.")
    assert module.computed_by(norm, "eager", "cpu") == "eager: as asked"
    assert (
        module.computed_by(
            norm,
            "fused",
            "cpu",
            torch.float64,
        )
        == "eager: float64"
    )
    assert module.computed_by(norm, "auto", "mps") == "eager: no kernels for mps"
    with pytest.raises(ValueError, match=r"fused: no kernels for mps; choose auto or eager"):
        module.computed_by(norm, "fused", "mps")
    for backend in get_args(module.Backend):
        assert (
            module.computed_by(LayerNorm(8), backend, "cpu")
            == "eager: LayerNorm has no kernels of ours"
        )


def test_a_kernels_compiler_may_come_from_a_package_of_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(module.MISSING, "cuda", None)
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.5.1+rocm"))
    assert module.computed_by(AdaNorm(8), "auto", "cuda") == "fused: triton 3.5.1+rocm"


@pytest.mark.needs("triton")
def test_triton_needs_a_c_compiler_and_numba_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    assert module._missing("cuda") == "triton finds no C compiler with Python's headers"
    assert module._missing("cpu") is None
    monkeypatch.setenv("CC", "/opt/cc")
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    assert (module._missing("cuda") is None) == headers.exists()


@pytest.mark.parametrize("name", NORMS)
def test_the_backend_on_record_is_the_one_that_autograd_saw(name: str) -> None:
    norm = norm_factory(NormChoice(name))(8, site="a")
    steps: list[Any] = [norm(1 * inputs(2, 3, 8).requires_grad_()).grad_fn]
    names = set()
    while steps:
        step = steps.pop()
        names.add(type(step).__name__)
        steps += [before for before, _ in step.next_functions if before is not None]
    expected = "fused" if "_FusedBackward" in names else "eager"
    assert module.computed_by(norm, "auto", "cpu").partition(":")[0] == expected


NO_COMPILERS = """
import sys
sys.modules["numba"] = sys.modules["triton"] = None
import torch
from adanorm.norms import AdaNorm
from adanorm.norms.closed_form import computed_by
x = torch.randn(3, 8)
assert torch.equal(AdaNorm(8)(x), AdaNorm(8, backend="eager")(x))
print(computed_by(AdaNorm(8), "auto", "cpu"))
print(computed_by(AdaNorm(8), "auto", "cuda"))
import numpy as np
from adanorm.models import arc_standard
from adanorm.models.fast_layers import Dropout
assert set(Dropout(0.5)(torch.ones(99)).tolist()) == {0, 2}
states = arc_standard.first_states(np.array([0, 3]))
arc_standard.advance(states, 0, arc_standard.SHIFT, 0)
assert not arc_standard.is_done(states, 0)
arc_standard.advance(states, 0, arc_standard.RIGHT_ARC, 1)
assert arc_standard.is_done(states, 0) and states.heads.tolist() == [0, 0, 1]
"""


def test_without_compilers_auto_is_eager_and_models_work_without_warnings() -> None:
    program = [sys.executable, "-W", "error:::adanorm", "-c", NO_COMPILERS]
    done = subprocess.run(
        program,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "eager: numba is not installed",
        "eager: triton is not installed",
    ]


def test_freshly_compiled_code_gives_the_same_bits_as_cached_code(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        commands.run(
            "tests.norms.test_fused",
            environment=environment,
            imported="libraries",
        )
        for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert list(tmp_path.rglob("*.nbc")), "it was compiled into this folder"
    assert first.stdout == second.stdout
    assert len(first.stdout.split()) == 2 * len(FAMILY)


@pytest.mark.needs("triton")
def test_tritons_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    """The interpreter accepts code that the compiler refuses."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = commands.run(
        "tests.norms.compiled_for_hopper", environment=environment, imported="libraries"
    )
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":  # prints the bits that the compiled kernels give
    import numba

    numba.core.config.reload_config()  # type: ignore[no-untyped-call]  # libraries may have been imported under another cache
    pairs = [value_and_gradient(fused(member), inputs(33, 127)) for member in FAMILY.values()]
    print(*(part.view(torch.int32).sum().item() for pair in pairs for part in pair))
