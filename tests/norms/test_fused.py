"""The fused backend of the CPU, and the operator that all fused backends are behind."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from adanorm.config.paths import PROJECT
from adanorm.norms import NORMS, AdaNorm, LayerNorm, NormChoice, RmsNorm, backends, norm_factory
from adanorm.norms.functional import closed_form
from adanorm.norms.fused import has_kernel
from tests import commands
from tests.norms.cases import FAMILY, FEATURES, assert_is_the_reference, inputs, value_and_gradient

BESIDE = (
    "rmsnorm",
    "partial-rmsnorm",
    "simple-rmsnorm",
    "preaffine-rmsnorm",
    "scalenorm",
    "dynamic-tanh",
    "derf",
    "seednorm",
    "gatednorm",
    "instancenorm",
    "groupnorm",
    "powernorm",
)
pytestmark = pytest.mark.needs("numba")
fused = partial(closed_form, backend="fused")
eager = partial(closed_form, backend="eager")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
@pytest.mark.parametrize("norm", [fused, eager], ids=["fused", "eager"])
def test_every_backend_is_the_reference(norm: Any, settings: dict[str, Any], dtype: torch.dtype) -> None:
    for features in FEATURES:
        for rows in (0, 1, 9):
            x = inputs(rows, features, dtype=dtype)
            found = value_and_gradient(partial(norm, **settings), x)
            assert_is_the_reference(found, x, **settings)
            if features > 1 and settings.get("centered", True):
                released = {**settings, "numerics": "released"}
                found = value_and_gradient(partial(norm, **released), x)
                assert_is_the_reference(found, x, **released)


@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_a_large_mean_costs_no_more_than_its_rounding(settings: dict[str, Any]) -> None:
    for features in (64, 512, 10_007):
        x = inputs(5, features, offset=1e4)
        assert_is_the_reference(value_and_gradient(partial(fused, **settings), x), x, **settings)


@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_layout_and_leading_axes_do_not_matter(settings: dict[str, Any]) -> None:
    x = inputs(30, 48)
    expected = value_and_gradient(partial(fused, **settings), x)
    for other in (x.t().contiguous().t(), torch.stack([x, x], -1)[..., 0], x.repeat(1, 2)[:, :48]):
        assert not other.is_contiguous()
        leaf = other.detach().requires_grad_()
        found = value_and_gradient(partial(fused, **settings), leaf)
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    found = value_and_gradient(partial(fused, **settings), x.view(2, 3, 5, 48))
    assert all(torch.equal(a.view(30, 48), b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("settings", FAMILY.values(), ids=list(FAMILY))
def test_transposed_rows_are_computed_where_they_lie(settings: dict[str, Any]) -> None:
    x = inputs(7, 5, 48)
    expected = value_and_gradient(partial(fused, **settings), x)
    for axes in ((0, 1), (0, 2), (1, 2)):  # of the first, (T, B, H) lies as (B, T, H)
        found = value_and_gradient(
            partial(fused, **settings), x.transpose(*axes).contiguous().transpose(*axes)
        )
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
        assert all(part.is_contiguous() for part in found)


@pytest.mark.parametrize("name", ["rmsnorm", "dynamic-tanh", "seednorm"])
def test_where_rows_lie_does_not_matter_to_the_other_norms(name: str) -> None:
    norm = norm_factory(NormChoice(name))(48, site="a")
    for x, axes in (
        *((inputs(7, 5, 48), axes) for axes in ((0, 1), (0, 2), (1, 2))),
        (inputs(7, 48), (0, 1)),
    ):
        found = value_and_gradient(norm, x.transpose(*axes).contiguous().transpose(*axes))
        assert all(torch.equal(a, b) for a, b in zip(found, value_and_gradient(norm, x), strict=True))


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
def test_what_is_not_finite_spreads_as_in_layernorm(value: float) -> None:
    x, dz = inputs(4, 64), inputs(4, 64)
    x[1, 5], dz[2, 7] = value, value
    results = []
    for norm in (fused, partial(torch.nn.functional.layer_norm, normalized_shape=[64])):
        leaf = x.clone().requires_grad_()
        z = norm(leaf)
        results.append((z.detach(), *torch.autograd.grad(z, leaf, dz)))
    for ours, theirs in zip(*results, strict=True):
        assert torch.equal(ours.isfinite(), theirs.isfinite())
        torch.testing.assert_close(ours[[0, 3]], theirs[[0, 3]])


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
    many = value_and_gradient(partial(fused, k=0.1), x)
    torch.set_num_threads(1)
    one = value_and_gradient(partial(fused, k=0.1), x)
    assert all(torch.equal(a, b) for a, b in zip(many, one, strict=True))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", BESIDE)
def test_threads_change_no_bit_of_the_other_norms_and_layouts_only_the_order_of_sums(name: str) -> None:
    found = []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        for x in (inputs(50, 10, 96), inputs(50, 10, 96).transpose(0, 1).contiguous().transpose(0, 1)):
            torch.manual_seed(0)
            norm = norm_factory(NormChoice(name))(96, site="a")
            leaf = x.detach().requires_grad_()
            z = norm(leaf)
            found.append([z.detach(), *torch.autograd.grad(z.pow(3).sum(), [leaf, *norm.parameters()])])
    for parts in zip(*found, strict=True):
        many, many_transposed, one, one_transposed = parts
        assert torch.equal(many, one)
        assert torch.equal(many_transposed, one_transposed)
        torch.testing.assert_close(many, many_transposed, rtol=1e-5, atol=1e-4)  # sums in another order


@pytest.mark.parametrize("positions", [3, 300])
@pytest.mark.parametrize("name", BESIDE)
def test_the_kernels_of_the_other_norms_are_their_eager_versions(name: str, positions: int) -> None:
    found = []
    for backend in ("eager", "fused"):
        torch.manual_seed(0)
        norm = norm_factory(NormChoice(name, backend=backend))(136, site="a")
        with torch.no_grad():
            for parameter in norm.parameters():  # some start where they have no effect
                parameter.add_(0.1 * torch.randn(parameter.shape))
        x = inputs(5, positions, 136).requires_grad_()
        z = norm(x)
        cubes = z.pow(3).sum()
        poison = [torch.full((rows, 136), torch.nan) for rows in (8, 32, 128) for _ in range(8)]
        del poison  # what room for sums is made of
        found.append([z.detach(), *torch.autograd.grad(cubes, [x, *norm.parameters()])])
    for fused, eager in zip(*found, strict=True):
        torch.testing.assert_close(fused, eager, rtol=2e-5, atol=2e-5 * eager.abs().max().item())


@pytest.mark.usefixtures("two_threads")
def test_a_forked_child_computes_with_the_threads_that_it_has() -> None:
    x = inputs(600, 512)
    expected = fused(x, k=0.1)
    child = os.fork()
    if child == 0:
        os._exit(0 if (fused(x, k=0.1).numpy() == expected.numpy()).all() else 1)  # NumPy has no threads
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


def test_where_nothing_can_be_written_the_compiled_code_lies_in_a_temporary_folder_of_this_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "doubling.py").write_text("def double(x):\n    x[0] = 2 * x[0]\n")
    (tmp_path / "__pycache__").write_text("no folder, so nobody can write there, root included")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    from adanorm.norms.kernels import compiling

    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/proc/nowhere")
    monkeypatch.syspath_prepend(str(tmp_path))
    double = importlib.import_module("doubling").double
    number = torch.tensor([21.0])
    compiling.entry(double, "p", torch.float32)(number.data_ptr())
    assert number.item() == 42
    monkeypatch.setattr("numba.config.CACHE_DIR", "")
    compiling.cached_njit(double)(number.numpy())
    assert number.item() == 84
    (folder,) = temporary.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [*folder.rglob("*.nbc")]


def test_a_temporary_folder_that_others_can_write_to_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    planted = tmp_path / f"adanorm-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    from adanorm.norms.kernels import compiling

    assert compiling._temporary_folder() != planted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILY)
def test_no_more_is_kept_than_x_and_a_number_a_row(name: str, dtype: torch.dtype) -> None:
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    x = inputs(10, 64, dtype=dtype).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        fused(x, **FAMILY[name])
    sizes = [tensor.numel() for tensor in kept]
    assert sizes == ([10] if name == "detachnorm" else [640, 10])
    assert name == "detachnorm" or kept[0].data_ptr() == x.data_ptr()


def test_where_mean_variance_and_factor_are_constants_the_gradient_is_scaled_by_all_of_them() -> None:
    grad, variance = torch.randn(3, 7), torch.rand(3) + 0.1
    from adanorm.norms.kernels import numba_rows

    found = numba_rows.backward(grad, None, variance, 0.0, 2.0, True, True, 1e-3, False, True)
    torch.testing.assert_close(found, 2 * grad / (variance[:, None] + 1e-3).sqrt())


def test_the_operator_keeps_pytorchs_contract() -> None:
    settings = (0.1, 1.5, False, True, 1e-5, False, True)
    x = inputs(3, 8).requires_grad_()
    torch.library.opcheck(torch.ops.adanorm.norm.default, (x, *settings))
    backward = torch.ops.adanorm.norm_backward.default
    for kept in (x.detach(), None):
        torch.library.opcheck(backward, (inputs(3, 8), kept, torch.rand(3), *settings))


def test_it_compiles_without_a_graph_break_and_exports() -> None:
    norm = AdaNorm(16, backend="fused")
    x = inputs(4, 16)
    expected = value_and_gradient(norm, x)
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    exported = torch.export.export(norm, (x,))
    assert any("adanorm.norm" in str(node.target) for node in exported.graph.nodes)
    for other in (compiled, exported.module()):
        assert all(torch.equal(a, b) for a, b in zip(value_and_gradient(other, x), expected, strict=True))


def test_functional_gradients_are_autograds() -> None:
    x = inputs(4, 16)
    function = torch.func.grad(lambda x: fused(x, k=0.1).square().sum())
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(fused(leaf, k=0.1).square().sum(), leaf)
    assert torch.equal(function(x), expected)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_under_autocast_float32_comes_out(backend: Any) -> None:
    x = inputs(4, 16, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        z = closed_form(x, k=0.1, backend=backend)
    assert torch.equal(z, closed_form(x.float(), k=0.1, backend=backend))


def test_auto_is_eager_in_float64_and_fused_elsewhere() -> None:
    x = inputs(7, 100)
    assert torch.equal(closed_form(x, k=0.1), fused(x, k=0.1))
    assert torch.equal(closed_form(x.double(), k=0.1), eager(x.double(), k=0.1))
    assert not backends.is_fused("auto", "mps", torch.float32)


def test_kernels_of_the_other_norms_take_float64_when_told_to_and_not_beside_another_type() -> None:
    x = inputs(3, 8)
    choices: list[tuple[Any, bool]] = [("auto", False), ("fused", True)]
    for backend, is_taken in choices:
        assert has_kernel(backend, x, None, x.bfloat16())
        assert has_kernel(backend, x.double(), x.double()) == is_taken
        assert not has_kernel(backend, x.double(), x)
        assert not has_kernel(backend, x, x.double())


def test_a_record_says_in_one_line_what_computed_the_norms() -> None:
    norm = AdaNorm(8)
    assert backends.describe(norm, "auto", "cpu").startswith("fused: numba 0.")
    assert backends.describe(norm, "eager", "cpu") == "eager: as asked"
    assert backends.describe(norm, "auto", "cpu", torch.float64) == "eager: float64"
    assert backends.describe(norm, "auto", "mps") == "eager: no kernels of AdaNorm for mps"
    assert backends.describe(RmsNorm(8, eps_at="outside"), "auto", "cuda").endswith("RmsNorm for cuda")
    assert RmsNorm(8).kernels == ("cpu", "cuda")
    with pytest.raises(ValueError, match=r"fused: no kernels of AdaNorm for mps; choose auto or eager"):
        backends.describe(norm, "fused", "mps")
    for backend in get_args(backends.Backend):
        assert backends.describe(LayerNorm(8), backend, "cpu") == "eager: LayerNorm has no kernels of ours"


@pytest.mark.needs("triton")
def test_triton_needs_a_c_compiler_and_numba_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    assert backends._missing("cuda") == "triton finds no C compiler with Python's headers"
    assert backends._missing("cpu") is None
    monkeypatch.setenv("CC", "/opt/cc")
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    assert (backends._missing("cuda") is None) == headers.exists()


@pytest.mark.parametrize("name", NORMS)
def test_what_a_record_says_computed_a_norm_is_what_autograd_saw(name: str) -> None:
    norm = norm_factory(NormChoice(name))(8, site="a")
    steps: list[Any] = [norm(1 * inputs(2, 3, 8).requires_grad_()).grad_fn]
    names = set()
    while steps:
        step = steps.pop()
        names.add(type(step).__name__)
        steps += [before for before, _ in step.next_functions if before is not None]
    kernels = {"_PlainNormBackward", "_FusedBackward", "_NoiseBackward"}
    found = "fused" if names & kernels else "eager"
    assert backends.describe(norm, "auto", "cpu").partition(":")[0] == found


NO_COMPILERS = """
import sys
sys.modules["numba"] = sys.modules["triton"] = None
import torch
from adanorm.norms import AdaNorm, backends
x = torch.randn(3, 8)
assert torch.equal(AdaNorm(8)(x), AdaNorm(8, backend="eager")(x))
print(backends.describe(AdaNorm(8), "auto", "cpu"))
print(backends.describe(AdaNorm(8), "auto", "cuda"))
import numpy as np
from adanorm.models import arc_standard
from adanorm.models.kernels.dropout import dropout
from adanorm.models.kernels.row_sums import sum_rows
assert set(dropout(torch.ones(99), 0.5, training=True).tolist()) == {0, 2}
assert sum_rows(torch.eye(3), torch.tensor([[0, 2]])).tolist() == [[1, 0, 1]]
states = arc_standard.first_states(np.array([0, 3]))
arc_standard.advance(states, 0, arc_standard.SHIFT, 0)
assert not arc_standard.is_done(states, 0)
arc_standard.advance(states, 0, arc_standard.RIGHT_ARC, 1)
assert arc_standard.is_done(states, 0) and states.heads.tolist() == [0, 0, 1]
"""


def test_without_compilers_auto_is_eager_models_do_without_and_nothing_warns() -> None:
    program = [sys.executable, "-W", "error:::adanorm", "-c", NO_COMPILERS]
    done = subprocess.run(program, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["eager: numba is not installed", "eager: triton is not installed"]


def test_what_was_just_compiled_gives_the_bits_of_what_the_cache_has(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, second = (
        commands.run("tests.norms.bits", environment=environment, imported="libraries") for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert list(tmp_path.rglob("*.nbc")), "it was compiled into this folder"
    assert first.stdout == second.stdout
    assert len(first.stdout.split()) == 2 * len(FAMILY)
