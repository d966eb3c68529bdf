"""N-gram models against counting with dictionaries."""

import math
import random
from collections import Counter

import numpy as np
import pytest

from adanorm.tasks.char_lm import bits_per_byte


def by_counting(train: list[int], text: list[int], context: int, before: list[int]) -> float:
    """Witten-Bell's interpolation, a byte at a time."""
    grams = Counter(tuple(train[i : i + n + 1]) for n in range(context + 1) for i in range(len(train) - n))

    def probability(byte: int, history: tuple[int, ...]) -> float:
        lower = probability(byte, history[1:]) if history else 1 / 256
        following = [count for gram, count in grams.items() if gram[:-1] == history]
        if not following:
            return lower
        return (grams[(*history, byte)] + len(following) * lower) / (sum(following) + len(following))

    whole = before + text
    places = range(len(before), len(whole))
    return -sum(math.log2(probability(whole[i], tuple(whole[i - context : i]))) for i in places) / len(text)


@pytest.mark.parametrize("context", [0, 1, 3])
def test_bits_a_byte_are_those_of_counting(context: int) -> None:
    draw = random.Random(context)
    train, text, other = ([draw.choice([0, 1, 97, 200]) for _ in range(n)] for n in (60, 40, 5))
    text += [7, 0, 97, 255, 0]  # bytes that training lacks, one above all of its own, and histories with them
    arrays = (np.array(part, dtype=np.int64) for part in (train, text))
    found = bits_per_byte(*arrays, context=context, before=np.array(other, dtype=np.int64))
    assert found == pytest.approx(by_counting(train, text, context, other), rel=1e-12)
