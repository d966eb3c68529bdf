"""What the data alone reveal about a score: examples in two splits, copies, splits with one label."""

import hashlib
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from itertools import combinations
from typing import NamedTuple

import numpy as np

Counts = dict[str, dict[str, int]]
Labels = Mapping[str, Sequence[Hashable]]  # by split, one per example
Keys = np.ndarray[tuple[int], np.dtype[np.uint64]]
MANY_COPIES = 0.1  # share of a split: more copies give a warning
LONGEST = 5000  # words of a sentence: attention and trees take quadratic time and memory


def too_long(words: int) -> str | None:
    """Return a problem if a sentence of so many words is too long, else None."""
    return f"{words:,} words: a sentence has at most {LONGEST:,}" if words > LONGEST else None


class Inspection(NamedTuple):
    """Counts for the record, and one line per warning to users with their own data."""

    counts: Counts
    warnings: tuple[str, ...] = ()


def count_overlaps(splits: Mapping[str, Iterable[bytes]]) -> Counts:
    """Return `count_key_overlaps` of the examples' keys; an example is the bytes that a model sees."""
    return count_key_overlaps({split: keys_of(examples) for split, examples in splits.items()})


def count_key_overlaps(keys: Mapping[str, Keys]) -> Counts:
    """Return how many examples an earlier split has too (`overlap`) or their own split repeats (`copies`)."""
    ordered = {split: np.sort(part) for split, part in keys.items()}
    return {
        "overlap": {
            f"{later} in {earlier}": int(np.isin(ordered[later], ordered[earlier]).sum())
            for earlier, later in combinations(ordered, 2)
        },
        "copies": {split: int((part[1:] == part[:-1]).sum()) for split, part in ordered.items()},
    }


def inspect_labeled(
    examples: Mapping[str, Iterable[bytes]], labels: Labels, *, kind: str, others: Sequence[str]
) -> Inspection:
    """Return counts and warnings on labeled examples, then `others`; `kind` names the examples in messages.

    Raises ValueError where training has only one label, or lacks a label of another split.
    """
    train_labels = set(labels["train"])
    if len(train_labels) < 2:
        raise ValueError(
            f"the training {kind} have one label, {labels['train'][0]!r}: nothing to learn"
        )
    for split, part in labels.items():
        if unknown := sorted(set(part) - train_labels, key=str):
            raise ValueError(
                f"{split}: label {unknown[0]!r} is not among those of the training {kind}"
            )
    counts = count_overlaps(examples)
    one_label = [
        f"{split}: every example has the label {part[0]!r}, so that one answer to all would score 100 %"
        for split, part in labels.items()
        if len(set(part)) == 1
    ]
    warnings = (*overlap_warnings(counts, labels), *one_label, *_label_warnings(labels), *others)
    return Inspection(counts, warnings)


def _label_warnings(labels: Labels) -> list[str]:
    """Return warnings of labels that look alike, and of a label that may be a header."""
    names_by_look: dict[str, list[str]] = {}
    for name in sorted(
        {name for part in labels.values() for name in part if isinstance(name, str)}
    ):
        plain = [c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf"]
        names_by_look.setdefault("".join("".join(plain).casefold().split()), []).append(name)
    lines = [
        f"labels that look alike: {', '.join(map(ascii, names))}; each is a class of its own"
        for names in names_by_look.values()
        if len(names) > 1
    ]
    first = labels["train"][0]
    splits = [split for split, part in labels.items() if part[0] == first]
    if isinstance(first, str) and sum(part.count(first) for part in labels.values()) == len(splits):
        lines.append(
            f"the label {first!r} stands in the first line alone ({', '.join(splits)}), and is a class now:"
            " if that line is a header, remove it"
        )
    return lines


def keys_of(examples: Iterable[bytes]) -> Keys:
    """Return a 64-bit digest per example, (N,); a few million collide with a chance of 1 in a million."""
    digests = b"".join(hashlib.blake2b(example, digest_size=8).digest() for example in examples)
    return np.frombuffer(digests, np.uint64)


def overlap_warnings(counts: Counts, splits: Mapping[str, Sized]) -> list[str]:
    """Return a warning of examples in two splits, and one of splits with many copies."""
    lines = []
    overlaps = [
        f"{number:,} of {len(splits[pair.partition(' ')[0]]):,} of {pair.replace(' in ', ' are also in ')}"
        for pair, number in counts["overlap"].items()
        if number
    ]
    if overlaps:
        lines.append(
            f"examples in two splits: {', '.join(overlaps)}; a score on them measures memory"
        )
    copies = [
        f"{number:,} of {len(splits[split]):,} in {split}"
        for split, number in counts["copies"].items()
        if number > MANY_COPIES * len(splits[split])
    ]
    if copies:
        lines.append(f"copies of other examples: {', '.join(copies)}")
    return lines


def batch_warnings(available: int, setting: str, size: int) -> list[str]:
    """Return a warning if there are fewer training data than a batch can hold, else no warning."""
    line = f"{setting}={size}: an epoch is one batch of {available:,}, all of train"
    return [] if available >= size else [line]
