"""BatchNorm and its kin against torch's own modules and formulas written out in float64."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn

from adanorm.norms.over_batch import BatchNorm, NoisyBatchNorm, PowerNorm
from tests import commands

H = 7


def batches(count: int, *shape: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [2 * torch.randn(*shape, generator=random, dtype=torch.float64) + 1 for _ in range(count)]


def moved(norm: nn.Module) -> nn.Module:
    """The norm with its gain and bias off their initial values."""
    with torch.no_grad():
        for name, parameter in norm.named_parameters():
            parameter.copy_(torch.linspace(0.5, 1.5, parameter.numel()) + len(name))
    return norm


def test_batchnorm_is_torchs_over_50_steps() -> None:
    """Value, gradients and running values, then evaluation."""
    ours, theirs = moved(BatchNorm(H).double()), moved(nn.BatchNorm1d(H).double())
    for x in batches(50, 9, H):
        results = []
        for norm in (ours, theirs):
            leaf = x.clone().requires_grad_()
            norm.zero_grad()
            z = norm(leaf)
            z.pow(3).sum().backward()
            results.append((z, leaf.grad, norm.weight.grad, norm.bias.grad))
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9)
    (x,) = batches(1, 1, H)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x), rtol=1e-9, atol=1e-9)


def test_batchnorm_of_images_is_torchs_batchnorm2d() -> None:
    (x,) = batches(1, 4, 5, 6, H)  # features last
    expected = nn.BatchNorm2d(H).double()(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    torch.testing.assert_close(BatchNorm(H).double()(x), expected)


def test_padding_is_in_no_statistic() -> None:
    ours, theirs = BatchNorm(H).double(), nn.BatchNorm1d(H).double()
    x = batches(1, 3, 5, H)[0].requires_grad_()
    rows = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]], dtype=torch.bool)
    found, expected = ours(x, rows)[rows], theirs(x[rows])
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    gradients = [torch.autograd.grad(z.pow(3).sum(), x, retain_graph=True)[0] for z in (found, expected)]
    torch.testing.assert_close(*gradients)
    two = torch.tensor([[1, 1, 0, 0, 0], [0] * 5, [0] * 5], dtype=torch.bool)
    torch.testing.assert_close(ours(x, two)[two], theirs(x[two]))  # the fewest that have statistics


def test_momentum_weighs_the_new_value_or_the_old() -> None:
    x = batches(1, 9, H)[0]
    new, old = BatchNorm(H, momentum=0.1).double(), BatchNorm(H, momentum=0.9, convention="old").double()
    new(x), old(x)
    expected = 0.9 * torch.zeros(H, dtype=torch.float64) + 0.1 * x.mean(0)
    for norm in (new, old):
        torch.testing.assert_close(norm.running_mean, expected)


@pytest.mark.parametrize(("choice", "correction"), [("unbiased", 1), ("biased", 0)])
def test_the_running_variance_is_of_the_stated_estimate(choice: str, correction: int) -> None:
    x = batches(1, 9, H)[0]
    norm = BatchNorm(H, momentum=0.25, running_variance=choice).double()
    norm(x)
    torch.testing.assert_close(norm.running_var, 0.75 + 0.25 * x.var(0, correction=correction))


def test_a_batch_of_one_row_is_normalized_by_the_running_values_and_leaves_them() -> None:
    norm = BatchNorm(H).double()
    for x in batches(3, 9, H):
        norm(x)
    before = norm.running_mean.clone()
    (x,) = batches(1, 1, H)
    z = norm(x)
    assert torch.equal(norm.running_mean, before)
    torch.testing.assert_close(z, norm.eval()(x))


def share_of_a_synchronized_norm(rank: int, port: int, folder: Path) -> None:
    distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    norm = moved(BatchNorm(H, synchronized=True).double())
    gradients = []
    for x in batches(50, 9, H):
        leaf = (x[:4] if rank == 0 else x[4:]).clone().requires_grad_()  # of unequal sizes
        norm(leaf).pow(3).sum().backward()
        gradients.append(leaf.grad)
    apart, own = BatchNorm(H).double(), batches(1, 9, H)[0][rank:5]
    torch.testing.assert_close(apart(own), nn.BatchNorm1d(H).double()(own))
    rows = torch.ones(len(own), dtype=torch.bool)
    torch.testing.assert_close(apart(own, rows), nn.BatchNorm1d(H).double()(own))
    torch.save((gradients, norm.running_mean, norm.running_var), folder / f"{rank}.pt")
    distributed.destroy_process_group()


def test_two_synchronized_processes_are_one_batch_over_50_steps(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [
        commands.start("tests.norms.synchronized", str(rank), str(port), str(tmp_path)) for rank in (0, 1)
    ]
    assert [process.wait(200) for process in both] == [0, 0]
    theirs = moved(nn.BatchNorm1d(H).double())
    (first, *running), (second, *same) = (torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1))
    for x, a, b in zip(batches(50, 9, H), first, second, strict=True):
        leaf = x.clone().requires_grad_()
        theirs(leaf).pow(3).sum().backward()
        torch.testing.assert_close(torch.cat([a, b]), leaf.grad, rtol=1e-9, atol=1e-9)
    for found in (running, same):
        torch.testing.assert_close(found[0], theirs.running_mean)
        torch.testing.assert_close(found[1], theirs.running_var)


def test_noise_has_a_mean_and_a_spread_of_its_own_in_every_feature_and_step() -> None:
    norm = NoisyBatchNorm(H, jitter=0.0).double()
    (x,) = batches(1, 5000, H)
    plain = BatchNorm(H).double()(x)
    torch.manual_seed(0)
    lines = []
    for _ in range(2):
        z = norm(x)
        spread, mean = z.std(0) / plain.std(0), z.mean(0)
        torch.testing.assert_close(z, spread * plain + mean, atol=1e-6, rtol=1e-6)
        assert (spread >= 1).all()
        assert (spread <= 1.25 + 1e-6).all()
        assert (mean.abs() <= 0.5 + 1e-6).all()
        lines.append(mean)
    assert not torch.allclose(*lines)
    assert not torch.allclose(4 * (spread - 1), mean + 0.5, atol=0.01), "of one draw"
    torch.manual_seed(0)
    torch.testing.assert_close(norm(x).mean(0), lines[0])
    assert torch.equal(norm.eval()(x), norm(x))


def test_the_noise_of_an_example_is_normal_and_uniform_and_its_gradient_is_the_scale() -> None:
    """By Kolmogorov and Smirnov, whose statistic is below 1.95/sqrt(n) 999 times in 1000."""
    norm = NoisyBatchNorm(301, mean_range=0.0, largest_spread=1.0, jitter=0.5)
    (x,) = batches(1, 400, 301)
    leaf, plain = x.float().requires_grad_(), BatchNorm(301)(x.float())
    drawn = []
    for sign in (1, -1):
        torch.manual_seed(0)
        drawn.append(norm(sign * leaf))
    shift, product = (drawn[0] + drawn[1]) / 2, (drawn[0] - drawn[1]) / 2
    scale = (product / plain)[plain.abs() > 0.1]
    for noise, cdf in ((shift.flatten(), lambda m: m + 0.5), ((scale - 1) / 0.5, torch.special.ndtr)):
        ordered = cdf(noise.detach().double().sort().values)
        steps = torch.arange(1, ordered.numel() + 1) / ordered.numel()
        assert (ordered - steps).abs().max() < 1.95 / ordered.numel() ** 0.5


@pytest.mark.parametrize("counted", [9, 1, None])
def test_powernorm_in_warmup_is_the_quadratic_mean_with_its_gradient(counted: int | None) -> None:
    norm = PowerNorm(H, warmup=2).double()
    x = batches(1, 12, H)[0].requires_grad_()
    square = x[:counted].square().mean(0)
    expected = x / (square + 1e-5).sqrt()
    rows = None if counted is None else torch.arange(12) < counted
    for _ in range(2):
        z = norm(x, rows)
        torch.testing.assert_close(z, expected)
    torch.testing.assert_close(norm.running_square, 0.81 + 0.19 * square.detach())
    torch.testing.assert_close(norm(x, rows), x / (0.81 + 0.19 * square + 1e-5).sqrt())
    gradients = [torch.autograd.grad(y.pow(3).sum(), x, retain_graph=True)[0] for y in (z, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("B", "padding"), [(9, 0), (9, 3), (1, 3)])
def test_powernorm_after_warmup_follows_algorithm_2(B: int, padding: int) -> None:
    norm: Any = moved(PowerNorm(H, alpha=0.8, warmup=0, eps=0.01).double())
    gain, bias = norm.weight.detach(), norm.bias.detach()
    rows = torch.arange(B + padding) < B if padding else None
    square, nu = torch.ones(H, dtype=torch.float64), torch.zeros(H, dtype=torch.float64)
    for x in batches(5, B, H):
        leaf = torch.cat([x, torch.ones(padding, H)]).requires_grad_()
        z = norm(leaf, rows)
        psi = (square + 0.01).sqrt()
        y = x / psi
        torch.testing.assert_close(z[:B], gain * y + bias)
        gradient = torch.cos(torch.arange(B * H, dtype=torch.float64)).view(B, H)
        norm.zero_grad()
        z.backward(torch.cat([gradient, torch.ones(padding, H)]))
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad[:B], (gain * gradient - nu * y) / psi)
        torch.testing.assert_close(norm.bias.grad, gradient.sum(0) + padding)
        torch.testing.assert_close(norm.weight.grad, (gradient * y).sum(0) + padding / psi)
        nu = nu * (1 - 0.2 * (y * y).mean(0)) + 0.2 * (gain * gradient * y).mean(0)
        square = 0.8 * square + 0.2 * x.square().mean(0)
    torch.testing.assert_close(norm.eval()(x), gain * x / (square + 0.01).sqrt() + bias)
    norm.train()(x[:0])
    torch.testing.assert_close(norm.running_square, square)  # which evaluation and no rows leave as it is


def test_powernorms_gradient_is_algorithm_2s_where_its_own_derivative_is_asked_for() -> None:
    norm = PowerNorm(H, warmup=0).double()
    first, second = (x.requires_grad_() for x in batches(2, 9, H))
    norm(first).pow(3).sum().backward()  # which moves nu
    nu, psi = norm.projection.clone(), (norm.running_square + 1e-5).sqrt()
    assert nu.abs().min() > 0.1
    y = (second / psi).detach()
    (gradient,) = torch.autograd.grad(norm(second).pow(3).sum(), second, create_graph=True)
    torch.testing.assert_close(gradient, (3 * y * y - nu * y) / psi)
    (found,) = torch.autograd.grad(gradient.sum(), second)  # though nu has moved
    assert found.isfinite().all()


@pytest.mark.parametrize(
    ("cls", "settings", "message"),
    [
        (BatchNorm, {"momentum": 1}, "momentum=1: must be above 0 and below 1"),
        (BatchNorm, {"momentum": 0}, "momentum=0: must be above 0 and below 1"),
        (BatchNorm, {"convention": "older"}, "choose new or old"),
        (BatchNorm, {"running_variance": "true"}, "choose unbiased or biased"),
        (NoisyBatchNorm, {"largest_spread": 0.5}, "largest_spread=0.5: must be at least 1"),
        (PowerNorm, {"alpha": 0}, "alpha=0: must be above 0"),
        (PowerNorm, {"alpha": 1}, "alpha=1: must be above 0"),
        (PowerNorm, {"warmup": 0.5}, "warmup=0.5: must be a whole number"),
    ],
)
def test_mistakes_name_the_setting(cls: type[nn.Module], settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(H, **settings)
