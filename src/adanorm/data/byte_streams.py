"""Text whose next byte is predicted: enwik8, its first million bytes or any file, as streams."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from adanorm.config.data_sections import FULL_SIZE, SPLITS, ByteTextConfig
from adanorm.data import packed, synthetic
from adanorm.data.examples import WHOLE, Movable, Part
from adanorm.data.fetch import fetch
from adanorm.data.inspection import Inspection, count_overlaps, overlap_warnings

LINE = 40  # bytes: shorter lines may repeat by chance or as mark-up
# Bytes of each source: all of enwik8, and its beginnings of a million bytes and of 955 whole pages.
LENGTHS = {"enwik8": None, "enwik8-1m": 1_000_000, "enwik8-4m": 4_154_063}
IGNORED = -100  # a target that the loss leaves out


@dataclass(frozen=True)
class SegmentBatch(Movable):
    """One segment per stream: bytes (B, T) and targets (B, T), next bytes or IGNORED past the end."""

    segment: Tensor
    target: Tensor
    first: bool  # whether this is the first segment of the streams
    units: int  # the number of targets that count
    part: Part = WHOLE


@dataclass(frozen=True)
class Segments:
    """A text cut into parallel streams and read in segments; every byte is a target once."""

    text: Tensor  # (N,) uint8
    before: int  # the byte before the text: each stream's first input is the byte before its first target
    streams: int
    length: int  # bytes of a segment

    def __len__(self) -> int:
        return math.ceil(self._inputs_and_targets[0].shape[1] / self.length)

    def __iter__(self) -> Iterator[Any]:
        return map(self.part, range(len(self)))

    def part(self, index: int, rank: int = 0, world: int = 1) -> Any:
        """Return segment `index` of streams rank, rank + world, ...: a process keeps its streams."""
        columns = slice(index * self.length, (index + 1) * self.length)
        inputs, targets = self._inputs_and_targets
        part = Part(rank, world, self.streams)
        # Copies: pinning a view for a GPU would take the memory of its whole streams.
        segment = inputs[part.rows, columns].contiguous()
        target = targets[part.rows, columns].contiguous()
        return SegmentBatch(
            segment,
            target,
            index == 0,
            int((target != IGNORED).sum()),
            part,
        )

    @cached_property
    def _inputs_and_targets(self) -> tuple[Tensor, Tensor]:
        """Input bytes and their next bytes, both (streams, longest); the ends are padded."""
        longest = math.ceil(len(self.text) / self.streams)
        shape = (self.streams, longest)
        target = F.pad(
            self.text.long(),
            (0, self.streams * longest - len(self.text)),
            value=IGNORED,
        )
        inputs = F.pad(
            target[:-1],
            (1, 0),
            value=self.before,
        )
        inputs = inputs.clamp(min=0)  # padding is read as 0
        return inputs.view(shape), target.view(shape)


@dataclass(frozen=True)
class Corpus:
    """The splits of a text, which follow one another in it, and the checksum of the whole."""

    splits: dict[str, Tensor]
    checksums: dict[str, str]

    @cached_property
    def inspection(self) -> Inspection:
        """What is in two splits or repeated: lines of `LINE` bytes or more, and whole splits."""
        texts, lines = {}, {}
        for split, part in self.splits.items():
            texts[split] = part.numpy().tobytes()
            lines[split] = [line for line in texts[split].split(b"\n") if len(line) >= LINE]
        counts = count_overlaps(lines)
        counts["lines"] = {split: len(part) for split, part in lines.items()}
        warnings = []
        for split in ("valid", "test"):
            if texts[split] in texts["train"]:
                warnings.append(f"{split}: the whole of it also stands in the training part")
        return Inspection(counts, (*warnings, *overlap_warnings(counts, lines)))

    def before(self, split: str) -> int:
        """Return the last byte before a split; 0 before the first split."""
        index = SPLITS.index(split)
        return 0 if index == 0 else int(self.splits[SPLITS[index - 1]][-1])


def load_streams(data: ByteTextConfig) -> Corpus:
    """Return the text in splits.

    Raises ValueError if it is missing, a split is empty, or train repeats one byte. The checksum is
    of the user's file, perhaps packed; for a source, of the unpacked text.
    """
    if files := data.own_files():
        path = files["text"]
        (content, checksum), name = packed.content(path), path.name
    else:
        content, name = _content(data)
        checksum = hashlib.sha256(content).hexdigest()
    sizes = [int(len(content) * fraction) for fraction in data.fractions[:2]]
    text = torch.from_numpy(np.frombuffer(content, dtype=np.uint8).copy())
    parts = torch.split(text, [*sizes, len(content) - sum(sizes)])
    splits = dict(zip(SPLITS, parts, strict=True))
    for split, part in splits.items():
        if len(part) == 0:
            raise ValueError(
                f"{name}: {len(content):,} bytes in parts {data.fractions} leave {split} empty"
            )
    first = splits["train"][0]
    if (splits["train"] == first).all():
        raise ValueError(f"{name}: the training part has one byte, {first}: nothing to learn")
    return Corpus(splits, {name: checksum})


def _content(data: ByteTextConfig) -> tuple[bytes, str]:
    """Return the text of a source, and what it is called."""
    if data.source == "synthetic":
        return synthetic.text(), data.source
    if data.source == FULL_SIZE:  # enough full segments for the updates of a dry run
        return synthetic.text(int(3_072 * data.streams / data.fractions[0])), data.source
    if data.source not in LENGTHS:
        sources = ", ".join([*LENGTHS, "synthetic"])
        raise ValueError(f"data.source={data.source!r}: bytes come from {sources}")
    length = LENGTHS[data.source]
    name = data.source if length is None else f"enwik8, first {length:,} bytes"
    files = fetch(data.source, data)
    if "enwik8.zip" in files:
        members, _ = packed.zip_members(files["enwik8.zip"], ["enwik8"])
        return members["enwik8"][:length], name
    content, _ = packed.content(*files.values())
    return content, name
