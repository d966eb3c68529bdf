"""Translate a text, one sentence per line, with the weights of a run that was trained here.

Each line gives one line of translation; on a terminal it comes at once. A sentence that is longer
than those of training is translated in parts.
"""

import re
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from adanorm.cli.command import Arguments, Usage
from adanorm.cli.text_arguments import TEXT_KEYS, text_streams
from adanorm.config.data_sections import ParallelConfig
from adanorm.data.examples import batches_within
from adanorm.runs.auto_scale import experiment_of
from adanorm.runs.setup import trained_model
from adanorm.tasks.translation import Translation

LONGEST_WORD = 100  # characters; byte pair encoding takes time with the square of a word's length
EXAMPLE = "task=de-en scale=mini runs=runs input=a.de output=a.en"
USAGE = Usage(keys=TEXT_KEYS, settings="of a run", examples=(EXAMPLE,))


def main(arguments: Arguments) -> None:
    """Read source sentences, write their translations as running text."""
    with text_streams(arguments) as text:
        experiment = experiment_of(
            arguments.settings, kind="translation", otherwise="does not translate"
        )
        assert isinstance(experiment.data, ParallelConfig), "a translation task reads pairs"
        assert experiment.decoding is not None, "translation has settings of decoding"
        # Time and memory grow with the square of the length: lines longer than those of training
        # are cut.
        longest = min(experiment.data.longest, experiment.decoding.batch_tokens)
        parts = text.parts(line.removesuffix("\n") for line in text.lines)
        task, model = trained_model(experiment, Translation)
        for lines in parts:
            pieces = [_pieces(task, line, longest) for line in lines]
            sources = [piece for line in pieces for piece in line]
            words = iter(_words_of(task, model, sources, experiment.decoding.batch_tokens))
            translations = (" ".join(next(words) for _ in line) for line in pieces)
            text.write("".join(f"{task.corpus.words[1].join(line)}\n" for line in translations))


def _pieces(task: Translation, line: str, longest: int) -> list[Tensor]:
    """Return the source ids (S,) of a line, with their end, in pieces of at most `longest` subwords."""
    words = re.sub(rf"\S{{{LONGEST_WORD}}}(?=\S)", r"\g<0> ", line)
    if not words.strip():
        return []
    ids = task.encode(words)
    return [torch.cat([piece, ids[-1:]]) for piece in torch.split(ids[:-1], longest)]


def _words_of(
    task: Translation, model: nn.Module, sources: Sequence[Tensor], tokens: int
) -> list[str]:
    """Return the words of each source's translation; sources of similar length are translated together."""
    words = [""] * len(sources)
    lengths = np.array([len(row) for row in sources], dtype=np.int64)
    for batch in batches_within(np.argsort(lengths, kind="stable"), lengths, tokens):
        indices: list[int] = batch.tolist()
        translations = task.translate(model, [sources[index] for index in indices])
        for index, text in zip(indices, translations, strict=True):
            words[index] = text
    return words
