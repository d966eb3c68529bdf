"""Translate a text with a trained model: `python -m adanorm.translate task=de-en norm=adanorm < text`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np

from adanorm import compose
from adanorm.config import Experiment, choices
from adanorm.data.corpora import lines_of
from adanorm.data.examples import batches_within
from adanorm.execution import choose_device, trained
from adanorm.scale import resolve_auto
from adanorm.tasks.translation import Translation

DESCRIPTION = """Translate a text, a sentence a line, with the weights of a run that was made here.

  python -m adanorm.translate task=de-en norm=adanorm scale=mini [KEY=VALUE ...]
                              [input=FILE] [output=FILE]

task, norm, scale, seed and the other keys name the run as `adanorm.run` does."""


def main() -> None:
    """Read source sentences, write their translations as running text."""
    overrides, source, output = _arguments(sys.argv[1:])
    with redirect_stdout(sys.stderr):  # what is said on the way is no translation
        experiment = compose.experiment(resolve_auto(compose.prepare(overrides)))
        if experiment.task.kind != "translation":
            raise ValueError(f"task={experiment.task.name} does not translate: choose from {_tasks()}")
        content = source.read_bytes() if source else sys.stdin.buffer.read()
        translations = translate(experiment, lines_of(content, str(source or "input")))
    text = "".join(f"{line}\n" for line in translations)
    if output:
        output.write_text(text)
    else:
        sys.stdout.write(text)


def _tasks() -> str:
    kinds = {task: compose.experiment([f"task={task}"]).task.kind for task in choices("task")}
    return ", ".join(task for task, kind in kinds.items() if kind == "translation")


def _arguments(arguments: Sequence[str]) -> tuple[list[str], Path | None, Path | None]:
    if "--help" in arguments or "-h" in arguments:
        print(DESCRIPTION)
        raise SystemExit(0)
    given, overrides = compose.own_keys(arguments, {"input": "", "output": ""})
    source, output = (Path(given[key]) if given[key] else None for key in ("input", "output"))
    if source is not None and not source.is_file():
        raise ValueError(f"input={source}: no such file")
    return overrides, source, output


def translate(experiment: Experiment, sentences: Sequence[str]) -> list[str]:
    """Return translations, running text, of sentences, in their order; an empty one stays empty.

    Raises ValueError where the run has no weights here.
    """
    assert experiment.decoding is not None, "translation has settings of decoding"
    task = Translation(experiment)
    model = trained(experiment, task, choose_device(experiment))
    sources = [task.encode(line) for line in sentences]
    translations = [""] * len(sentences)
    lengths = np.array([len(row) for row in sources], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    for batch in batches_within(order, lengths, experiment.decoding.batch_tokens):
        indices: list[int] = batch.tolist()
        found = task.translate(model, [sources[index] for index in indices])
        for index, words in zip(indices, found, strict=True):
            if sentences[index].strip():
                translations[index] = task.corpus.words[1].join(words)
    return translations


if __name__ == "__main__":
    compose.door(main)
