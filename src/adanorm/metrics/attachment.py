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


class _Tree(Protocol):
    """What is scored of a sentence with its tree, as data.treebanks.trees.Tree has it."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def heads(self) -> Sequence[int]: ...
    @property
    def labels(self) -> Sequence[str] | None: ...
    @property
    def punctuation(self) -> Sequence[bool]: ...


class Attachment(NamedTuple):
    """Scores in percent by name, and how each was counted."""

    metrics: dict[str, float]
    signatures: dict[str, str]


def attachment(gold: Sequence[_Tree], parsed: Sequence[Parse], scoring: Scoring) -> Attachment:
    """Return UAS as `scoring` counts words (`uas`) and over all (`uas_all`), and LAS where there are labels.

    UAS is the share of words with the right head, LAS with the right head and label.
    """
    heads, labels, counted = [], [], []
    for tree, (parsed_heads, parsed_labels) in zip(gold, parsed, strict=True):
        heads += [head == other for head, other in zip(tree.heads, parsed_heads, strict=True)]
        counted += [not is_out for is_out in left_out(tree, scoring)]
        if tree.labels is not None:
            pairs = zip(tree.labels, parsed_labels, strict=True)
            labels += [_scored(label, scoring) == _scored(other, scoring) for label, other in pairs]
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


def left_out(tree: _Tree, scoring: Scoring) -> Sequence[bool]:
    """Return which words of a tree count in `uas` and `las` of a scoring not at all."""
    if scoring == "ud":
        return [False] * len(tree.words)  # that evaluation knows no punctuation
    if scoring == "eval07":
        return [all(unicodedata.category(c).startswith("P") for c in word) for word in tree.words]
    return tree.punctuation


def _scored(label: str, scoring: Scoring) -> str:
    return label.partition(":")[0] if scoring == "ud" else label
