"""Attachment scores of dependency trees, counted in three ways, each with a signature."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

Scoring = Literal["penn", "eval07", "ud"]
Parse = tuple[list[int], list[str]]  # heads, counted from 1, and labels

SIGNATURES = {
    "penn": "words tagged `` '' : , . or PUNCT left out; whole labels (Chen & Manning 2014)",
    "eval07": "words of Unicode punctuation alone left out; whole labels (CoNLL 2007, eval07.pl)",
    "ud": "every word counts; labels without subtypes (CoNLL 2018, conll18_ud_eval.py)",
}


class Tree(Protocol):
    """What is scored of a sentence with its tree; data.treebanks.trees.Tree is one."""

    @property
    def words(self) -> Sequence[str]:
        """The n words."""

    @property
    def heads(self) -> Sequence[int]:
        """The head of each word, counted from 1, 0 for the root's."""

    @property
    def labels(self) -> Sequence[str] | None:
        """The label of each word's arc, None in a treebank without labels."""

    @property
    def punctuation(self) -> Sequence[bool]:
        """Whether each word is punctuation by its tag."""


class Attachment(NamedTuple):
    """Scores in percent by name, and how each was counted."""

    metrics: dict[str, float]
    signatures: dict[str, str]


def attachment(gold: Sequence[Tree], parsed: Sequence[Parse], scoring: Scoring) -> Attachment:
    """Return UAS as `scoring` counts words (`uas`) and over all (`uas_all`), and LAS where there are labels.

    UAS is the share of words with the right head, LAS with the right head and label.
    """
    heads, labels, counted = [], [], []
    for tree, (found_heads, found_labels) in zip(gold, parsed, strict=True):
        heads += [head == found for head, found in zip(tree.heads, found_heads, strict=True)]
        counted += [not left_out for left_out in left_out(tree, scoring)]
        if tree.labels is not None:
            whole = _universal if scoring == "ud" else str
            pairs = zip(tree.labels, found_labels, strict=True)
            labels += [whole(label) == whole(found) for label, found in pairs]
    kinds = {"uas": heads}
    if len(labels) == len(heads):
        kinds["las"] = [head and label for head, label in zip(heads, labels, strict=True)]
    metrics, signatures = {}, {}
    for name, right in kinds.items():
        metrics[name] = _percent([good for good, counts in zip(right, counted, strict=True) if counts])
        metrics[f"{name}_all"] = _percent(right)
        signatures[name] = f"{SIGNATURES[scoring]}; {sum(counted):,} of {len(counted):,} words"
    return Attachment(metrics, signatures)


def _percent(right: Sequence[bool]) -> float:
    return 100 * sum(right) / max(1, len(right))


def left_out(tree: Tree, scoring: Scoring) -> Sequence[bool]:
    """Return which words of a tree count in `uas` and `las` of a scoring not at all."""
    if scoring == "ud":
        return [False] * len(tree.words)  # that evaluation knows no punctuation
    if scoring == "eval07":
        return [all(unicodedata.category(c).startswith("P") for c in word) for word in tree.words]
    return tree.punctuation


def _universal(label: str) -> str:
    return label.partition(":")[0]
