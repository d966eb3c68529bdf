"""Parsing sentences with a trained parser."""

from __future__ import annotations

from collections.abc import Sequence

from conllu import TokenList

from adanorm.config.data_sections import Treebank
from adanorm.config.experiment import Experiment
from adanorm.data.treebanks.conll import each_sentence, parse_sentence, words_of
from adanorm.data.treebanks.trees import Tree
from adanorm.inference.weights import trained
from adanorm.tasks.parsing import Parsing


def read_sentences(content: bytes, name: str, tags: str) -> list[TokenList]:
    """Return the sentences of a text in CoNLL's ten columns.

    Raises ValueError naming file and sentence where they are not, or where one has no tags in the
    column `tags`.
    """

    def sentence(lines: str) -> TokenList:
        made = parse_sentence(lines)
        words = list(words_of(made))
        if not words or any(tags not in word for word in words):
            raise ValueError("CoNLL has ten columns a word")
        if all(word[tags] == "_" for word in words):
            raise ValueError(f"no tags in the column {tags}, which the parser was trained on")
        return made

    return each_sentence(content, name, sentence)


def parse_sentences(experiment: Experiment, sentences: Sequence[TokenList]) -> None:
    """Write heads and labels into sentences; raises ValueError where the run has no weights here."""
    assert isinstance(experiment.data, Treebank), "asked of parsers only"
    task, model = trained(experiment, Parsing)
    words = [list(words_of(sentence)) for sentence in sentences]
    unparsed = [
        Tree(
            words=tuple(word["form"] for word in row),
            tags=tuple(word[experiment.data.tags] for word in row),
            heads=(0,) * len(row),
            labels=None,
            punctuation=(False,) * len(row),
        )
        for row in words
    ]
    for row, (heads, labels) in zip(words, task.parse(model, unparsed), strict=True):
        for word, head, label in zip(row, heads, labels, strict=True):
            word["head"], word["deprel"] = head, label
