"""Transforms, traces and other kinds of tensors get a norm's definition and all its derivatives."""

import copy
import io
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module

from adanorm.norms import NORMS, AdaNorm, LayerNorm, NormChoice, norm_factory
from adanorm.norms.closed_form import Member, closed_form, definition
from tests.norms.cases import inputs, of_the_family, of_the_paper, value_and_gradient

Norm = Callable[[Tensor], Tensor]

X, WEIGHTS = (inputs(4, 6), inputs(4, 6).flip(0).cos())
BATCH = torch.stack([X, 2 * X])


# Noise is drawn as a plain tensor; torch itself has no gradient of GroupNorm there.
NO_DTENSOR = {"batchnorm-noisy", "groupnorm", "instancenorm"}


def norm_of(name: str) -> Any:
    return norm_factory(NormChoice(name))(16, site="a")


def forward_mode(norm: Norm) -> Tensor:
    with forward_ad.dual_level():
        z = norm(forward_ad.make_dual(X, WEIGHTS))  # type: ignore[no-untyped-call]
        tangent: Tensor = forward_ad.unpack_dual(z).tangent  # type: ignore[no-untyped-call]
    return tangent


def gradient(norm: Norm, x: Tensor = X, weights: Tensor = WEIGHTS) -> Tensor:
    return torch.func.grad(lambda x: (norm(x) * weights).sum())(x)


TRANSFORMS: dict[str, Callable[[Norm], Tensor]] = {
    "func.grad": gradient,
    "func.jvp": lambda norm: torch.func.jvp(norm, (X,), (WEIGHTS,))[1],
    "forward mode": forward_mode,
    "func.hessian": lambda norm: torch.func.hessian(lambda x: (norm(x) * WEIGHTS).sum())(X),
    "func.jacrev of func.jacrev": lambda norm: torch.func.jacrev(
        torch.func.jacrev(lambda x: norm(x).sin().sum())
    )(X),
    "func.vmap": lambda norm: torch.func.vmap(norm)(BATCH),
    "func.vmap over columns": lambda norm: torch.func.vmap(norm, in_dims=-1)(BATCH),
    "func.vmap of func.grad": lambda norm: torch.func.vmap(partial(gradient, norm))(
        BATCH, BATCH.sin()
    ),
    "func.functionalize": lambda norm: torch.func.functionalize(norm)(X),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=list(TRANSFORMS))
@of_the_family
def test_functional_transforms_are_those_of_the_definition(
    member: Member, transform: Callable[[Norm], Tensor], dtype: torch.dtype
) -> None:
    norms = partial(closed_form, member=member), partial(definition, member=member)
    ours, theirs = (transform(lambda x, norm=norm: norm(x.to(dtype))) for norm in norms)  # type: ignore[misc]
    assert torch.equal(ours, theirs)


def penalty_gradients(norm: Norm, x: Tensor, weights: Tensor) -> list[Tensor]:
    """Return the gradients of a gradient penalty, with an incoming gradient that requires one and without."""
    gradients: list[Tensor] = []
    for needs_grad in (True, False):
        x, weights = x.detach().requires_grad_(), weights.detach().requires_grad_(needs_grad)
        (dx,) = torch.autograd.grad((norm(x) * weights).sum(), x, create_graph=True)
        penalty = dx.pow(3).sum() + 0 * x.sum()  # dx may depend on no leaf
        leaves = (x, weights) if needs_grad else (x,)
        gradients += torch.autograd.grad(penalty, leaves, materialize_grads=True)
    return gradients


@of_the_family
def test_a_gradient_penalty_behind_the_kernels_is_that_of_the_definition(member: Member) -> None:
    ours = penalty_gradients(partial(closed_form, member=member), X, WEIGHTS)
    exact = penalty_gradients(partial(definition, member=member), X.double(), WEIGHTS.double())
    for part, expected in zip(ours, exact, strict=True):
        torch.testing.assert_close(
            part.double(),
            expected,
            rtol=1e-4,
            atol=1e-4,
        )


@pytest.mark.parametrize("numerics", ["paper", "released"])
def test_second_derivatives_of_the_definition_without_stops_are_finite_differences(
    numerics: Any,
) -> None:
    norm = partial(definition, member=Member(numerics=numerics))
    assert torch.autograd.gradgradcheck(norm, (X.double().requires_grad_(),))


