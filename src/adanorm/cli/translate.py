"""Translate a text, a sentence a line, with the weights of a run that was trained here."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.text_arguments import TEXT_KEYS, source_of
from adanorm.config.compose_cache import tasks_of_kind
from adanorm.data.translation.corpora import lines_of
from adanorm.inference.translate import translate_sentences
from adanorm.runs.auto_scale import experiment_of

USAGE = Usage(
    keys=TEXT_KEYS,
    settings="of the run",
    examples=("task=de-en norm=adanorm scale=mini runs=runs input=a.de output=a.en",),
)


def main(arguments: Arguments) -> None:
    """Read source sentences, write their translations as running text."""
    source, output = source_of(arguments), arguments.keys["output"]
    with redirect_stdout(sys.stderr):  # progress is no translation
        experiment = experiment_of(arguments.settings)
        if experiment.task.kind != "translation":
            known = ", ".join(tasks_of_kind("translation"))
            raise ValueError(f"task={experiment.task.name} does not translate: choose from {known}")
        content = source.read_bytes() if source else sys.stdin.buffer.read()
        translations = translate_sentences(experiment, lines_of(content, str(source or "input")))
    text = "".join(f"{line}\n" for line in translations)
    if output:
        Path(output).write_text(text)
    else:
        sys.stdout.write(text)
