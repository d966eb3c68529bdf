"""Parse sentences in CoNLL-U (or CoNLL-X) with the weights of a run that was trained here.

Words and tags are read from their columns; heads and labels are written, all else stays as it is.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.text_arguments import TEXT_KEYS, source_of
from adanorm.config.compose_cache import tasks_of_kind
from adanorm.config.data_sections import Treebank
from adanorm.inference.parse import parse_sentences, read_sentences
from adanorm.runs.auto_scale import experiment_of

USAGE = Usage(
    keys=TEXT_KEYS,
    settings="of the run",
    examples=("task=ptb norm=adanorm scale=mini runs=runs input=a.conllu output=b.conllu",),
)


def main(arguments: Arguments) -> None:
    """Read sentences, write them with the heads and labels of a run's parser."""
    source, output = source_of(arguments), arguments.keys["output"]
    with redirect_stdout(sys.stderr):  # progress is no parse
        experiment = experiment_of(arguments.settings)
        if not isinstance(experiment.data, Treebank):
            known = ", ".join(tasks_of_kind("parsing"))
            raise ValueError(f"task={experiment.task.name} does not parse: choose from {known}")
        content = source.read_bytes() if source else sys.stdin.buffer.read()
        sentences = read_sentences(content, str(source or "input"), experiment.data.tags)
        parse_sentences(experiment, sentences)
    text = "".join(sentence.serialize() for sentence in sentences)
    if output:
        Path(output).write_text(text)
    else:
        sys.stdout.write(text)
