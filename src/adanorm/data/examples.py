"""Examples in memory, their batches, and what they alone reveal about a score.

That is: examples in two splits, copies, splits with one label.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from adanorm.process import is_first_process

Indices = np.typing.NDArray[np.int64]
Counts = dict[str, dict[str, int]]
Labels = Mapping[str, Sequence[Hashable]]  # by split, one per example
Example = TypeVar("Example")
Keys = np.typing.NDArray[np.uint64]
MANY_COPIES = 0.1  # share of a split: more copies give a warning
LONGEST = 5000  # words of a sentence: attention and trees take quadratic time and memory


class Part(NamedTuple):
    """The rows rank, rank + world, ... of a batch of `size` rows, as one process computes them."""

    rank: int = 0
    world: int = 1
    size: int = 0

    @property
    def rows(self) -> slice:
        """The index of these rows in the whole batch."""
        return slice(self.rank, None, self.world)


WHOLE = Part()


class Movable:
    """A mix-in for dataclasses whose tensors move to a device together."""

    units: int  # of the loss: examples, subwords or bytes
    part: Part  # which rows of a batch these are

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}

    def moved(self, move: Callable[[Tensor], Tensor]) -> Self:
        """Return a copy with `move` applied to each tensor."""
        moved = {name: move(tensor) for name, tensor in self.tensors().items()}
        return replace(self, **moved)  # type: ignore[type-var]

    def to(self, device: torch.device) -> Self:
        """Return a copy on a device."""
        return self.moved(lambda tensor: tensor.to(device, non_blocking=True))

    def with_rounded_rows(self) -> Self:
        """Return a batch of the same loss whose shape occurs more often; here the batch itself."""
        return self


@dataclass(frozen=True)
class Batch(Movable):
    """Inputs (B, ...), which are images, features or token ids padded with 0, and targets (B,)."""

    inputs: Tensor
    targets: Tensor
    part: Part = WHOLE

    @property
    def units(self) -> int:  # type: ignore[override]
        """The number of targets."""
        return self.targets.numel()


@dataclass(frozen=True)
class ArrayExamples:
    """Inputs of equal shape (N, ...), such as images, with targets (N,).

    `moments` are a mean and a standard deviation, (C, 1, 1) or (1, 1, 1), for inputs kept as bytes,
    a quarter of the memory: a batch has (pixel / 255 - mean) / deviation.
    """

    inputs: Tensor
    targets: Tensor
    batch_size: int
    moments: tuple[Tensor, Tensor] | None = None

    def __len__(self) -> int:
        return len(self.targets)

    def order(self, random: np.random.Generator | None) -> list[Indices]:
        """Return the indices of each batch's examples, shuffled if a generator is given."""
        indices = np.arange(len(self)) if random is None else random.permutation(len(self))
        return [
            indices[start : start + self.batch_size]
            for start in range(
                0,
                len(self),
                self.batch_size,
            )
        ]

    def batch(self, indices: Indices, part: Part = WHOLE) -> Batch:
        """Return a part of these examples' batch."""
        chosen = torch.from_numpy(indices[part.rows])
        inputs = self.inputs.index_select(0, chosen)
        if self.moments is not None:
            mean, std = self.moments
            inputs = inputs.float().div_(255).sub_(mean).div_(std)
        return Batch(inputs, self.targets.index_select(0, chosen), part)


@dataclass(frozen=True)
class TextExamples:
    """Sentences as arrays of token ids, with targets (N,).

    A padded batch has at most `batch_tokens`.
    """

    sentences: Sequence[Indices]
    targets: Tensor
    batch_tokens: int

    def __len__(self) -> int:
        return len(self.targets)

    def order(self, random: np.random.Generator | None) -> list[Indices]:
        """Return the indices of each batch's examples, of similar lengths.

        A generator shuffles them.
        """
        lengths = np.array([len(sentence) for sentence in self.sentences])
        indices = np.arange(len(self)) if random is None else random.permutation(len(self))
        indices = indices[np.argsort(lengths[indices], kind="stable")]
        batches = batches_within(indices, lengths, self.batch_tokens)
        if random is not None:
            random.shuffle(batches)
        return batches

    def batch(self, indices: Indices, part: Part = WHOLE) -> Batch:
        """Return a part of these examples' batch, padded with 0 to the batch's longest sentence."""
        lengths = [len(self.sentences[int(index)]) for index in indices]
        width = max(lengths, default=1)
        chosen = indices[part.rows]
        padded = torch.zeros(len(chosen), width, dtype=torch.long)
        for row, index in zip(padded, chosen, strict=True):
            sentence = self.sentences[int(index)]
            row[: len(sentence)] = torch.from_numpy(sentence)
        targets = self.targets[torch.from_numpy(chosen)]
        return Batch(padded, targets, part)


