"""Parse sentences in CoNLL-U (or CoNLL-X) with the weights of a run that was trained here.

Words and tags are read from their columns; heads and labels are written, and no enhanced
dependencies, which would be another parse's. All else stays as it is, to the byte. On a terminal
a sentence is answered at once, when an empty line ends it.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.text_arguments import TEXT_KEYS, text_streams
from adanorm.config.data_sections import TreebankConfig
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.parse import each_sentence, parsed

USAGE = Usage(
    keys=TEXT_KEYS,
    settings="of the run",
    examples=("task=ptb scale=mini runs=runs input=a.conllu output=b.conllu",),
)


def main(arguments: Arguments) -> None:
    """Read sentences, write them with the heads and labels of a run's parser."""
    with (
        text_streams(arguments, keeps_mark=True) as text,
        redirect_stdout(sys.stderr),
    ):  # what is said is no parse
        experiment = experiment_of(arguments.settings, kind="parsing", otherwise="does not parse")
        assert isinstance(experiment.data, TreebankConfig), "of the kind of task"
        sentences = each_sentence(text.lines, text.name, experiment.data.tags)
        for part in parsed(experiment, text.parts(sentences)):
            text.write(part)
