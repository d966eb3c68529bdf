"""Examples in memory and their batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from adanorm.data.inspection import Inspection

Indices = np.typing.NDArray[np.int64]


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