def batches_within(
    indices: Indices, sizes: Indices, tokens: int, *, multiple: int = 1
) -> list[Indices]:
    """Return `indices` cut into batches, as long as possible with count x largest size <= `tokens`.

    An example whose size is over `tokens` is a batch alone. A full batch of more than `multiple`
    examples is shortened to a multiple of that.
    """
    batches = []
    start = width = 0
    for end, size in enumerate(sizes[indices].tolist()):
        while end > start and (end - start + 1) * max(width, size) > tokens:
            count = end - start
            stop = end - count % multiple if count > multiple else end
            batches.append(indices[start:stop])
            width = int(sizes[indices[stop:end]].max(initial=0))
            start = stop
        width = max(width, size)
    return [*batches, indices[start:]] if start < len(indices) else batches


def drawn_by_label(labels: Any, count: int) -> Indices:
    """Return `count` indices of labels (N,) in rising order, drawn by a fixed seed in each label alike.

    Each label has its share of them, and at least one if there are as many indices as labels.
    """
    random = np.random.default_rng(0)
    indices_of: dict[Any, list[int]] = {}
    for index in random.permutation(len(labels)).tolist():
        indices_of.setdefault(labels[index], []).append(index)
    # The k-th of n examples of a label is at k / n of its label; the first are taken before all.
    rank = np.empty(len(labels))
    for indices in indices_of.values():
        steps = np.arange(len(indices)) + random.random()
        rank[indices] = steps / len(indices)
        rank[indices[0]] -= 1
    order: Indices = np.argsort(rank, kind="stable")
    return np.sort(order[:count])


def frequent(entries: Iterable[str], min_count: int) -> tuple[str, ...]:
    """Return the entries that occur `min_count` times or more, by falling count, then by name.

    Of a Counter the counts are its own.
    """
    ordered = sorted(Counter(entries).items(), key=lambda item: (-item[1], item[0]))
    return tuple(entry for entry, count in ordered if count >= min_count)


LabelledExamples = ArrayExamples | TextExamples


@dataclass(frozen=True)
class Batches:
    """The batches of one pass over examples, each made when it is needed."""

    batch: Callable[[Indices, Part], Any]  # makes part of the batch of examples with indices
    order: Sequence[Indices]

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Any]:
        return map(self.part, range(len(self)))

    def part(self, index: int, rank: int = 0, world: int = 1) -> Any:
        """Return examples rank, rank + world, ... of a batch, perhaps none.

        The others are not read.
        """
        indices = self.order[index]
        return self.batch(indices, Part(rank, world, len(indices)))


class Inspection(NamedTuple):
    """Counts for the record, and one line per warning to users with their own data."""

    counts: Counts
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Splits:
    """Examples by split, names of labels, checksums of files and what inspecting the data showed."""

    examples: Mapping[str, LabelledExamples]
    labels: tuple[str, ...]
    checksums: dict[str, str]
    inspection: Inspection
    vocabulary: tuple[str, ...] = ()

    def __getitem__(self, split: str) -> LabelledExamples:
        return self.examples[split]


def with_label_noise(splits: Splits, share: float, seed: int) -> Splits:
    """Return splits with a share of wrong training labels: another class, each equally likely.

    The seed alone decides which labels; a larger share includes those of a smaller one. Raises
    ValueError where the share rounds to no example.
    """
    train, classes = splits["train"], len(splits.labels)
    random = np.random.default_rng((seed, 0, 1))  # no stream of an epoch: those are (seed, epoch)
    chosen = random.permutation(len(train))[: round(share * len(train))]
    if not len(chosen):
        raise ValueError(
            f"data.label_noise={share}: rounds to none of {len(train)} training examples"
        )
    steps = torch.from_numpy(
        random.integers(
            1,
            classes,
            len(train),
        )
    )[chosen]
    targets = train.targets.clone()
    targets[chosen] = (targets[chosen] + steps) % classes
    counts = {**splits.inspection.counts, "wrong labels": {"train": len(chosen)}}
    inspection = splits.inspection._replace(counts=counts)
    noisy = {**splits.examples, "train": replace(train, targets=targets)}
    return replace(splits, examples=noisy, inspection=inspection)


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
