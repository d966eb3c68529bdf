"""Parse sentences with a trained parser: `python -m adanorm.parse task=ptb norm=adanorm input=a.conllu`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from conllu import TokenList

from adanorm import compose
from adanorm.config import Experiment
from adanorm.data import treebanks
from adanorm.data.trees import Tree
from adanorm.data_sections import Treebank
from adanorm.execution import choose_device, trained
from adanorm.scale import resolve_auto
from adanorm.tasks.parsing import Parsing

DESCRIPTION = """Parse sentences in CoNLL-U (or CoNLL-X) with the weights of a run that was made here.

  python -m adanorm.parse task=ptb norm=adanorm scale=mini [KEY=VALUE ...]
                          [input=FILE] [output=FILE]

Words and tags are read from their columns; heads and labels are written, all else stays as it
is. task, norm, scale, seed and the other keys name the run as `adanorm.run` does."""


def main() -> None:
    """Read sentences, write them with the heads and labels of a run's parser."""
    if {"--help", "-h"} & {*sys.argv[1:]}:
        print(DESCRIPTION)
        return
    given, overrides = compose.own_keys(sys.argv[1:], {"input": "", "output": ""})
    source = Path(given["input"]) if given["input"] else None
    if source is not None and not source.is_file():
        raise ValueError(f"input={source}: no such file")
    with redirect_stdout(sys.stderr):  # what is said on the way is no parse
        experiment = compose.experiment(resolve_auto(compose.prepare(overrides)))
        if not isinstance(experiment.data, Treebank):
            raise ValueError(f"task={experiment.task.name} does not parse: choose ptb")
        content = source.read_bytes() if source else sys.stdin.buffer.read()
        sentences = read(content, str(source or "input"), experiment.data.tags)
        parse(experiment, sentences)
    text = "".join(sentence.serialize() for sentence in sentences)
    if given["output"]:
        Path(given["output"]).write_text(text)
    else:
        sys.stdout.write(text)


def read(content: bytes, name: str, tags: str) -> list[TokenList]:
    """Return the sentences of a text in CoNLL's ten columns.

    Raises ValueError naming file and sentence where they are not, or where one has no tags in the
    column `tags`.
    """

    def sentence(lines: str) -> TokenList:
        made = treebanks.sentence(lines)
        words = list(treebanks.words_of(made))
        if not words or any(tags not in word for word in words):
            raise ValueError("CoNLL has ten columns a word")
        if all(word[tags] == "_" for word in words):
            raise ValueError(f"no tags in the column {tags}, which the parser was trained on")
        return made

    return treebanks.each_sentence(content, name, sentence)


def parse(experiment: Experiment, sentences: Sequence[TokenList]) -> None:
    """Write heads and labels into sentences; raises ValueError where the run has no weights here."""
    assert isinstance(experiment.data, Treebank), "asked of parsers only"
    task = Parsing(experiment)
    model = trained(experiment, task, choose_device(experiment))
    words = [list(treebanks.words_of(sentence)) for sentence in sentences]
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


if __name__ == "__main__":
    compose.door(main)
