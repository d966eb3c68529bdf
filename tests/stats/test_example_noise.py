"""The noise of test examples in one pair's gap."""

import math

import numpy as np
import pytest

from adanorm.stats.example_noise import ExampleNoise, example_error, example_noise
from adanorm.stats.variance import components


def drawn(seeds: int, examples: int, deviation: float, draw: int) -> np.ndarray:
    """Return gaps (seeds, examples) of three values, as those of correct and wrong answers."""
    random = np.random.default_rng(draw)
    centers = deviation * random.standard_normal(examples)
    noise = (
        centers
        + random.standard_normal((seeds, examples))
        + random.standard_normal((seeds, 1)) / 10
    )
    return np.sign(noise) * (np.abs(noise) > 1)


@pytest.mark.parametrize("seeds", [2, 5, 20])
def test_the_variance_is_the_component_of_the_analysis_of_variance(seeds: int) -> None:
    gaps = drawn(seeds, 300, 0.5, 3)
    assert example_noise(gaps).variance == pytest.approx(components(gaps).example / 300)


def test_its_error_is_its_deviation_over_test_sets() -> None:
    noises = [
        example_noise(
            drawn(
                6,
                400,
                0.7,
                draw,
            )
        )
        for draw in range(400)
    ]
    deviation = np.std([noise.variance for noise in noises], ddof=1)
    assert np.mean([noise.error for noise in noises]) == pytest.approx(deviation, rel=0.15)


@pytest.mark.parametrize("deviation", [0.0, 0.3, 1.0])
def test_the_floor_lies_above_the_true_variance_in_three_quarters_of_draws(
    deviation: float,
) -> None:
    noises = [
        example_noise(
            drawn(
                8,
                400,
                deviation,
                draw,
            )
        )
        for draw in range(600)
    ]
    true = max(0.0, float(np.mean([noise.variance for noise in noises])))
    above = np.mean([noise.floor >= true for noise in noises])
    assert above > 0.70


def test_few_seeds_are_shrunk_towards_other_pairs_and_never_below_their_own_floor() -> None:
    few = ExampleNoise(variance=0.04, error=0.0, seeds=5)
    assert example_error(few, others=0.16) == pytest.approx(math.sqrt(0.10))
    assert example_error(few, others=0.0) == pytest.approx(0.2)
    many = few._replace(seeds=10)
    assert example_error(many, others=0.16) == pytest.approx(0.2)
    negative = ExampleNoise(variance=-0.01, error=0.001, seeds=20)
    assert example_error(negative) == 0


@pytest.mark.parametrize("shape", [(1, 5), (5, 1)])
def test_one_seed_or_one_example_has_no_noise_to_tell(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="two of each"):
        example_noise(np.zeros(shape))


def test_a_score_that_is_no_number_is_refused() -> None:
    gaps = np.zeros((3, 4))
    gaps[1, 2] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        example_noise(gaps)
