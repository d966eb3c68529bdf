"""How often phi is negative, against counting by hand."""

import pytest
import torch
from torch import nn

from adanorm.analyses.observers import activations
from adanorm.analyses.step import Call
from adanorm.norms import AdaNorm, LayerNormSimple
from tests.analyses.conftest import Records, begin, observed


def shares(norm: nn.Module, x: torch.Tensor) -> dict[str, list[float]]:
    statistics = activations.shares(
        Call(
            norm,
            x,
            x,
            x,
            torch.ones_like(x),
        ),
        10.0,
    )
    return {name: numbers.tolist() for name, numbers in statistics.items()}


def test_a_feature_counts_where_phi_is_not_positive() -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 50) ** 3 + 4
    centred = x - x.mean(1, keepdim=True)
    y = centred / x.std(
        1,
        correction=0,
        keepdim=True,
    )
    size = y.abs()
    for k in (0.3, 0.5):
        statistics = shares(
            AdaNorm(
                50,
                k=k,
                C=2.0,
            ),
            x,
        )
        phi = 2.0 * (1 - k * y)
        assert statistics["above"] == pytest.approx((phi <= 0).float().mean(1).tolist())
        assert statistics["outside"] == pytest.approx((size >= 1 / k).float().mean(1).tolist())
        assert statistics["bound"] == pytest.approx([k**2] * 7)
        assert all(share <= k**2 for share in statistics["outside"])
        assert statistics["largest"] == pytest.approx(size.amax(1).tolist(), rel=1e-5)
        assert max(statistics["above"]) > 0


def test_one_feature_alone_reaches_the_bound_and_the_largest_y() -> None:
    """H - 1 equal features and one other: |y| is sqrt(H - 1), which for H = 101 is 1/k = 10."""
    x = torch.zeros(1, 102)
    x[0, 3] = 5.0
    statistics = shares(AdaNorm(102, k=0.1), x)
    assert statistics["above"] == statistics["outside"] == pytest.approx([1 / 102])
    assert statistics["largest"] == pytest.approx([101**0.5])
    assert shares(LayerNormSimple(102), -x)["above"] == [0]
    assert shares(LayerNormSimple(102), -x)["outside"] == pytest.approx([1 / 102])


def test_a_constant_row_and_k_0_have_no_feature_outside_the_bound() -> None:
    constant = shares(AdaNorm(4), torch.full((1, 4), 3.0))
    assert (constant["above"], constant["outside"], constant["largest"]) == ([0], [0], [0])
    flat = shares(AdaNorm(4, k=0.0), torch.tensor([[1.0, 2, 3, 400]]))
    assert (flat["above"], flat["outside"], flat["bound"]) == ([0], [0], [0])


def test_the_means_are_those_from_which_adanorm_is_derived() -> None:
    """The mean of phi is C, that of z is -C k: a row's mean of y (1 - k y) is -k times the variance of y."""
    norm, x = (
        AdaNorm(50, k=0.3, C=2.0),
        torch.randn(7, 50, generator=torch.Generator().manual_seed(0)),
    )
    means = activations.shares(
        Call(
            norm,
            x,
            norm(x),
            x,
            torch.ones_like(x),
        ),
        10.0,
    )
    torch.testing.assert_close(means["factor_mean"], torch.full((7,), 2.0))
    torch.testing.assert_close(
        means["output_mean"],
        torch.full((7,), -0.6),
        rtol=1e-3,
        atol=0,
    )
    assert "factor_mean" not in activations.shares(
        Call(
            LayerNormSimple(50),
            x,
            x,
            x,
            x,
        ),
        10.0,
    )


def test_every_site_of_a_run_is_within_chebyshevs_bound(record: Records) -> None:
    entry = record(
        "activations", "task=rt", "norm=adanorm", "norm.params.k=0.6", settings={"every": "3"}
    )
    rows = observed(entry, activations.observe)
    assert len(rows) == 2
    for row in rows:
        assert list(row["values"]) == begin(entry)[1]
        for site in row["values"].values():
            assert 0 < site["above"] <= site["outside"] <= site["bound"] == pytest.approx(0.36)