@of_the_family
def test_gradients_in_a_batch_are_a_loop_over_them(member: Member) -> None:
    x = X.clone().requires_grad_()
    z = closed_form(x, member)
    grad = partial(
        torch.autograd.grad,
        z,
        x,
        retain_graph=True,
    )
    several = torch.stack([WEIGHTS, WEIGHTS.sin()])
    (together,) = grad(several, is_grads_batched=True)
    for dz, dx in zip(several, together, strict=True):
        torch.testing.assert_close(
            dx,
            grad(dz)[0],
            rtol=1e-5,
            atol=1e-5,
        )


@of_the_family
def test_derivatives_at_constant_rows_are_finite(member: Member) -> None:
    for norm in (closed_form, definition):
        x = torch.full((2, 4), 3.0, requires_grad=True)
        weights = torch.arange(8.0).view(2, 4).requires_grad_()
        loss = (norm(x, member) * weights).sum()
        (dx,) = torch.autograd.grad(loss, x, create_graph=True)
        (second,) = torch.autograd.grad(dx.square().sum(), weights)
        assert second.isfinite().all()


@of_the_paper
def test_the_closed_form_compiles_without_a_graph_break(member: Member) -> None:
    torch.compiler.reset()
    norm = partial(closed_form, member=member)
    compiled = torch.compile(
        norm,
        fullgraph=True,
        backend="aot_eager",
    )
    expected = value_and_gradient(partial(definition, member=member), X)
    for part, exact in zip(value_and_gradient(compiled, X), expected, strict=True):
        torch.testing.assert_close(
            part,
            exact,
            rtol=1e-5,
            atol=1e-5,
        )
    inside = torch.compile(
        partial(gradient, norm),
        fullgraph=True,
        backend="aot_eager",
    )
    torch.testing.assert_close(
        inside(X),
        gradient(norm),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.filterwarnings(
    "ignore::torch.jit.TracerWarning"
)  # the width is checked once, by the trace
@pytest.mark.parametrize("name", NORMS)
def test_export_and_trace_give_graphs_of_torchs_operations_that_can_be_saved_and_loaded(
    name: str,
) -> None:
    norm, x = norm_of(name).eval(), inputs(2, 3, 16)
    exported = torch.export.export(norm, (x,))
    targets = [node.target for node in exported.graph.nodes if node.op == "call_function"]
    assert all(target is operator.getitem or str(target).startswith("aten.") for target in targets)
    traced: Any = torch.jit.trace(norm, (x,))  # type: ignore[no-untyped-call]
    assert "^" not in str(traced.graph), "which is how a graph shows an autograd.Function"
    files = io.BytesIO(), io.BytesIO()
    torch.jit.save(traced, files[0])
    torch.export.save(exported, files[1])
    for file in files:
        file.seek(0)
    for loaded in (torch.jit.load(files[0]), torch.export.load(files[1]).module()):  # type: ignore[no-untyped-call]
        torch.testing.assert_close(loaded(2 * x), norm(2 * x))


class SideBySide(nn.Module):
    """Norms side by side."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norm_of(name) for name in names)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(norm(x) for norm in self.norms)


@pytest.mark.needs("onnx", "onnxscript")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "legacy"])
def test_both_exporters_write_onnx_that_computes_the_norms_or_refuse(
    dynamo: bool, tmp_path: Path
) -> None:
    """The legacy exporter has no operation for torch's RMSNorm."""
    from onnx.reference import ReferenceEvaluator

    refused, x, path = set(), inputs(2, 3, 16), tmp_path / "norms.onnx"
    for names in [[*NORMS]] if dynamo else [[name] for name in NORMS]:
        module = SideBySide(names).eval()
        try:
            torch.onnx.export(
                module,
                (x,),
                path,
                dynamo=dynamo,
                verbose=False,
                input_names=["x"],
            )
        except torch.onnx.errors.UnsupportedOperatorError:
            refused |= {*names}
            continue
        values = ReferenceEvaluator(str(path)).run(None, {"x": 2 * x.numpy()})
        for z, expected in zip(values, module(2 * x), strict=True):
            torch.testing.assert_close(
                torch.tensor(z),
                expected,
                rtol=1e-4,
                atol=1e-4,
            )
    unknown = ("rmsnorm", "simple-rmsnorm", "preaffine-rmsnorm", "seednorm", "gatednorm")
    assert refused == (set() if dynamo else {*unknown})


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[DeviceMesh]:
    """A mesh of this process."""
    distributed.init_process_group(
        "gloo",
        f"file://{tmp_path}/store",
        rank=0,
        world_size=1,
    )
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


@pytest.mark.parametrize("name", [name for name in NORMS if name not in NO_DTENSOR])
def test_a_dtensor_stays_one_under_sequence_parallelism(name: str, mesh: DeviceMesh) -> None:
    norm, x, weights = norm_of(name), inputs(2, 3, 16), inputs(2, 3, 16).cos()
    exact = value_and_gradients(copy.deepcopy(norm), x, weights)
    for layout in (Replicate(), Shard(0), Shard(1), Shard(2)):
        parallel = parallelize_module(copy.deepcopy(norm), mesh, SequenceParallel())
        spread = [distribute_tensor(part, mesh, [layout]) for part in (x, weights)]
        parts = value_and_gradients(parallel, *spread)
        for part, expected in zip(parts, exact, strict=True):
            assert isinstance(part, DTensor)
            torch.testing.assert_close(part.full_tensor(), expected)


def value_and_gradients(norm: nn.Module, x: Tensor, weights: Tensor) -> list[Tensor]:
    """Return z and the gradients of x and of what the norm learns."""
    leaves = [x.detach().requires_grad_(), *norm.parameters()]
    z = norm(leaves[0])
    return [z, *torch.autograd.grad(z, leaves, weights)]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("name", NORMS)
def test_each_example_of_a_nested_tensor_is_a_batch_of_its_own(
    name: str, layout: torch.layout
) -> None:
    norm, examples = norm_of(name).eval(), [inputs(2, 16), inputs(5, 16)]
    z = norm(torch.nested.nested_tensor(examples, layout=layout))
    assert z.layout == layout
    for part, x in zip(z.unbind(), examples, strict=True):
        assert torch.equal(part, norm(x.unsqueeze(0)).squeeze(0))


@pytest.mark.parametrize("backend", ["auto", "eager", "fused"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_fake_and_meta_tensors_have_a_shape_forward_and_backward(
    backend: Any, dtype: torch.dtype
) -> None:
    with FakeTensorMode() as mode:
        fake = torch.empty(
            2,
            3,
            6,
            dtype=dtype,
        )
    outside = mode.from_tensor(
        torch.empty(
            2,
            3,
            6,
            dtype=dtype,
        )
    )
    for x in (
        torch.empty(
            2,
            3,
            6,
            device="meta",
            dtype=dtype,
        ),
        fake,
        outside,
    ):
        x.requires_grad_()
        z = AdaNorm(6, backend=backend)(x)
        (dx,) = torch.autograd.grad(z.sum(), x)
        for part in (z, dx):
            assert (type(part), part.device, part.dtype, part.shape) == (
                type(x),
                x.device,
                dtype,
                x.shape,
            )


class Named(Tensor):
    """A tensor with a name, as a library's subclass may be."""


def test_a_subclass_of_tensor_takes_the_definition() -> None:
    z = closed_form(X.as_subclass(Named), Member(k=0.1))
    assert type(z) is Named
    assert torch.equal(z.as_subclass(Tensor), definition(X, Member(k=0.1)))


@pytest.mark.parametrize(
    "make",
    [*(partial(norm_of, name) for name in NORMS), partial(LayerNorm, 16, zero_centered=True)],
)
def test_torchs_encoder_layer_does_not_skip_a_norm_in_evaluation(make: Callable[[], Any]) -> None:
    """Without gradients its fast path would compute LayerNorm by the weights of whatever norm it has."""
    layer = nn.TransformerEncoderLayer(
        16,
        2,
        32,
        dropout=0.0,
        batch_first=True,
    )
    layer.norm1, layer.norm2 = make(), make()
    x = inputs(3, 5, 16).double()
    expected = layer.double().eval()(x)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("name", NORMS)
def test_in_a_graph_of_fx_a_norm_is_one_node(name: str) -> None:
    model = nn.Sequential(nn.Linear(16, 16), norm_of(name)).eval()
    traced = torch.fx.symbolic_trace(model)
    assert [node.op for node in traced.graph.nodes] == [
        "placeholder",
        "call_module",
        "call_module",
        "output",
    ]
    x = inputs(2, 3, 16)
    assert torch.equal(traced(x), model(x))


@pytest.mark.parametrize("name", NORMS)
def test_integers_and_rows_of_another_width_are_refused(name: str) -> None:
    """The message names both widths, so that a mistake is found."""
    with pytest.raises(NotImplementedError, match=r"torch\.int64: x must be floating-point"):
        norm_of(name)(
            torch.ones(
                2,
                3,
                16,
                dtype=torch.long,
            )
        )
    if name not in ("none", "weightnorm"):  # whose norm is in the layer before
        with pytest.raises((ValueError, RuntimeError), match=r"16.*\b15\b"):
            norm_of(name)(inputs(3, 2, 15))
        with pytest.raises((ValueError, RuntimeError)):
            norm_of(name)(torch.tensor(1.0))
