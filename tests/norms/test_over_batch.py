"""BatchNorm and its kin against torch's own modules, formulas in float64, and what papers say of them."""

import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn

from adanorm.config.compose import compose_experiment
from adanorm.norms.base import as_norm
from adanorm.norms.over_rows import BatchNorm, NoisyBatchNorm, PowerNorm, synchronize
from adanorm.runs.execute import compatible_norm
from tests import commands

T, H = 4, 7


def batches(count: int, *shape: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [
        2
        * torch.randn(
            *shape,
            generator=random,
            dtype=torch.float64,
        )
        + 1
        for _ in range(count)
    ]


def moved(norm: nn.Module) -> nn.Module:
    """Return the norm with its gain and bias moved off their initial values."""
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
            torch.testing.assert_close(
                a,
                b,
                rtol=1e-10,
                atol=1e-10,
            )
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(
                getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9
            )
    (x,) = batches(1, 1, H)
    torch.testing.assert_close(
        ours.eval()(x),
        theirs.eval()(x),
        rtol=1e-9,
        atol=1e-9,
    )


def test_batchnorm_of_images_is_torchs_batchnorm2d() -> None:
    (x,) = batches(
        1,
        4,
        5,
        6,
        H,
    )  # features last
    expected = (
        nn.BatchNorm2d(H)
        .double()(x.permute(0, 3, 1, 2))
        .permute(
            0,
            2,
            3,
            1,
        )
    )
    torch.testing.assert_close(BatchNorm(H).double()(x), expected)


def test_batchnorm_leaves_padding_out_of_its_statistics() -> None:
    ours, theirs = BatchNorm(H).double(), nn.BatchNorm1d(H).double()
    (x,) = batches(1, 3, 5, H)
    x.requires_grad_()
    rows = torch.arange(5) < torch.tensor([[3], [5], [1]])
    result, expected = ours(x, rows)[rows], theirs(x[rows])
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(ours.running_var, theirs.running_var)
    (gradient,) = torch.autograd.grad(result.pow(3).sum(), x)
    (expected_gradient,) = torch.autograd.grad(expected.pow(3).sum(), x)
    torch.testing.assert_close(gradient, expected_gradient)
    two = torch.arange(5) < torch.tensor([[2], [0], [0]])  # the fewest that have statistics
    torch.testing.assert_close(ours(x, two)[two], theirs(x[two]))


@pytest.mark.parametrize("choices", [{"momentum": 0.25}, {"momentum": 0.75, "convention": "old"}])
@pytest.mark.parametrize(("variance", "correction"), [("unbiased", 1), ("biased", 0)])
def test_momentum_and_the_estimate_of_the_variance_follow_their_settings(
    choices: dict[str, Any], variance: str, correction: int
) -> None:
    x = batches(1, 9, H)[0]
    norm = BatchNorm(
        H,
        running_variance=variance,
        **choices,
    ).double()
    norm(x)
    torch.testing.assert_close(norm.running_mean, 0.25 * x.mean(0))
    torch.testing.assert_close(norm.running_var, 0.75 + 0.25 * x.var(0, correction=correction))


@pytest.mark.parametrize("padding", [0, 4])
def test_a_batch_of_one_row_is_normalized_by_the_running_values_and_leaves_them(
    padding: int,
) -> None:
    norm = BatchNorm(H).double()
    for x in batches(3, 9, H):
        norm(x)
    before = norm.running_mean.clone(), norm.running_var.clone()
    (x,) = batches(1, 1 + padding, H)
    z = norm(x, torch.arange(len(x)) < 1 if padding else None)
    assert torch.equal(norm.running_mean, before[0])
    assert torch.equal(norm.running_var, before[1])
    torch.testing.assert_close(z, norm.eval()(x))


SHARED: dict[str, Callable[[], nn.Module]] = {
    "over rows": lambda: BatchNorm(H),
    "over examples": lambda: BatchNorm(
        H,
        over="examples",
        positions=3,
    ),
    "powernorm": lambda: PowerNorm(H, warmup=10),
}


def steps(norm: nn.Module, rank: int, world: int) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Return the gradients for a process's share of 20 batches, some with fewer rows than processes."""
    norm = moved(norm.double())
    gradients = []
    for index, x in enumerate(batches(20, 9, 4, H)):
        count = 3 if index % 5 == 2 else 9
        leaf = x[:count][rank::world].clone().requires_grad_()
        lengths = 3 + (leaf.mean((1, 2)) > 1)[:, None].long()
        rows = torch.arange(4) < lengths if index % 2 else None
        norm(leaf, rows).pow(3).sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad)
    return gradients, norm.state_dict()


def share_of_synchronized_norms(rank: int, world: int, port: int, folder: Path) -> None:
    distributed.init_process_group(
        "gloo",
        f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=world,
    )
    shares = {}
    for name, make in SHARED.items():
        synchronize(norm := make())
        shares[name] = steps(norm, rank, world)
    torch.save(shares, folder / f"{rank}.pt")
    share = batches(1, 9, H)[0][rank:5]
    torch.testing.assert_close(BatchNorm(H).double()(share), nn.BatchNorm1d(H).double()(share))
    distributed.destroy_process_group()


def test_synchronized_processes_compute_as_one_batch_over_20_steps(tmp_path: Path) -> None:
    world = 4  # more than the rows of some batches
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = str(world), str(free.getsockname()[1]), str(tmp_path)
    processes = [
        commands.start("tests.norms.test_over_batch", str(rank), *address) for rank in range(world)
    ]
    assert [process.wait(200) for process in processes] == [0] * world
    shares = [torch.load(tmp_path / f"{rank}.pt") for rank in range(world)]
    for name, make in SHARED.items():
        gradients, state = steps(make(), 0, 1)
        for rank, share in enumerate(shares):
            torch.testing.assert_close(share[name][1], state)
            expected = [gradient[rank::world] for gradient in gradients]
            torch.testing.assert_close(
                share[name][0],
                expected,
                rtol=1e-9,
                atol=1e-9,
            )


