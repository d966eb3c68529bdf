"""What data alone show: frequent entries, examples in two splits, copies, splits with one label.

It needs no torch: processes that prepare a corpus start without it.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from adanorm.process import is_first_process

Counts = dict[str, dict[str, int]]
Labels = Mapping[str, Sequence[Hashable]]  # by split, one per example
Example = TypeVar("Example")
Keys = np.typing.NDArray[np.uint64]
MANY_COPIES = 0.1  # share of a split: more copies give a warning
LONGEST = 5000  # words of a sentence: attention and trees take quadratic time and memory


class Inspection(NamedTuple):
    """Counts for the record, and one line per warning to users with their own data."""

    counts: Counts
    warnings: tuple[str, ...] = ()


def frequent(entries: Iterable[str], min_count: int) -> tuple[str, ...]:
    """Return the entries that occur `min_count` times or more, by falling count, then by name.

    Of a Counter the counts are its own.
    """
    ordered = sorted(Counter(entries).items(), key=lambda item: (-item[1], item[0]))
    return tuple(entry for entry, count in ordered if count >= min_count)


def too_long(words: int) -> str | None:
    """Return a problem if a sentence of so many words is too long, else None."""
    return f"{words:,} words: a sentence has at most {LONGEST:,}" if words > LONGEST else None


def count_overlaps(splits: Mapping[str, Iterable[bytes]]) -> Counts:
    """Return `count_key_overlaps` of the examples' keys.

    An example is the bytes that a model sees.
    """
    return count_key_overlaps({split: keys_of(examples) for split, examples in splits.items()})


def count_key_overlaps(keys: Mapping[str, Keys]) -> Counts:
    """Return how many examples are in an earlier split too (`overlap`) or repeated (`copies`)."""
    overlap, copies = {}, {}
    for earlier, later in combinations(keys, 2):
        is_earlier = np.isin(keys[later], keys[earlier])
        overlap[f"{later} in {earlier}"] = int(is_earlier.sum())
    for split, part in keys.items():
        copies[split] = len(part) - len(np.unique(part))
    return {"overlap": overlap, "copies": copies}


def inspect_labeled(
    examples: Mapping[str, Iterable[bytes]], labels: Labels, *, kind: str, remarks: Sequence[str]
) -> Inspection:
    """Return counts and warnings on labeled examples, then `remarks`; `kind` names the examples.

    Raises ValueError where training has only one label, or lacks a label of another split.
    """
    train_labels = set(labels["train"])
    if len(train_labels) < 2:
        raise ValueError(
            f"the training {kind} have one label, {labels['train'][0]!r}: nothing to learn"
        )
    for split, part in labels.items():
        unknown = sorted(set(part) - train_labels, key=str)
        if unknown:
            raise ValueError(
                f"{split}: label {unknown[0]!r} is not among those of the training {kind}"
            )
    counts = count_overlaps(examples)
    warnings = overlap_warnings(counts, labels)
    for split, part in labels.items():
        if len(set(part)) == 1:
            warnings.append(
                f"{split}: every example has the label {part[0]!r}, so that one answer to all"
                " would score 100 %"
            )
    return Inspection(counts, (*warnings, *_label_warnings(labels), *remarks))


def _label_warnings(labels: Labels) -> list[str]:
    """Return warnings of labels that look alike, and of a label that may be a header."""
    names = {name for part in labels.values() for name in part if isinstance(name, str)}
    names_by_plain: dict[str, list[str]] = {}
    for name in sorted(names):
        names_by_plain.setdefault(_plain(name), []).append(name)
    lines = []
    for alike in names_by_plain.values():
        if len(alike) > 1:
            written = ", ".join(map(ascii, alike))
            lines.append(f"labels that look alike: {written}; each is a class of its own")
    first = labels["train"][0]
    splits = [split for split, part in labels.items() if part[0] == first]
    count = sum(part.count(first) for part in labels.values())
    if isinstance(first, str) and count == len(splits):
        lines.append(
            f"the label {first!r} stands in the first line alone ({', '.join(splits)}), and is a"
            " class now: if that line is a header, remove it"
        )
    return lines


def _plain(name: str) -> str:
    """Return a name without white space, case and characters that cannot be seen."""
    normal = unicodedata.normalize("NFKC", name)
    visible = [c for c in normal if unicodedata.category(c) != "Cf"]
    return "".join("".join(visible).casefold().split())


def folded(sentence: str) -> str:
    """Return a sentence without case, punctuation and white space: what a copy has in common."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFC", sentence).casefold())


def without_copies(
    name: str,
    splits: Mapping[str, Sequence[Example]],
    sentences: Callable[[Example], Sequence[str]],
) -> dict[str, list[Example]]:
    """Return the splits without the examples that share a folded sentence with a later split.

    Prints how many are left out.
    """
    kept: dict[str, list[Example]] = {}
    later: set[str] = set()
    for split in reversed([*splits]):
        kept[split] = []
        sentences_of_split = set()
        for example in splits[split]:
            folds = {*map(folded, sentences(example))}
            if folds.isdisjoint(later):
                kept[split].append(example)
            sentences_of_split |= folds
        later |= sentences_of_split
    remarks = []
    for split, examples in splits.items():
        dropped = len(examples) - len(kept[split])
        if dropped:
            remarks.append(f"{dropped:,} of {len(examples):,} in {split}")
    if remarks and is_first_process():
        left_out = f"{name}: left out, as a later split has the same sentence"
        print(f"{left_out}: {', '.join(remarks)}", flush=True)
    return {split: kept[split] for split in splits}


def keys_of(examples: Iterable[bytes]) -> Keys:
    """Return a 64-bit digest per example, (N,).

    A few million collide with a chance of 1 in a million.
    """
    digests = b"".join(hashlib.blake2b(example, digest_size=8).digest() for example in examples)
    return np.frombuffer(digests, np.uint64)


def overlap_warnings(counts: Counts, splits: Mapping[str, Sized]) -> list[str]:
    """Return a warning of examples in two splits, and one of splits with many copies."""
    overlaps, copies = [], []
    for pair, number in counts["overlap"].items():
        later, _, earlier = pair.partition(" in ")
        if number:
            size = len(splits[later])
            overlaps.append(f"{number:,} of {size:,} of {later} are also in {earlier}")
    for split, number in counts["copies"].items():
        size = len(splits[split])
        if number > MANY_COPIES * size:
            copies.append(f"{number:,} of {size:,} in {split}")
    lines = []
    if overlaps:
        lines.append(
            f"examples in two splits: {', '.join(overlaps)}; a score on them measures memory"
        )
    if copies:
        lines.append(f"copies of other examples: {', '.join(copies)}")
    return lines


def batch_warnings(available: int, setting: str, size: int) -> list[str]:
    """Return a warning if there are fewer training data than a batch can hold, else no warning."""
    line = f"{setting}={size}: an epoch is one batch of {available:,}, all of train"
    return [] if available >= size else [line]
