"""The transition system: it builds every projective tree, and nothing but trees."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adanorm.data.treebanks.conll import read_sample
from adanorm.data.treebanks.encoding import Numbers, Vocabulary
from adanorm.data.treebanks.trees import Tree, is_projective, problem
from adanorm.models import arc_standard
from adanorm.models.arc_standard import States
from adanorm.tasks.parsing import transitions, width
from tests import plain_parser
from tests.networks import network
from tests.trees import projective

LABELS = ("subj", "obj", "det")


def arcs(states: States) -> list[tuple[list[int], list[int]]]:
    """Return the heads and label numbers of each sentence."""
    words = [slice(start + 2, end) for start, end in pairwise(states.starts.tolist())]
    return [((states.heads[part] - 1).tolist(), states.labels[part].tolist()) for part in words]


def followed(trees: list[Tree]) -> list[tuple[list[int], list[int]]]:
    """Return for each tree the heads and label numbers that the oracle's actions build."""
    vocabulary = Vocabulary.of(
        trees,
        lowercase=False,
        min_count=1,
    )
    sentences, count = vocabulary.encode(trees), 2 * sum(map(len, trees))
    states = arc_standard.first_states(sentences.starts)
    steps = np.empty((count, width(vocabulary)), np.int32), np.empty(count, np.int16)
    numbers = vocabulary.kinds, vocabulary.first_label
    arc_standard.follow(
        states,
        sentences,
        vocabulary.gold(trees),
        *numbers,
        steps,
    )
    return arcs(states)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 10**6)),
        min_size=1,
        max_size=8,
    )
)
def test_the_oracle_rebuilds_every_projective_tree(shapes: list[tuple[int, int]]) -> None:
    trees = [projective(count, seed, labels=LABELS) for count, seed in shapes]
    vocabulary = Vocabulary.of(
        trees,
        lowercase=False,
        min_count=1,
    )
    for tree, (heads, labels) in zip(trees, followed(trees), strict=True):
        assert is_projective(tree.heads)
        assert tuple(heads) == tree.heads
        assert tuple(vocabulary.labels[label - 1] for label in labels) == tree.labels


def test_the_oracle_rebuilds_the_whole_sample(mirror: Path) -> None:
    splits, _ = read_sample(mirror / "ptb-sample" / "dependency_treebank.zip")
    trees = [tree for split in splits.values() for tree in split]
    assert len(trees) == 3_914
    for tree, (heads, _) in zip(trees, followed(trees), strict=True):
        assert tuple(heads) == tree.heads


@pytest.mark.parametrize("factor", [1.0, math.nan, -math.inf])
@settings(max_examples=40)
@given(
    st.lists(
        st.integers(1, 20),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 10**6),
    st.integers(1, 3),
)
def test_any_scores_end_in_projective_trees_of_one_root(
    factor: float, lengths: list[int], seed: int, kinds: int
) -> None:
    random = np.random.default_rng(seed)
    states = arc_standard.first_states(np.cumsum([0, *(length + 2 for length in lengths)]))
    going: Numbers = np.arange(len(lengths))
    steps = 0
    while len(going):
        scores = factor * random.random((len(going), 1 + 2 * kinds))
        going = arc_standard.advance_best(
            states,
            going,
            scores.astype(np.float32),
            kinds,
        )
        steps += 1
    assert steps == 2 * max(lengths)
    for heads, labels in arcs(states):
        assert problem(heads) is None
        assert is_projective(heads)
        assert set(labels) <= set(range(1, kinds + 1))


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 10**6)),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
)
def test_transitions_are_those_of_plain_python(
    shapes: list[tuple[int, int]], labelled: bool
) -> None:
    """The plain version has Chen and Manning's features and the oracle for one sentence, over lists."""
    trees = [projective(count, seed, labels=LABELS if labelled else ()) for count, seed in shapes]
    vocabulary = Vocabulary.of(
        trees,
        lowercase=False,
        min_count=2,
    )
    ours = transitions(trees, vocabulary, batch_size=1)
    assert ours.inputs.shape[1] == (48 if labelled else 36)
    steps = sorted(
        (row.tolist(), act) for row, act in zip(ours.inputs, ours.targets.tolist(), strict=True)
    )
    assert steps == sorted(
        step for tree in trees for step in plain_parser.transitions(tree, vocabulary)
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-4)])
@pytest.mark.parametrize("labelled", [True, False])
def test_multiplying_distinct_features_once_changes_nothing(
    labelled: bool, dtype: torch.dtype, tolerance: float
) -> None:
    trees = [projective(12, seed, labels=LABELS if labelled else ()) for seed in range(20)]
    vocabulary = Vocabulary.of(
        trees,
        lowercase=False,
        min_count=1,
    )
    inputs = transitions(trees, vocabulary, batch_size=1).inputs
    model, _ = network(
        "transition_parser",
        vocabulary=len(vocabulary),
        features=inputs.shape[1],
    )
    model.to(dtype)
    first = model.linears[0]
    weights = model.embedding.weight, first.weight, first.bias
    plain = first(model.embedding(inputs).flatten(1))
    by_pairs = model._products(inputs)
    torch.testing.assert_close(
        by_pairs,
        plain,
        rtol=0,
        atol=tolerance,
    )
    slopes = torch.autograd.grad(by_pairs.sin().sum(), weights)
    expected = torch.autograd.grad(plain.sin().sum(), weights)
    torch.testing.assert_close(
        slopes,
        expected,
        rtol=tolerance,
        atol=tolerance,
    )
