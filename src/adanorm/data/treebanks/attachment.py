"""Attachment scores of dependency trees, counted in three ways, each with a signature."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Literal, NamedTuple

from adanorm.data.treebanks.trees import Tree

Scoring = Literal["penn", "eval07", "ud"]
Parse = tuple[list[int], list[str]]  # heads, counted from 1, and labels

SIGNATURES = {
    "penn": "words tagged `` '' : , . or PUNCT left out; whole labels (Chen & Manning 2014)",
    "eval07": "words of Unicode punctuation alone left out; whole labels (CoNLL 2007, eval07.pl)",
    "ud": "every word counts; labels without subtypes (CoNLL 2018, conll18_ud_eval.py)",
}


class Attachment(NamedTuple):
    """Scores in percent by name, and how each was counted."""

    metrics: dict[str, float]
    signatures: dict[str, str]


def attachment(gold: Sequence[Tree], parsed: Sequence[Parse], scoring: Scoring) -> Attachment:
    """Return UAS as `scoring` counts words (`uas`) and over all (`uas_all`), and LAS where there are labels.

    UAS is the share of words with the right head, LAS with the right head and label.
    """
    heads, labels, counted = [], [], []
    for tree, (parsed_heads, parsed_labels) in zip(gold, parsed, strict=True):
        heads += [head == other for head, other in zip(tree.heads, parsed_heads, strict=True)]
        counted += [not is_out for is_out in left_out(tree, scoring)]
        if tree.labels is not None:
            pairs: Iterable[tuple[str, str]] = zip(tree.labels, parsed_labels, strict=True)
            if scoring == "ud":
                pairs = ((label.partition(":")[0], other.partition(":")[0]) for label, other in pairs)
            labels += [label == other for label, other in pairs]
    kinds = {"uas": heads}
    if len(labels) == len(heads):
        kinds["las"] = [head and label for head, label in zip(heads, labels, strict=True)]
    metrics, signatures = {}, {}
    for name, right in kinds.items():
        for of, words in ((name, [*compress(right, counted)]), (f"{name}_all", right)):
            metrics[of] = 100 * sum(words) / max(1, len(words))
        signatures[name] = f"{SIGNATURES[scoring]}; {sum(counted):,} of {len(counted):,} words"
    return Attachment(metrics, signatures)


def left_out(tree: Tree, scoring: Scoring) -> Sequence[bool]:
    """Return which words of a tree count in `uas` and `las` of a scoring not at all."""
    if scoring == "ud":
        return [False] * len(tree.words)  # that evaluation knows no punctuation
    if scoring == "eval07":
        return [all(unicodedata.category(c).startswith("P") for c in word) for word in tree.words]
    return tree.punctuation
