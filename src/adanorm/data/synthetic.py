"""Made-up data, equal on every machine: tiny and learnable, for scale=smoke and the tests.

Functions `full_size_*` give a few batches without meaning, with vocabularies and lengths as in the
paper.
"""

import numpy as np

from adanorm.config.data_sections import ParallelConfig

Rows = list[tuple[str, str, int]]
Sides = tuple[list[str], list[str]]
WORDS = 18_000  # vocabulary of full-size sentences and trees: about that of RT and the treebank
TAGS = 45


Numbers = np.typing.NDArray[np.float32]


def linear_map(count: int, *, inputs: int, outputs: int, noise: float) -> tuple[Numbers, Numbers]:
    """Return inputs (N, inputs) from N(0, 1) and targets (N, outputs), a linear map plus noise.

    The map's entries are from N(0, 1/inputs), so a target without noise has variance 1. The map is
    drawn first, so it does not depend on the number of examples.
    """
    draw = np.random.default_rng(0).standard_normal
    weights = draw((inputs, outputs)) / np.sqrt(inputs)
    x = draw((count, inputs))
    y = x @ weights
    y += noise * draw((count, outputs))
    return x.astype(np.float32), y.astype(np.float32)


def pairs() -> dict[str, Sides]:
    """Return sources and targets by split; each target translates its source word by word."""
    random = np.random.default_rng(0)
    splits = {}
    for split, count in {"train": 256, "valid": 32, "test": 32}.items():
        sources, targets = [], []
        for _ in range(count):
            words = random.integers(
                0,
                20,
                random.integers(3, 9),
            )
            sources.append(" ".join(f"word{word}" for word in words))
            targets.append(" ".join(f"wort{(word + 7) % 20}" for word in words))
        splits[split] = sources, targets
    return splits


def text(size: int = 6_000) -> bytes:
    """Return `size` bytes of words: each is the first or second after the last in a fixed cycle."""
    random = np.random.default_rng(0)
    words = [b"the", b"cat", b"sat", b"on", b"a", b"mat"]
    state, content = 0, bytearray()
    while len(content) < size:
        content += words[state] + b" "
        state = (state + int(random.integers(1, 3))) % len(words)
    return bytes(content[:size])


def sentences() -> dict[str, list[tuple[str, list[str]]]]:
    """Return labels and words by split: the label tells if "good" or "bad" is among the words."""
    splits = {}
    for seed, (split, count) in enumerate({"train": 160, "valid": 32, "test": 32}.items()):
        random = np.random.default_rng(seed)
        rows = []
        for index in range(count):
            numbers = random.integers(
                0,
                20,
                random.integers(3, 12),
            )
            words = [f"word{number}" for number in numbers]
            position = random.integers(len(words))
            words[position] = ("bad", "good")[index % 2]
            rows.append((str(index % 2), words))
        splits[split] = rows
    return splits


def trees() -> dict[str, list[Rows]]:
    """Return words, tags and heads by split: nouns depend on the verb, articles on the next noun."""
    random = np.random.default_rng(0)
    splits = {}
    for split, count in {"train": 128, "valid": 32, "test": 32}.items():
        splits[split] = [_tree(random) for _ in range(count)]
    return splits


def _tree(random: np.random.Generator) -> Rows:
    """Return a sentence of articles and nouns around a verb, with a full stop."""
    before, after = random.integers(1, 3, 2)
    articles = random.integers(0, 3, before + after)  # in front of each noun
    verb = 1 + int((1 + articles[:before]).sum())
    rows = []
    for index, count in enumerate(articles.tolist()):
        if index == before:
            rows.append((f"verb{random.integers(5)}", "VB", 0))
        noun = len(rows) + count + 1
        article = f"the{random.integers(3)}"
        rows += [(article, "DT", noun)] * count
        rows.append((f"noun{random.integers(9)}", "NN", verb))
    rows.append((".", ".", verb))
    return rows


def full_size_pairs(data: ParallelConfig) -> dict[str, Sides]:
    """Return sources and targets by split.

    On each side every word of a full-size dictionary occurs.
    """
    size = (data.dictionary_size or 1000) - 4  # fairseq's four special symbols count
    sources, targets = (
        _lines(
            2_500,
            size,
            seed=seed,
        )
        for seed in (0, 1)
    )
    bounds = {"valid": slice(0, 8), "test": slice(8, 12), "train": slice(12, None)}
    return {split: (sources[part], targets[part]) for split, part in bounds.items()}


def _lines(count: int, words: int, *, seed: int) -> list[str]:
    """Return lines of 10 to 60 words.

    Every word occurs if there are as many positions, else none twice.
    """
    random = np.random.default_rng(seed)
    lengths = random.integers(10, 61, count)
    numbers = random.integers(
        0,
        words,
        int(lengths.sum()),
    )
    order = random.permutation(words)[: len(numbers)]
    numbers[-len(order) :] = order
    texts = []
    for sentence in np.split(numbers, np.cumsum(lengths)[:-1]):
        texts.append(" ".join(f"w{word}" for word in sentence))
    return texts


def _splits() -> dict[str, list[list[str]]]:
    """Return words by split."""
    splits = {}
    for seed, (split, count) in enumerate({"train": 1_500, "valid": 32, "test": 32}.items()):
        lines = _lines(
            count,
            WORDS,
            seed=seed,
        )
        splits[split] = [*map(str.split, lines)]
    return splits


def full_size_sentences() -> dict[str, list[tuple[str, list[str]]]]:
    """Return labels (five classes) and words by split."""
    splits = {}
    for split, part in _splits().items():
        splits[split] = [(str(number % 5), words) for number, words in enumerate(part)]
    return splits


def full_size_trees() -> dict[str, list[Rows]]:
    """Return words, tags and heads by split: the head of each word is the word before it."""
    splits = {}
    for split, part in _splits().items():
        trees = []
        for words in part:
            tags = [f"T{int(word[1:]) % TAGS}" for word in words]
            rows = zip(
                words,
                tags,
                range(len(words)),
                strict=True,
            )
            trees.append([*rows])
        splits[split] = trees
    return splits