@pytest.mark.parametrize(
    "cls", [NoisyBatchNorm, as_norm(type("Plain", (nn.Identity,), {"depends_on_batch": True}))]
)
def test_a_norm_over_the_batch_that_several_processes_would_change_is_refused(cls: Any) -> None:
    with pytest.raises(
        ValueError, match=f"^1: {cls.__name__} is over the batch, .* train in one process$"
    ):
        synchronize(nn.Sequential(nn.Linear(2, H), cls(H)))


by_position: Any = partial(BatchNorm, H, over="examples")


def test_batchnorm_over_examples_is_torchs_batchnorm_at_each_position() -> None:
    ours = by_position(positions=T).double()
    torchs = [nn.BatchNorm1d(H).double() for _ in range(T)]
    for index, x in enumerate(
        batches(
            3,
            6,
            T,
            H,
        )
    ):
        is_training = index < 2
        z = ours.train(is_training)(x * torch.arange(1, T + 1)[:, None])
        for t, norm in enumerate(torchs):
            expected = norm.train(is_training)(x[:, t] * (t + 1))
            torch.testing.assert_close(z[:, t], expected)
            torch.testing.assert_close(ours.running_var[t], norm.running_var)


def test_batchnorm_over_examples_leaves_padding_out_of_its_statistics() -> None:
    (x,) = batches(1, 6, T, H)
    rows = torch.ones(6, T, dtype=torch.bool)
    rows[2:, 3] = False
    ours, torchs = by_position().double(), nn.BatchNorm1d(H).double()
    torch.testing.assert_close(ours(x, rows)[:2, 3], torchs(x[:2, 3]))
    torch.testing.assert_close(ours.running_mean[3], torchs.get_buffer("running_mean"))
    torch.testing.assert_close(ours.running_var[3], torchs.get_buffer("running_var"))
    assert ours.seen[3]


def test_an_unseen_position_takes_the_running_values_of_the_last_seen_one() -> None:
    ours = by_position(positions=3).double()
    x, y = batches(2, 6, 5, H)
    rows = torch.ones(6, T, dtype=torch.bool)
    rows[1:, 2:] = False  # one example has a third and a fourth position: no statistics
    ours(5 + y[:, :T], rows)
    assert ours.seen.tolist() == [True, True, False]
    assert (ours.running_mean[2] == 0).all()
    assert (ours.running_var[2] == 1).all()
    z = ours.eval()(x)
    unmoved = by_position(positions=1).double().eval()
    torch.testing.assert_close(unmoved(x), x * (1 + 1e-5) ** -0.5)
    mean, variance = ours.running_mean[1], ours.running_var[1]
    torch.testing.assert_close(z[:, 1:], (x[:, 1:] - mean) * (variance + 1e-5).rsqrt())


def test_batchnorm_over_examples_is_refused_at_sites_without_positions() -> None:
    over_examples = ["norm=batchnorm", "norm.params.over=examples"]
    with pytest.raises(ValueError, match="a position's, and the sites show it one row per example"):
        compatible_norm(compose_experiment(["task=enwik8-rnn", *over_examples]))
    with pytest.raises(ValueError, match="over='features': choose rows or examples"):
        by_position(over="features")
    for positions in (0, 2.5):
        with pytest.raises(
            ValueError, match=f"positions={positions}: must be a whole number above 0"
        ):
            by_position(positions=positions)
    assert compatible_norm(compose_experiment(["task=rt", *over_examples]))


def test_noise_has_a_mean_and_a_spread_of_its_own_in_every_feature_and_step() -> None:
    norm = NoisyBatchNorm(H, jitter=0.0).double()
    (x,) = batches(1, 5000, H)
    plain = BatchNorm(H).double()(x)
    torch.manual_seed(0)
    lines = []
    for _ in range(2):
        z = norm(x)
        spread, mean = z.std(0) / plain.std(0), z.mean(0)
        torch.testing.assert_close(
            z,
            spread * plain + mean,
            atol=1e-6,
            rtol=1e-6,
        )
        assert (spread >= 1).all()
        assert (spread <= 1.25 + 1e-6).all()
        assert (mean.abs() <= 0.5 + 1e-6).all()
        lines.append(mean)
    assert not torch.allclose(*lines)
    assert not torch.allclose(4 * (spread - 1), mean + 0.5, atol=0.01), "of one draw"
    torch.manual_seed(0)
    torch.testing.assert_close(norm(x).mean(0), lines[0])
    assert torch.equal(norm.eval()(x), norm(x))


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
    gradients = [
        torch.autograd.grad(y.pow(3).sum(), x, retain_graph=True)[0] for y in (z, expected)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("B", "padding"), [(9, 0), (9, 3), (1, 3)])
def test_powernorm_after_warmup_follows_algorithm_2(B: int, padding: int) -> None:
    norm: Any = moved(
        PowerNorm(
            H,
            alpha=0.8,
            warmup=0,
            eps=0.01,
        ).double()
    )
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
    torch.testing.assert_close(
        norm.running_square, square
    )  # not moved by evaluation or without rows


if __name__ == "__main__":  # one of the processes that share batches
    rank, world, port = (int(argument) for argument in sys.argv[1:4])
    share_of_synchronized_norms(
        rank,
        world,
        port,
        Path(sys.argv[4]),
    )
