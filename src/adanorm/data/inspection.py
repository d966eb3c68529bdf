"""What the data alone say about a score: examples in two splits, copies, splits of one label."""

import hashlib
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from itertools import combinations
from typing import NamedTuple

import numpy as np

Counts = dict[str, dict[str, int]]
Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]
MANY_COPIES = 0.1  # of a split
LONGEST = 5000  # words of a sentence: attention and trees take time and memory by its square


def too_long(words: int) -> str | None:
    """Return why so many words are not read as one sentence, or None."""
    return f"{words:,} words: a sentence has at most {LONGEST:,}" if words > LONGEST else None


class Inspection(NamedTuple):
    """Counts for the record, and a line for each thing to know where the data are the user's own."""

    counts: Counts
    warnings: tuple[str, ...] = ()


def count_overlaps(splits: Mapping[str, Iterable[bytes]]) -> Counts:
    """Return how many examples, the bytes that a model sees, are in two splits or copies within one.

    Of the splits train, valid, test `overlap` has "valid in train", "test in train" and "test in valid".
    """
    return count_key_overlaps({split: keys_of(examples) for split, examples in splits.items()})


def count_key_overlaps(keys: Mapping[str, Keys]) -> Counts:
    """Return what `count_overlaps` does of the examples whose keys these are."""
    ordered = {split: np.sort(part) for split, part in keys.items()}
    return {
        "overlap": {
            f"{later} in {earlier}": int(np.isin(ordered[later], ordered[earlier]).sum())
            for earlier, later in combinations(ordered, 2)
        },
        "copies": {split: int((part[1:] == part[:-1]).sum()) for split, part in ordered.items()},
    }


def inspect_labeled(
    examples: Mapping[str, Iterable[bytes]],
    labels: Mapping[str, Sequence[Hashable]],
    *,
    what: str,
    available: int,
    batch: tuple[str, int],
) -> Inspection:
    """Return what labeled examples say.

    `available` is how much there is to train on, `batch` a setting that bounds a batch and its value.
    Raises ValueError for one label only in training, and for a label that training lacks.
    """
    known = set(labels["train"])
    if len(known) < 2:
        raise ValueError(f"the training {what} have one label, {labels['train'][0]!r}: nothing to learn")
    for split, part in labels.items():
        if unknown := sorted(set(part) - known, key=str):
            raise ValueError(f"{split}: label {unknown[0]!r} is not among those of the training {what}")
    counts = count_overlaps(examples)
    of_one_label = [
        f"{split}: every example has the label {part[0]!r}, so that one answer to all would score 100 %"
        for split, part in labels.items()
        if len(set(part)) == 1
    ]
    lines = [*overlap_warnings(counts, labels), *of_one_label, *_label_warnings(labels)]
    return Inspection(counts, (*lines, *batch_warnings(available, *batch)))


def _label_warnings(labels: Mapping[str, Sequence[Hashable]]) -> list[str]:
    """Return a line where labels look alike, and one where a label may be a header's."""
    looks: dict[str, list[str]] = {}
    for name in sorted({name for part in labels.values() for name in part if isinstance(name, str)}):
        plain = [c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf"]
        looks.setdefault("".join("".join(plain).casefold().split()), []).append(name)
    lines = [
        f"labels that look alike: {', '.join(map(ascii, names))}; each is a class of its own"
        for names in looks.values()
        if len(names) > 1
    ]
    first = labels["train"][0]
    headed = [split for split, part in labels.items() if part[0] == first]
    if isinstance(first, str) and sum(part.count(first) for part in labels.values()) == len(headed):
        lines.append(
            f"the label {first!r} stands in the first line alone ({', '.join(headed)}), and is a class now:"
            " if that line is a header, remove it"
        )
    return lines


def keys_of(examples: Iterable[bytes]) -> Keys:
    """Return a digest of 64 bits per example: two of millions that differ share theirs once in a million."""
    digests = b"".join(hashlib.blake2b(example, digest_size=8).digest() for example in examples)
    return np.frombuffer(digests, np.uint64)


def overlap_warnings(counts: Counts, splits: Mapping[str, Sized]) -> list[str]:
    """Return a line for examples that are in two splits, and one for splits with many copies."""
    lines = []
    shared = [
        f"{number:,} of {len(splits[pair.partition(' ')[0]]):,} of {pair.replace(' in ', ' are also in ')}"
        for pair, number in counts["overlap"].items()
        if number
    ]
    if shared:
        lines.append(f"examples in two splits: {', '.join(shared)}; a score on them measures memory")
    copied = [
        f"{number:,} of {len(splits[split]):,} in {split}"
        for split, number in counts["copies"].items()
        if number > MANY_COPIES * len(splits[split])
    ]
    if copied:
        lines.append(f"copies of other examples: {', '.join(copied)}")
    return lines


def batch_warnings(available: int, setting: str, size: int) -> list[str]:
    """Return a line where there is less to train on than a batch holds."""
    line = f"{setting}={size}: an epoch is one batch of {available:,}, all of train"
    return [] if available >= size else [line]
