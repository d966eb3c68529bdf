"""Translating sentences with a trained model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adanorm.config.experiment import Experiment
from adanorm.data.examples import batches_within
from adanorm.inference.weights import trained
from adanorm.tasks.translation import Translation


def translate_sentences(experiment: Experiment, sentences: Sequence[str]) -> list[str]:
    """Return translations, running text, of sentences, in their order; an empty one stays empty.

    Raises ValueError where the run has no weights here.
    """
    assert experiment.decoding is not None, "translation has settings of decoding"
    task, model = trained(experiment, Translation)
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
