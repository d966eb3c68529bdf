"""Corpora that anyone may download, as their files have them, in splits that share no sentence."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from itertools import chain
from pathlib import Path

from adanorm.data import packed
from adanorm.data.inspection import folded, without_copies

HELD_OUT = 2000  # pairs of validation, and of the test
TALKS = ("en", "vi")
DEV, TEST = "dev-2012-en-vi.tgz", "test-2013-en-vi.tgz"
# The files of the training pairs, each with the plain text of the same lines.
TALKS_TRAIN = {
    "train-first30k.en.gz": "src-train.txt",
    "train-first30k.vi.gz": "tgt-train.txt",
}
OF_TALKS = (*TALKS_TRAIN, *TALKS_TRAIN.values(), DEV, TEST)
Pair = tuple[str, str]


def tatoeba(paths: Mapping[str, Path]) -> dict[str, list[Pair]]:
    """Return Tatoeba's English and German sentences by split.

    A sentence has several translations, so pairs that share a sentence on either side are a group,
    and no group is in two splits. Of a group in validation or test one pair is kept.
    """
    members, _ = packed.zip_members(paths["deu-eng.zip"], ["deu.txt"])
    pairs = []
    for line in packed.text_lines(members["deu.txt"], "deu.txt"):
        english, german, *_ = line.rstrip("\r\n").split("\t")
        pairs.append((english, german))
    return split_by_groups(pairs, HELD_OUT)


def split_by_groups(pairs: Sequence[Pair], held_out: int) -> dict[str, list[Pair]]:
    """Return pairs by split: `held_out` groups, a pair of each, for validation and for the test.

    Groups are in the order of the digest of their first pair, so the split depends on nothing but
    the text.
    """
    groups = groups_of(pairs)
    ordered = sorted(groups, key=lambda group: _digest(pairs[group[0]]))
    firsts = [group[0] for group in ordered]
    train = sorted(chain.from_iterable(ordered[2 * held_out :]))
    by_split = {
        "train": train,
        "valid": sorted(firsts[held_out : 2 * held_out]),
        "test": sorted(firsts[:held_out]),
    }
    return {split: [pairs[index] for index in indices] for split, indices in by_split.items()}


def groups_of(pairs: Sequence[Pair]) -> list[list[int]]:
    """Return the indices of pairs by group: two pairs with a folded sentence in common are in one."""
    parents = [*range(len(pairs))]

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    firsts: dict[tuple[int, str], int] = {}
    for index, pair in enumerate(pairs):
        for side, sentence in enumerate(pair):
            first = firsts.setdefault((side, folded(sentence)), index)
            parents[root(index)] = root(first)
    groups = defaultdict(list)
    for index in range(len(pairs)):
        groups[root(index)].append(index)
    return [*groups.values()]


def _digest(pair: Pair) -> bytes:
    return hashlib.sha256("\t".join(pair).encode()).digest()


def talks_and_news(paths: Mapping[str, Path]) -> dict[str, list[Pair]]:
    """Return English and Vietnamese: TED talks and, in training, the Asian Language Treebank too.

    The treebank's sentences become words as Moses splits them, with its entities for apostrophes
    and quotes, as in the talks of validation (tst2012) and test (tst2013).
    """
    talks = []
    for pair in pairs_of(paths[name_in(paths, name)] for name in TALKS_TRAIN):
        english, vietnamese = (line.rstrip("\r") for line in pair)
        talks.append((english, vietnamese))
    news = pairs_of(paths[name] for name in paths if name not in OF_TALKS)
    splits = {
        "train": [*talks, *_tokenized(news)],
        "valid": _talks_of(paths[DEV], "tst2012"),
        "test": _talks_of(paths[TEST], "tst2013"),
    }
    return without_copies("en-vi-50k", splits, sides_of)


def name_in(paths: Mapping[str, Path], name: str) -> str:
    """Return the name of a file, or of the plain text of the same lines if that is there instead."""
    return name if name in paths else TALKS_TRAIN[name]


def _talks_of(archive: Path, name: str) -> list[Pair]:
    """Return the pairs of an archive's two files of this name, one per language."""
    members = [f"{name}.{language}" for language in TALKS]
    texts, _ = packed.tar_members(archive, members)
    english, vietnamese = (packed.text_lines(texts[member], member) for member in members)
    return [*zip(english, vietnamese, strict=True)]


def _tokenized(pairs: Sequence[Pair]) -> Iterator[Pair]:
    import sacremoses

    english, vietnamese = (sacremoses.MosesTokenizer(language) for language in TALKS)
    for first, second in pairs:
        yield (
            english.tokenize(first, return_str=True),
            vietnamese.tokenize(second, return_str=True),
        )


def sides_of(pair: Pair) -> list[str]:
    """Return the two sentences, each with its side, so that a side is compared with its like.

    Entities such as `&apos;`, which Moses leaves in texts, are read: else their letters would count.
    """
    return [f"{side}{unescape(sentence)}" for side, sentence in enumerate(pair)]


def pairs_of(paths: Iterable[Path]) -> list[Pair]:
    """Return the pairs of two files with aligned lines."""
    sides = []
    for path in paths:
        content, _ = packed.content(path)
        sides.append(packed.text_lines(content, path.name))
    first, second = sides
    return [*zip(first, second, strict=True)]
