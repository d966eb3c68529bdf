"""Made-up data in the shape of the paper's: their vocabularies and lengths, a few batches, no meaning."""

from __future__ import annotations

import numpy as np

from adanorm.config.data_sections import ByteTextConfig, ParallelConfig

Rows = list[tuple[str, str, int]]
WORDS = 18_000  # of the sentences' and the trees' vocabularies: what RT and the treebank have, about
TAGS = 45


def pairs(data: ParallelConfig) -> dict[str, tuple[list[str], list[str]]]:
    """Return sources and targets of each split, in which every word of a dictionary of full size occurs."""
    size = (data.dictionary_size or 1000) - 4  # fairseq's four special symbols count
    sources, targets = (_lines(2_500, size, seed=seed) for seed in (0, 1))
    bounds = {"valid": slice(0, 8), "test": slice(8, 12), "train": slice(12, None)}
    return {split: (sources[part], targets[part]) for split, part in bounds.items()}


def _lines(count: int, words: int, *, seed: int) -> list[str]:
    """Return lines of 10 to 60 words, in which every word occurs."""
    random = np.random.default_rng(seed)
    lengths = random.integers(10, 61, count)
    drawn = random.integers(0, words, int(lengths.sum()))
    order = random.permutation(words)[: len(drawn)]
    drawn[-len(order) :] = order
    return [" ".join(f"w{word}" for word in part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def text(data: ByteTextConfig) -> bytes:
    """Return bytes enough for the updates of a dry run on full segments of every stream."""
    count = int(3_072 * data.streams / data.fractions[0])
    return np.random.default_rng(0).integers(32, 127, count, dtype=np.uint8).tobytes()


def _splits() -> dict[str, list[str]]:
    sizes = {"train": 1_500, "valid": 32, "test": 32}
    return {split: _lines(size, WORDS, seed=seed) for seed, (split, size) in enumerate(sizes.items())}


def sentences() -> dict[str, list[tuple[str, list[str]]]]:
    """Return labels, five of them, and words of each split."""
    return {
        split: [(str(index % 5), line.split()) for index, line in enumerate(lines)]
        for split, lines in _splits().items()
    }


def trees() -> dict[str, list[Rows]]:
    """Return words, tags and heads of each split: every word's head is the one before it."""
    return {
        split: [
            [(word, f"T{int(word[1:]) % TAGS}", head) for head, word in enumerate(line.split())]
            for line in lines
        ]
        for split, lines in _splits().items()
    }
