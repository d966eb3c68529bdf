import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adanorm.data.examples import ArrayExamples, Batches, TextExamples


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=80),
    budget=st.integers(30, 300),
    seed=st.none() | st.integers(0, 100),
)
@settings(max_examples=80)
def test_text_batches_hold_every_sentence_once_within_the_budget(
    lengths: list[int], budget: int, seed: int | None
) -> None:
    sentences = [np.arange(1, length + 1) for length in lengths]
    examples = TextExamples(sentences, torch.arange(len(lengths)), budget)
    order = examples.order(None if seed is None else np.random.default_rng(seed))
    assert sorted(np.concatenate(order).tolist()) == list(range(len(lengths)))
    for batch in Batches(examples.batch, order):
        assert batch.inputs.numel() <= budget or len(batch.targets) == 1
        assert batch.inputs.count_nonzero(1).tolist() == [
            lengths[target] for target in batch.targets
        ]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_the_processes_share_a_batch_without_loss(world: int) -> None:
    arrays = ArrayExamples(torch.arange(5)[:, None], torch.arange(5), 8)
    sentences = TextExamples([np.arange(1, 3)] * 5, torch.arange(5), 80)
    for examples in (arrays, sentences):
        batches = Batches(examples.batch, examples.order(None))
        parts = [batches.part(0, rank, world) for rank in range(world)]
        assert sorted(torch.cat([part.targets for part in parts]).tolist()) == list(range(5))
