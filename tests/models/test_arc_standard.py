"""The transition system: it builds every projective tree, and nothing but trees."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from adanorm.bench import plain_parser
from adanorm.data import treebanks
from adanorm.data.tree_encoding import Vocabulary, longest_first
from adanorm.data.trees import Tree, is_projective, problem
from adanorm.models.arc_standard import Oracle, States, derive
from adanorm.models.norm_sites import PlacedNorms
from adanorm.models.transition_parser import TransitionParser
from adanorm.norms import norm_factory
from adanorm.tasks.parsing import features, transitions
from tests.trees import projective

LABELS = ("subj", "obj", "det")


def followed(trees: list[Tree]) -> list[tuple[list[int], list[int]]]:
    """Heads and label numbers that the oracle's actions build, in the trees' order."""
    vocabulary = Vocabulary.of(trees, lowercase=False, min_count=1)
    built: list[tuple[list[int], list[int]]] = [([], [])] * len(trees)
    for indices in longest_first(trees):
        chosen = [trees[index] for index in indices]
        oracle = Oracle(*vocabulary.gold(chosen))

        def choose(states: States, *, oracle: Oracle = oracle) -> tuple[Tensor, Tensor]:
            action, label = oracle(states)
            assert states.allowed()[torch.arange(len(action)), action].all()
            return action, label

        states = derive(torch.tensor([len(tree) for tree in chosen]), choose)
        for index, heads, labels in zip(indices, states.heads.tolist(), states.labels.tolist(), strict=True):
            inside = slice(2, 2 + len(trees[index]))
            built[index] = [head - 1 for head in heads[inside]], labels[inside]
    return built


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 10**6)), min_size=1, max_size=8))
def test_the_oracle_rebuilds_every_projective_tree(shapes: list[tuple[int, int]]) -> None:
    trees = [projective(count, seed, labels=LABELS) for count, seed in shapes]
    vocabulary = Vocabulary.of(trees, lowercase=False, min_count=1)
    for tree, (heads, labels) in zip(trees, followed(trees), strict=True):
        assert is_projective(tree.heads)
        assert tuple(heads) == tree.heads
        assert tuple(vocabulary.labels[label - 1] for label in labels) == tree.labels


def test_the_oracle_rebuilds_the_whole_sample(mirror: Path) -> None:
    splits = treebanks.read_sample(mirror / "ptb-sample" / "dependency_treebank.zip")
    trees = [tree for split in splits.values() for tree in split]
    assert len(trees) == 3_914
    for tree, (heads, _) in zip(trees, followed(trees), strict=True):
        assert tuple(heads) == tree.heads


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(0, 10**6))
def test_any_choice_of_allowed_actions_ends_in_projective_trees_of_one_root(
    lengths: list[int], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    lengths.sort(reverse=True)

    def choose(states: States) -> tuple[Tensor, Tensor]:
        likely = torch.rand(len(states.top), 3, generator=generator).masked_fill(~states.allowed(), -1)
        return likely.argmax(1), torch.ones(len(states.top), dtype=torch.long)

    for count, heads in zip(lengths, derive(torch.tensor(lengths), choose).heads.tolist(), strict=True):
        numbers = [head - 1 for head in heads[2 : 2 + count]]
        assert problem(numbers) is None
        assert is_projective(numbers)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 10**6)), min_size=1, max_size=5), st.booleans())
def test_transitions_are_those_of_plain_python(shapes: list[tuple[int, int]], labelled: bool) -> None:
    """Chen and Manning's features and the oracle, a sentence at a time, over lists."""
    trees = [projective(count, seed, labels=LABELS if labelled else ()) for count, seed in shapes]
    vocabulary = Vocabulary.of(trees, lowercase=False, min_count=2)
    ours = transitions(trees, vocabulary, batch_size=1)
    assert ours.inputs.shape[1] == (48 if labelled else 36)
    found = sorted(
        (row.tolist(), action) for row, action in zip(ours.inputs, ours.targets.tolist(), strict=True)
    )
    assert found == sorted(step for tree in trees for step in plain_parser.transitions(tree, vocabulary))


def test_a_hand_made_state_has_the_features_of_the_paper() -> None:
    """`the cat sat on mats .` with `the`, `cat` attached and `on` on the stack (positions are words + 1)."""
    lengths = torch.tensor([6])
    script = iter([0, 0, 1, 0, 1, 0])  # shift the, cat; left-arc; shift sat; left-arc; shift on
    states = States.of(lengths)
    for action in script:
        states.advance(torch.tensor([action]), torch.tensor([1]))
    the, cat, sat, on, mats, stop = range(2, 8)
    stack, buffer = [on, sat, 1], [mats, stop, 0]
    # Of on and of sat each: leftmost, rightmost, second leftmost, second rightmost child.
    near = [0, cat, 0, 0, 0, 0, 0, 0]
    assert states.positions().tolist() == [[*stack, *buffer, *near, 0, the, 0, 0]]


@pytest.mark.parametrize("labelled", [True, False])
def test_multiplying_distinct_features_once_changes_nothing(labelled: bool) -> None:
    trees = [projective(12, seed, labels=LABELS if labelled else ()) for seed in range(20)]
    vocabulary = Vocabulary.of(trees, lowercase=False, min_count=1)
    inputs = transitions(trees, vocabulary, batch_size=1).inputs
    torch.manual_seed(0)
    model = TransitionParser(
        PlacedNorms(norm_factory("layernorm", {}), "all"),
        vocabulary=len(vocabulary), features=inputs.shape[1], actions=7, embedding_dim=5, embedding_sd=1.0,
        layers=2, dim=16, activation="relu", dropout=0.0,
    ).double()  # fmt: skip
    weights = model.embedding.weight, model.linears[0].weight, model.linears[0].bias
    made = [embedded(inputs) for embedded in (model._embedded, model._embedded_once)]
    assert torch.allclose(made[0], made[1], atol=1e-12)
    slopes = [torch.autograd.grad(out.sin().sum(), weights) for out in made]  # type: ignore[arg-type]
    for dense, once in zip(*slopes, strict=True):
        assert torch.allclose(dense, once, atol=1e-12)


def test_features_hold_no_state_of_another_sentence() -> None:
    trees = [projective(count, count, labels=LABELS) for count in (15, 9, 4)]
    vocabulary = Vocabulary.of(trees, lowercase=False, min_count=1)
    together = vocabulary.encode(trees)
    for row, tree in enumerate(trees):
        alone = vocabulary.encode([tree])
        first = features(States.of(together.lengths), together, vocabulary)[row]
        assert torch.equal(first, features(States.of(alone.lengths), alone, vocabulary)[0])
