"""Parsing sentences with a trained parser."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from torch import nn

from adanorm.config.experiment import Experiment
from adanorm.data.treebanks import conll
from adanorm.data.treebanks.conll import DEPS, FORM, HEAD, LABEL, TAG_COLUMNS
from adanorm.data.treebanks.trees import Tree
from adanorm.runs.setup import trained
from adanorm.tasks.parsing import Parsing


class Sentence(NamedTuple):
    """The lines of a sentence as they came, the columns of those that are no comments, and its tags."""

    lines: list[str]
    rows: dict[int, list[str]]  # by the index of the line
    tags: tuple[str, ...]

    def text(self) -> str:
        """Return the lines with the rows' columns; what ends a line stays."""
        written = list(self.lines)
        for index, row in self.rows.items():
            written[index] = "\t".join(row) + written[index][len(written[index].rstrip("\r\n")) :]
        return "".join(written)


def each_sentence(lines: Iterable[str], name: str, tags: str) -> Iterator[Sentence]:
    """Yield the sentences of a text in CoNLL's ten columns, each as soon as a blank line ends it.

    Raises ValueError naming file and sentence where they are not, or where one has no tags in the
    column `tags`.
    """
    return conll.each_sentence(lines, name, partial(_sentence, tags=tags))


def _sentence(lines: list[str], *, tags: str) -> Sentence:
    rows = conll.rows_of(lines)
    given = tuple(row[TAG_COLUMNS[tags]] for row in conll.words_of(rows.values()))
    if rows and not given:
        raise ValueError("has no word")
    if given and set(given) == {"_"}:
        raise ValueError(f"no tags in the column {tags}, which the parser was trained on")
    return Sentence(lines, rows, given)


def parsed(experiment: Experiment, parts: Iterable[Sequence[Sentence]]) -> Iterator[str]:
    """Yield the text of each part's sentences with a run's heads and labels; raises as `trained` does."""
    rest = iter(parts)
    first = next(rest, [])  # its mistakes are told before there is work
    task, model = trained(experiment, Parsing)
    for sentences in itertools.chain([first], rest):
        fill(task, model, sentences)
        yield "".join(sentence.text() for sentence in sentences)


def fill(task: Parsing, model: nn.Module, sentences: Sequence[Sentence]) -> None:
    """Write the heads and labels that a model gives into the rows of sentences, and no enhanced ones."""
    sentences = [sentence for sentence in sentences if sentence.rows]
    words = [conll.words_of(sentence.rows.values()) for sentence in sentences]
    unparsed = []
    for sentence, rows in zip(sentences, words, strict=True):
        forms, count = tuple(row[FORM] for row in rows), len(rows)
        unparsed.append(Tree(forms, sentence.tags, (0,) * count, None, (False,) * count))
    for rows, (heads, labels) in zip(words, task.parse(model, unparsed), strict=True):
        for row, head, label in zip(rows, heads, labels, strict=True):
            row[HEAD], row[LABEL] = str(head), label
    for row in itertools.chain.from_iterable(sentence.rows.values() for sentence in sentences):
        row[DEPS] = "_"  # another parse's
