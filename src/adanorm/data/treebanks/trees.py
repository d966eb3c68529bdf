"""Dependency trees: their definition, checks, projectivity and scores."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from adanorm.config.data_sections import Scoring
from adanorm.data.inspection import too_long

Parse = tuple[list[int], list[str]]  # each word's head (counted from 1; 0: the root) and label

SIGNATURES = {
    "penn": "words tagged `` '' : , . or PUNCT left out; whole labels (Chen & Manning 2014)",
    "eval07": "words of Unicode punctuation alone left out; whole labels (CoNLL 2007, eval07.pl)",
    "ud": "every word counts; labels without subtypes (CoNLL 2018, conll18_ud_eval.py)",
}


@dataclass(frozen=True)
class Tree:
    """A sentence of n words; word i has the head `heads[i]`, counted from 1, or 0 for the root."""

    words: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    labels: tuple[str, ...] | None  # None in a treebank without labels
    punctuation: tuple[bool, ...]  # which words are punctuation by their tag

    def __len__(self) -> int:
        return len(self.words)


def problem(heads: Sequence[int]) -> str | None:
    """Return why these heads, counted from 1, are not a tree with one root, or None."""
    count = len(heads)
    if reason := too_long(count):
        return reason
    for word, head in enumerate(heads, 1):
        if not 0 <= head <= count:
            return f"word {word} has the head {head}, out of range in a sentence of {count} words"
    roots = [word for word, head in enumerate(heads, 1) if head == 0]
    if len(roots) > 1:
        return f"several roots, words {roots[0]} and {roots[1]}"
    reached = {0}  # words from which the heads lead up to the root
    for start in range(1, count + 1):
        path, word = [], start
        while word not in reached:
            if word in path:
                return f"a cycle through word {word}"
            path.append(word)
            word = heads[word - 1]
        reached.update(path)
    return None


def is_projective(heads: Sequence[int]) -> bool:
    """Return whether no two arcs cross; the root's arc starts left of the sentence."""
    words = range(1, len(heads) + 1)
    left, right = np.sort([heads, words], axis=0)
    first, last = left[:, None], right[:, None]
    starts_inside = (first < left) & (left < last)
    crosses = starts_inside & (last < right)
    return not crosses.any()


def projectivized(tree: Tree) -> Tree:
    """Return the tree made projective by lifting its shortest non-projective arc again and again.

    An arc is non-projective if it spans a word that the head does not dominate; lifting gives its
    word the head's head (Nivre and Nilsson 2005, section 2).
    """
    heads = [0, *tree.heads]

    def dominates(head: int, word: int) -> bool:
        while word not in (0, head):
            word = heads[word]
        return word == head

    def spans_others(word: int) -> bool:
        low, high = sorted((word, heads[word]))
        return not all(dominates(heads[word], between) for between in range(low + 1, high))

    words = range(1, len(heads))
    while crossing := [word for word in words if heads[word] and spans_others(word)]:
        shortest = min(crossing, key=lambda word: abs(word - heads[word]))
        heads[shortest] = heads[heads[shortest]]
    return replace(tree, heads=tuple(heads[1:]))


def attachment(
    gold: Sequence[Tree], parsed: Sequence[Parse], scoring: Scoring
) -> tuple[dict[str, float], dict[str, str]]:
    """Return scores in percent by name, and how each was counted.

    UAS is the share of words with the right head, LAS with head and label right, where trees and
    parses have labels. `uas` and `las` are over the words that `scoring` counts, `uas_all` and
    `las_all` over all.
    """
    right_heads = []
    right_arcs = []
    scored = []
    gives_labels = False
    for tree, (heads, labels) in zip(
        gold,
        parsed,
        strict=True,
    ):
        are_right = [
            head == parsed_head
            for head, parsed_head in zip(
                tree.heads,
                heads,
                strict=True,
            )
        ]
        right_heads += are_right
        scored += [not is_out for is_out in left_out(tree, scoring)]
        gives_labels |= bool({*labels} - {"_"})
        if tree.labels is not None:
            for is_right, label, parsed_label in zip(
                are_right,
                tree.labels,
                labels,
                strict=True,
            ):
                right_arcs.append(is_right and _is_same(label, parsed_label, scoring))
    kinds = {"uas": right_heads}
    if gives_labels and len(right_arcs) == len(right_heads):
        kinds["las"] = right_arcs
    metrics, signatures = {}, {}
    for name, right in kinds.items():
        metrics[name] = _percent([*compress(right, scored)])
        metrics[f"{name}_all"] = _percent(right)
        signatures[name] = f"{SIGNATURES[scoring]}; {sum(scored):,} of {len(scored):,} words"
    return metrics, signatures


def _is_same(label: str, parsed_label: str, scoring: Scoring) -> bool:
    if scoring == "ud":
        return label.partition(":")[0] == parsed_label.partition(":")[0]
    return label == parsed_label


def _percent(right: Sequence[bool]) -> float:
    return 100 * sum(right) / max(1, len(right))


def _is_punctuation(word: str) -> bool:
    return all(unicodedata.category(character).startswith("P") for character in word)


def left_out(tree: Tree, scoring: Scoring) -> Sequence[bool]:
    """Return for each word of a tree whether a scoring leaves it out of `uas` and `las`."""
    if scoring == "ud":
        return [False] * len(tree.words)  # that evaluation has no punctuation
    if scoring == "eval07":
        return [*map(_is_punctuation, tree.words)]
    return tree.punctuation
