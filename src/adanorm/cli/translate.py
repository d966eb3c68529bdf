"""Translate a text, a sentence a line, with the weights of a run that was trained here.

A line answers a line, on a terminal at once. What is longer than the sentences of training is
translated in parts.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.text_arguments import TEXT_KEYS, text_streams
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.translate import translated

USAGE = Usage(
    keys=TEXT_KEYS,
    settings="of the run",
    examples=("task=de-en scale=mini runs=runs input=a.de output=a.en",),
)


def main(arguments: Arguments) -> None:
    """Read source sentences, write their translations as running text."""
    with text_streams(arguments) as text, redirect_stdout(sys.stderr):  # what is said is no translation
        experiment = experiment_of(arguments.settings, kind="translation", otherwise="does not translate")
        for lines in translated(experiment, text.parts(line.removesuffix("\n") for line in text.lines)):
            text.write("".join(f"{line}\n" for line in lines))
