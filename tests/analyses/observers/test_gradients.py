"""Theorem 1 as the observer measures it, against autograd on the definitions."""

import pytest
import torch
from torch import Tensor, nn

from adanorm.analyses.observers import gradients
from adanorm.analyses.step import Call, record_norm_calls
from adanorm.norms import NORMS, LayerNormSimple, NormChoice, norm_factory
from tests.analyses.conftest import Records, first_step, observed

FAMILY = ["layernorm", "layernorm-simple", "detachnorm", "detach-mean", "detach-var", "adanorm"]
ROWS, H = 6, 16


def called(norm: nn.Module, dz: Tensor) -> Call:
    """Return a call of the norm on rows of several scales, with autograd's gradients."""
    torch.manual_seed(0)
    x = (torch.randn(ROWS, H) * torch.logspace(-1, 2, ROWS)[:, None] + 3).requires_grad_()
    z = norm(x)
    (dx,) = torch.autograd.grad(z, x, dz)
    return Call(
        norm,
        x.detach(),
        z.detach(),
        dx,
        dz,
    )


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("numerics", ["paper", "released"])
def test_every_row_keeps_the_bounds_of_the_theorem(name: str, numerics: str) -> None:
    norm = norm_factory(NormChoice(name, numerics=numerics))(H, site="here")
    for parameter in norm.parameters():
        nn.init.uniform_(parameter, 0.5, 2)
    statistics = gradients.statistics(called(norm, torch.randn(ROWS, H)), 1e-3)
    assert statistics["mean_holds"].tolist() == statistics["variance_holds"].tolist() == [1] * ROWS
    ratio = statistics["ratio"].mean().item()
    assert (
        ratio == pytest.approx(1, abs=1e-4) if name in ("detachnorm", "detach-var") else ratio < 1
    )


def test_the_ratio_of_variances_follows_from_the_definition() -> None:
    torch.manual_seed(1)
    dz = torch.randn(ROWS, H)
    norm = norm_factory(NormChoice("adanorm", {"k": 0.2, "C": 1.5}))(H, site="here")
    call = called(norm, dz)
    x = call.x.double()
    centred = x - x.mean(1, keepdim=True)
    sigma = (centred**2).mean(1).add(1e-5).sqrt()
    y = (centred / sigma[:, None]).requires_grad_()
    factor = (1.5 * (1 - 0.2 * y)).detach()
    (g,) = torch.autograd.grad(factor * y, y, dz.double())
    assert call.dx is not None
    variance = call.dx.double().var(1, unbiased=False)
    expected = {
        "ratio": variance * sigma**2 / g.var(1, unbiased=False),
        "mean_after": dz.mean(1).abs(),
        "variance_after": dz.var(1, unbiased=False),
    }
    result = gradients.statistics(call, 1e-3)
    for name, numbers in expected.items():
        assert result[name].tolist() == pytest.approx(numbers.tolist(), rel=1e-4)


def test_a_gradient_that_breaks_the_theorem_is_counted() -> None:
    call = called(LayerNormSimple(H), torch.randn(ROWS, H))
    assert call.dx is not None
    call.dx[0] += 10  # changes the mean alone
    call.dx[1] *= 5  # changes the variance alone
    statistics = gradients.statistics(call, 1e-3)
    assert statistics["mean_holds"].tolist() == [0, 1, 1, 1, 1, 1]
    assert statistics["variance_holds"].tolist() == [1, 0, 1, 1, 1, 1]


def test_rows_without_a_gradient_do_not_count() -> None:
    dz = torch.randn(ROWS, H)
    dz[4:] = 0
    statistics = gradients.statistics(called(LayerNormSimple(H), dz), 1e-3)
    assert [len(numbers) for numbers in statistics.values()] == [4] * len(statistics)
    filled = torch.where(dz == 0, torch.randn(ROWS, H), dz)
    whole = gradients.statistics(called(LayerNormSimple(H), filled), 1e-3)
    assert whole["ratio"][:4].tolist() == statistics["ratio"].tolist()


class Residual(nn.Module):
    """x + norm(x): the gradient of x is not that of the norm's input."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.norm(x)
        return x + z * z


@pytest.mark.parametrize("name", sorted(NORMS))
def test_recorded_gradients_flow_through_the_norm_alone(name: str) -> None:
    torch.manual_seed(0)
    model = Residual(norm_factory(NormChoice(name))(H, site="norm"))
    x = torch.randn(
        ROWS,
        3,
        H,
        requires_grad=True,
    )
    calls: list[Call] = []
    with record_norm_calls(
        {"norm": model.norm}, lambda _, call: calls.append(call), gradients=True
    ):
        torch.manual_seed(1)
        model(x).square().sum().backward()
    alone = x.detach().clone().requires_grad_()
    torch.manual_seed(1)
    z = model.norm(alone)
    dz = 4 * (x.detach() + z.detach() ** 2) * z.detach()
    z.backward(dz)
    (call,) = calls
    assert call.dz is not None
    assert call.dx is not None
    torch.testing.assert_close(call.dz, dz)
    torch.testing.assert_close(call.dx, alone.grad)
    assert not model.norm._forward_hooks


def test_statistics_are_those_of_the_mean_loss_of_the_update(record: Records) -> None:
    """Halved micro-batches, accumulated, are the same update."""
    few = {"steps": "1", "every": "1"}
    sizes = (["data.batch_size=32"], ["data.batch_size=16", "training.accumulate=2"])
    whole, halved = (
        record(
            "gradients",
            "task=mnist",
            "norm=adanorm",
            *size,
            settings=few,
        )
        for size in sizes
    )
    (whole_row,) = observed(whole, gradients.observe)
    (halved_row,) = observed(halved, gradients.observe)
    statistics, of_halves = whole_row["values"], halved_row["values"]
    assert list(statistics) == ["norms.0", "norms.1"]
    step = first_step(whole)
    gradient_pairs: list[tuple[Tensor, Tensor]] = []
    for site in step.sites.values():
        site.register_full_backward_hook(lambda _, dx, dz: gradient_pairs.insert(0, (dx[0], dz[0])))  # type: ignore[index]
    (batch,) = step.micro_batches
    loss = step.task.loss(step.model, batch, ())
    torch.autograd.backward(loss.total / loss.units)
    for (site, values), both in zip(statistics.items(), gradient_pairs, strict=True):
        assert of_halves[site] == pytest.approx(values, rel=1e-3)
        for at, gradient in zip(("before", "after"), both, strict=True):
            reached = both[1].flatten(0, -2).any(-1)
            rows = gradient.flatten(0, -2)[reached]
            mean = rows.mean(-1).abs().mean().item()
            variance = rows.var(-1, correction=0).mean().item()
            assert values[f"mean_{at}"] == pytest.approx(
                mean,
                rel=1e-3,
                abs=1e-9,
            )
            assert values[f"variance_{at}"] == pytest.approx(variance, rel=1e-3)


@pytest.mark.parametrize("task", ["rt", "mnist", "ptb", "enwik8", "de-en"])
def test_the_theorem_holds_in_every_model(task: str, record: Records) -> None:
    step = first_step(record("gradients", f"task={task}", "norm=layernorm-simple"))
    values = gradients.observe(step, tolerance=1e-3)
    assert values.keys() == step.sites.keys()
    for statistics in values.values():
        assert statistics["mean_holds"] == statistics["variance_holds"] == 1
        assert 0 < statistics["ratio"] <= 1 + 1e-6
