"""The distribution of a norm's outputs."""

import pytest
import torch

from adanorm.analyses.observers import noisy_batchnorm
from tests.analyses.conftest import Records, observed


def test_features_are_summed_up_by_their_means_and_variances() -> None:
    distribution = noisy_batchnorm.feature_distribution(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
    assert distribution == pytest.approx({"mean": 11.0, "mean_spread": 9.0, "variance": 50.5})


def test_noise_spreads_the_means_that_batchnorm_keeps_equal(record: Records) -> None:
    spread = {}
    for norm in ("batchnorm", "batchnorm-noisy"):
        entry = record(
            "noisy-batchnorm", "task=mnist", f"norm={norm}", settings={"steps": "1", "every": "1"}
        )
        (row,) = observed(entry, noisy_batchnorm.observe)
        spread[norm] = [distribution["mean_spread"] for distribution in row["values"].values()]
    assert max(spread["batchnorm"]) < 1e-5
    assert min(spread["batchnorm-noisy"]) > 0.05
