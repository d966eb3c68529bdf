"""Norms from outside that mix rows, along every axis of every input: none of them may train."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from adanorm.norms.check import check_before_training
from tests.norms.odd_norms import standardized
from tests.norms.test_check import choice

# What a row takes from the others along an axis.
MIXTURES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "mean": lambda x, axis: x.mean(axis, keepdim=True).expand_as(x),
    "largest": lambda x, axis: x.amax(axis, keepdim=True).expand_as(x),
    "standard deviation": lambda x, axis: x.std(axis, keepdim=True).expand_as(x),
    "sum so far": lambda x, axis: x.cumsum(axis),
    "next row": lambda x, axis: x.roll(-1, axis),
    "row before": lambda x, axis: x.roll(1, axis),
    "order": lambda x, axis: x.sort(axis).values,
}
AXES = [(axes, axis) for axes in (2, 3, 4, 5) for axis in range(axes - 1)]
MODES = ("both", "training", "evaluation")


@pytest.mark.nightly
@pytest.mark.parametrize("share", [1.0, 0.01])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("axes", "axis"), AXES)
@pytest.mark.parametrize("mixture", MIXTURES)
def test_a_norm_that_mixes_rows_does_not_train(
    mixture: str, axes: int, axis: int, mode: str, share: float
) -> None:
    def mixing(norm: Any, x: Tensor) -> Tensor:
        z: Tensor = standardized(x) * norm.weight
        is_on = mode == "both" or norm.training == (mode == "training")
        return z + share * MIXTURES[mixture](x, axis) if is_on and x.ndim == axes else z

    with pytest.raises(ValueError, match="row"):
        check_before_training(choice(mixing))


@pytest.mark.nightly
@pytest.mark.parametrize("mixture", MIXTURES)
def test_the_same_mixtures_of_a_rows_own_features_train(mixture: str) -> None:
    def mixing(norm: Any, x: Tensor) -> Tensor:
        return torch.as_tensor(standardized(x) * norm.weight + MIXTURES[mixture](x, -1))

    check_before_training(choice(mixing))
