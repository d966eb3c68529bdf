"""The suite's own kernels for models on the CPU against PyTorch's, and dropout against the laws of chance."""

import copy
import math
from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.models.fast_layers import (
    WORTHWHILE,
    Dropout,
    Linear,
    linear,
    replace_layers,
    sum_rows,
    usable,
)
from adanorm.process import PRODUCTS

# The first is too small for oneDNN; the others have fewer, as many and more outputs than inputs.
SHAPES = [((3, 5), 4), ((1100, 40), 24), ((20, 70, 32), 32), ((2, 3, 200, 20), 50)]


@pytest.fixture(autouse=True)
def _products_by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRODUCTS, "onednn")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def test_only_float32_on_the_cpu_takes_the_suites_own_kernels() -> None:
    x = torch.zeros(2)
    assert usable(x)
    assert not usable(x.double())
    assert not usable(x.bfloat16())
    assert not usable(x.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not usable(x)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("shape", "outputs"), SHAPES)
def test_a_linear_layer_equals_pytorchs_in_float64(
    shape: tuple[int, ...], outputs: int, bias: bool
) -> None:
    inputs = [
        drawn(*shape),
        drawn(outputs, shape[-1], seed=1),
        *([drawn(outputs, seed=2)] if bias else []),
    ]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    ours, theirs = linear(*inputs), F.linear(*wide)
    assert (type(ours.grad_fn).__name__ == "ViewBackward0") == (
        math.prod(shape) * outputs >= WORTHWHILE
    )
    weight = drawn(*ours.shape, seed=9).detach()
    ours_all = [ours, *torch.autograd.grad((ours * weight).sum(), inputs)]
    theirs_all = [theirs, *torch.autograd.grad((theirs * weight.double()).sum(), wide)]
    for first, second in zip(ours_all, theirs_all, strict=True):
        assert (first.double() - second).abs().max() <= 1e-5 * (1 + second.abs().max())


def test_a_linear_layer_accepts_any_memory_layout_and_changes_of_its_output_in_place() -> None:
    layer, x = Linear(24, 400), drawn(50, 24, 7)
    y = layer(x.transpose(1, 2))
    torch.testing.assert_close(
        y, F.linear(x.transpose(1, 2), layer.weight, layer.bias), rtol=1e-5, atol=1e-5
    )
    y *= 2
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, (2 * layer.weight.sum(0))[None, :, None].expand_as(x))


def test_a_gradient_penalty_reaches_the_weights() -> None:
    x, weight = drawn(600, 50), drawn(60, 50, seed=1)

    def penalty_gradient(product: Callable[..., Tensor]) -> Tensor:
        value = product(x, weight).tanh().sum()
        (gradient,) = torch.autograd.grad(value, x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), weight)[0]

    ours, theirs = penalty_gradient(linear), penalty_gradient(F.linear)
    assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


def test_layers_are_replaced_with_their_parameters_and_no_others() -> None:
    class Special(nn.Linear):
        pass

    model = nn.Sequential(
        nn.Linear(3, 4), nn.Dropout(0.3), Special(4, 2), nn.Dropout(0.1, inplace=True)
    )
    before = copy.deepcopy(model)
    replace_layers(model)
    assert [type(layer) for layer in model] == [Linear, Dropout, Special, nn.Dropout]
    assert all(torch.equal(w, before.state_dict()[name]) for name, w in model.state_dict().items())
    x = drawn(5, 3)
    torch.testing.assert_close(model.eval()(x), before.eval()(x))


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_dropout_keeps_its_share_and_the_mean(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 1000)
    y = Dropout(p)(x)
    mask = y != 0
    error = math.sqrt(p * (1 - p) / x.numel())
    assert abs(mask.float().mean().item() - (1 - p)) < 4 * error
    assert torch.equal(y[mask], torch.full_like(y[mask], 1 / (1 - p)))
    # Rows and columns are alike: their shares vary as those of independent elements do.
    for axis in (0, 1):
        shares = mask.float().mean(axis)
        assert shares.var().item() == pytest.approx(p * (1 - p) / 1000, rel=0.2)


def correlation(first: Tensor, second: Tensor) -> float:
    pair = torch.stack([first.float(), second.float()])
    return torch.corrcoef(pair)[0, 1].item()


def test_elements_of_a_mask_and_masks_of_layers_and_steps_are_uncorrelated() -> None:
    torch.manual_seed(1)
    mask = Dropout(0.3)(torch.ones(1 << 20)) != 0
    for distance in (1, 2, 3, 8, 16, 64, 128, 1000, 1 << 16):
        assert abs(correlation(mask[:-distance], mask[distance:])) < 5 / math.sqrt(len(mask)), (
            distance
        )
    masks = [Dropout(0.2)(torch.ones(200_000)) != 0 for _ in range(9)]
    for first, second in combinations(masks, 2):
        assert abs(correlation(first, second)) < 5 / math.sqrt(200_000)


def test_the_gradient_of_dropout_is_its_mask_times_its_scale() -> None:
    x = drawn(31, 17)
    y = Dropout(0.25)(x.t())  # not contiguous
    weight = drawn(17, 31, seed=2).detach()
    (dx,) = torch.autograd.grad((y * weight).sum(), x)
    assert torch.equal(dx.t(), torch.where(y != 0, weight * (1 / 0.75), 0.0))


def test_masks_follow_from_the_seed() -> None:
    x, layer = torch.ones(1000), Dropout(0.5)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert torch.equal(layer(x), second)
    assert not torch.equal(first, second)
    assert torch.equal(layer.eval()(x), x)
    for p in (0.0, 1.0):  # of nothing and of all
        assert torch.equal(Dropout(p)(x), F.dropout(x, p))


@pytest.mark.parametrize(("sums", "terms", "rows"), [(1, 1, 1), (64, 36, 11), (50, 5, 400)])
def test_sums_of_rows_are_those_of_an_embedding_bag(sums: int, terms: int, rows: int) -> None:
    indices = torch.randint(rows, (sums, terms), generator=torch.Generator().manual_seed(5))
    table = drawn(rows, 24)
    ours, theirs = sum_rows(table, indices), F.embedding_bag(indices, table, mode="sum")
    weight = drawn(*ours.shape, seed=3).detach()
    torch.testing.assert_close(ours, theirs)
    gradient, expected = (
        torch.autograd.grad((value * weight).sum(), table) for value in (ours, theirs)
    )
    torch.testing.assert_close(
        gradient,
        expected,
        rtol=1e-4,
        atol=1e-4,
    )
