"""Parse sentences in CoNLL-U (or CoNLL-X) with the weights of a run that was trained here.

Words and tags are read from their columns; heads and labels are written. Enhanced dependencies are
removed, since they would belong to another parse. All else stays as it is, to the byte. On a
terminal each sentence is parsed as soon as an empty line ends it.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from torch import nn

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.text_arguments import TEXT_KEYS, text_streams
from adanorm.config.data_sections import TreebankConfig
from adanorm.data.treebanks import conll
from adanorm.data.treebanks.conll import DEPS, FORM, HEAD, LABEL, TAG_COLUMNS
from adanorm.data.treebanks.trees import Tree
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.setup import trained_model
from adanorm.tasks.parsing import Parsing

EXAMPLE = "task=ptb scale=mini runs=runs input=a.conllu output=b.conllu"
USAGE = Usage(keys=TEXT_KEYS, settings="of the run", examples=(EXAMPLE,))


def main(arguments: Arguments) -> None:
    """Read sentences, write them with the heads and labels of a run's parser."""
    with text_streams(arguments, keeps_mark=True) as text:
        experiment = experiment_of(arguments.settings, kind="parsing", otherwise="does not parse")
        assert isinstance(experiment.data, TreebankConfig), "a parsing task reads trees"
        read_sentence = partial(sentence_of, tags=experiment.data.tags)
        parts = text.parts(conll.each_sentence(text.lines, text.name, read_sentence))
        task, model = trained_model(experiment, Parsing)
        for sentences in parts:
            fill(task, model, sentences)
            text.write("".join(sentence.text() for sentence in sentences))


class Sentence(NamedTuple):
    """The lines of a sentence as read, the columns of those that are no comments, and its tags."""

    lines: list[str]
    rows: dict[int, list[str]]  # by the index of the line
    tags: tuple[str, ...]

    def text(self) -> str:
        """Return the sentence's lines with the columns in `rows`; line endings stay as read."""
        lines = list(self.lines)
        for index, row in self.rows.items():
            lines[index] = "\t".join(row) + lines[index][len(lines[index].rstrip("\r\n")) :]
        return "".join(lines)


def sentence_of(lines: list[str], *, tags: str) -> Sentence:
    """Return the sentence; ValueError if it lacks CoNLL's ten columns, words, or tags in column `tags`."""
    rows = conll.rows_of(lines)
    word_tags = tuple(row[TAG_COLUMNS[tags]] for row in conll.words_of(rows.values()))
    if rows and not word_tags:
        raise ValueError("has no word")
    if word_tags and set(word_tags) == {"_"}:
        raise ValueError(f"no tags in the column {tags}, which the parser was trained on")
    return Sentence(lines, rows, word_tags)


def fill(task: Parsing, model: nn.Module, sentences: Sequence[Sentence]) -> None:
    """Write a model's heads and labels into the rows of sentences; clear their enhanced dependencies."""
    sentences = [sentence for sentence in sentences if sentence.rows]
    words = [conll.words_of(sentence.rows.values()) for sentence in sentences]
    unparsed = [
        Tree(
            tuple(row[FORM] for row in rows),
            sentence.tags,
            (0,) * len(rows),
            None,
            (False,) * len(rows),
        )
        for sentence, rows in zip(sentences, words, strict=True)
    ]
    for sentence, rows, (heads, labels) in zip(
        sentences, words, task.parse(model, unparsed), strict=True
    ):
        for row in sentence.rows.values():
            row[DEPS] = "_"  # these belong to another parse
        for row, head, label in zip(rows, heads, labels, strict=True):
            row[HEAD], row[LABEL] = str(head), label
