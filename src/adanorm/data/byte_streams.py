"""Bytes to be predicted: enwik8, its first million, any file; as parallel streams of segments."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from adanorm.config.data_sections import FULL_SIZE, SPLITS, ByteTextConfig
from adanorm.data import packed, synthetic
from adanorm.data.examples import Movable
from adanorm.data.fetch import fetch
from adanorm.data.inspection import Inspection, count_overlaps, overlap_warnings

LINE = 40  # bytes: shorter lines are the same by chance or mark-up
IGNORED = -100  # a target that counts nothing


@dataclass(frozen=True)
class SegmentBatch(Movable):
    """A segment of every stream: bytes (B, T) and the bytes that follow them, IGNORED past an end."""

    segment: Tensor
    target: Tensor
    first: bool  # whether the streams start here
    units: int


@dataclass(frozen=True)
class Segments:
    """A text cut into parallel streams, read a segment at a time; every byte is a target once.

    Each stream starts with the byte before it as context, the text itself with `before`.
    """

    text: Tensor  # (N,) uint8
    before: int
    streams: int
    length: int

    def __len__(self) -> int:
        return math.ceil(self._segments_and_targets[0].shape[1] / self.length)

    def __iter__(self) -> Iterator[SegmentBatch]:
        return map(self.part, range(len(self)))

    def part(self, index: int, rank: int = 0, world: int = 1) -> SegmentBatch:
        """Return a segment of every world-th stream from `rank` on: a process keeps its streams."""
        columns = slice(index * self.length, (index + 1) * self.length)
        # No views: pinned for a GPU, each would take the memory of its streams.
        segment, target = (x[rank::world, columns].contiguous() for x in self._segments_and_targets)
        return SegmentBatch(segment, target, index == 0, int((target != IGNORED).sum()))

    @cached_property
    def _segments_and_targets(self) -> tuple[Tensor, Tensor]:
        """The streams (streams, longest), and the byte after each."""
        longest = math.ceil(len(self.text) / self.streams)
        missing = self.streams * longest - len(self.text)
        padding = torch.full((missing,), IGNORED)
        target = torch.cat([self.text.long(), padding]).view(self.streams, longest)
        context = torch.cat([torch.tensor([self.before]), self.text.long(), torch.zeros_like(padding)])
        return context[:-1].view(self.streams, longest), target


@dataclass(frozen=True)
class Corpus:
    """The splits of a text, one after the other, and the checksum of the whole."""

    splits: dict[str, Tensor]
    checksums: dict[str, str]

    @cached_property
    def inspection(self) -> Inspection:
        """What the text says: of its lines of `LINE` bytes or more, which are in two splits."""
        parts = {split: text.numpy().tobytes() for split, text in self.splits.items()}
        lines = {of: [line for line in part.split(b"\n") if len(line) >= LINE] for of, part in parts.items()}
        counts = {**count_overlaps(lines), "lines": {split: len(part) for split, part in lines.items()}}
        again = [split for split in ("valid", "test") if parts[split] in parts["train"]]
        warnings = [f"{split}: the whole of it also stands in the training part" for split in again]
        return Inspection(counts, (*warnings, *overlap_warnings(counts, lines)))

    def before(self, split: str) -> int:
        """Return the byte before a split; 0 before the first."""
        index = SPLITS.index(split)
        return 0 if index == 0 else int(self.splits[SPLITS[index - 1]][-1])


def load_streams(data: ByteTextConfig) -> Corpus:
    """Return the configured text in its splits; ValueError if it is missing, or one is empty or all alike."""
    digest = hashlib.sha256()  # of the user's file as it is, else of what is in it
    if own := data.own_files():
        path = own["text"]
        content, name = packed.content(path, digest.update), path.name
    else:
        content, name = _content(data)
        digest.update(content)
    sizes = [int(len(content) * fraction) for fraction in data.fractions[:2]]
    text = torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())
    parts = torch.split(text, [*sizes, len(content) - sum(sizes)])
    splits = dict(zip(SPLITS, parts, strict=True))
    for split, part in splits.items():
        if len(part) == 0:
            raise ValueError(f"{name}: {len(content):,} bytes in parts {data.fractions} leave {split} none")
    if bool((splits["train"] == splits["train"][0]).all()):
        raise ValueError(f"{name}: the training part has one byte, {splits['train'][0]}: nothing to learn")
    return Corpus(splits, {name: digest.hexdigest()})


def _content(data: ByteTextConfig) -> tuple[bytes, str]:
    if data.source == "synthetic":
        return synthetic.text(), data.source
    if data.source == FULL_SIZE:  # enough for the updates of a dry run on full segments of every stream
        return synthetic.text(int(3_072 * data.streams / data.fractions[0])), data.source
    if data.source == "enwik8":
        return _enwik8(data), data.source
    if data.source == "enwik8-1m":
        return _first_million(data), "enwik8, first 1,000,000 bytes"
    raise ValueError(f"data.source={data.source!r}: bytes come from enwik8, enwik8-1m or synthetic")


def _enwik8(data: ByteTextConfig) -> bytes:
    return packed.zip_members(fetch("enwik8", data)["enwik8.zip"], ["enwik8"])["enwik8"]


MILLION = "369b688978f649681136198fb96db14c1616756260c55fb4b65e9bc049552cad"  # its SHA-256


def _first_million(data: ByteTextConfig) -> bytes:
    """Return the first million bytes, from a mirror's own file of them or from the whole."""
    try:
        content = packed.content(fetch("enwik8-1m", data)["enwik6.gz"])
    except ValueError as missing:
        try:
            content = _enwik8(data)[:1_000_000]
        except ValueError as error:
            raise ValueError(f"{error}; nor {missing}") from None
    digest = hashlib.sha256(content).hexdigest()
    if digest != MILLION:
        raise ValueError(f"enwik8's first million bytes: sha256 is {digest[:12]}..., not {MILLION[:12]}...")
    return content
