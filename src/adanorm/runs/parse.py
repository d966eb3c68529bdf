"""Parsing sentences with a trained parser."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO, cast

from conllu import TokenList
from conllu.exceptions import ParseException
from conllu.parser import parse_sentences
from torch import nn

from adanorm.config.data_sections import TreebankConfig
from adanorm.config.experiment import Experiment
from adanorm.data.treebanks.conll import parse_sentence, words_of
from adanorm.data.treebanks.trees import Tree
from adanorm.runs.setup import trained
from adanorm.tasks.parsing import Parsing


def each_sentence(lines: Iterable[str], name: str, tags: str) -> Iterator[TokenList]:
    """Yield the sentences of a text in CoNLL's ten columns, each as soon as a blank line ends it.

    Raises ValueError naming file and sentence where they are not, or where one has no tags in the
    column `tags`.
    """
    for number, text in enumerate(parse_sentences(cast(TextIO, lines)), 1):
        try:
            yield _sentence(text, tags)
        except (ParseException, ValueError) as error:
            raise ValueError(f"{name}, sentence {number}: {error}") from None


def _sentence(text: str, tags: str) -> TokenList:
    if any(line.count("\t") != 9 for line in text.split("\n") if not line.startswith("#")):
        raise ValueError("CoNLL has ten columns a word")
    sentence = parse_sentence(text)
    words = list(words_of(sentence))
    if not words:
        raise ValueError("has no word")
    if all(word[tags] == "_" for word in words):
        raise ValueError(f"no tags in the column {tags}, which the parser was trained on")
    return sentence


def parsed(experiment: Experiment, parts: Iterable[Sequence[TokenList]]) -> Iterator[Sequence[TokenList]]:
    """Yield each part's sentences with heads and labels in place of what was there.

    Raises ValueError where the run has none here.
    """
    rest = iter(parts)
    first = next(rest, [])  # its mistakes are told before there is work
    task, model = trained(experiment, Parsing)
    for sentences in itertools.chain([first], rest):
        _parse(experiment, task, model, sentences)
        yield sentences


def _parse(experiment: Experiment, task: Parsing, model: nn.Module, sentences: Sequence[TokenList]) -> None:
    assert isinstance(experiment.data, TreebankConfig), "asked of parsers only"
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
    for sentence in sentences:
        for token in sentence:
            if "deps" in token:
                token["deps"] = None  # another parse's
