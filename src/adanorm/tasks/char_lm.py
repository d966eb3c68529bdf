"""Character language modelling: the next byte, scored in bits per character."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adanorm.config.data_sections import SPLITS, ByteTextConfig
from adanorm.config.experiment import Experiment
from adanorm.config.sections import SegmentConfig
from adanorm.data.byte_streams import IGNORED, SegmentBatch, Segments, load_streams
from adanorm.data.inspection import Inspection
from adanorm.tasks.base import Evaluation, Loss, TrainingTask

Bytes = np.ndarray[tuple[int], np.dtype[np.int64]]


class CharLm(TrainingTask):
    """The next byte; loss in nats a byte, score in bits a byte (bits per character)."""

    carries = True

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.data, ByteTextConfig)
        if experiment.segments is None:
            raise ValueError("segments: a language model needs train, valid and test")
        self._data, self._segments = experiment.data, experiment.segments
        self.corpus = load_streams(experiment.data)
        super().__init__(experiment, self.corpus.splits, self.corpus.checksums)
        needed = self._data.streams * self._segments.train.length
        if self.sizes["train"] < needed:
            raise ValueError(
                f"{next(iter(self.checksums))}: {self.sizes['train']:,} bytes to train on, shorter than one"
                f" segment of every stream ({self._data.streams} x {self._segments.train.length})"
            )

    @cached_property
    def inspection(self) -> Inspection:
        """Long lines in two splits, copies of them."""
        return self.corpus.inspection

    def train_batches(self, epoch: int) -> Segments:
        """Return the training text from its start, a segment of every stream at a time."""
        text = self.corpus.splits["train"]
        # Streams of one length; the few bytes that are left over are not trained on.
        whole = text[: len(text) // self._data.streams * self._data.streams]
        return Segments(whole, 0, self._data.streams, self._segments.train.length)

    def loss(self, model: nn.Module, batch: SegmentBatch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the cross-entropy summed over bytes in nats, their number, and the new memory."""
        memory = [] if batch.first else carried
        logits, memory = model(batch.segment, memory, **segment_options(self._segments.train))
        return Loss(_cross_entropy(logits, batch.target), batch.units, memory)

    def derived(self, train_loss: float) -> dict[str, float]:
        """Return the training loss in bits a byte."""
        return {"bpc": train_loss / math.log(2)}

    def baselines(self, split: str) -> dict[str, dict[str, float]]:
        """Return bits a byte under the frequencies of bytes, and under 5-grams (Witten & Bell 1991)."""
        parts = {name: part.numpy().astype(np.int64) for name, part in self.corpus.splits.items()}
        before = np.concatenate([parts[name] for name in SPLITS[: SPLITS.index(split)]])
        found = {}
        for name, context in (("unigram", 0), ("5-gram", 4)):
            bits = bits_per_byte(parts["train"], parts[split], context=context, before=before)
            found[name] = {"bpc": bits, "loss": bits * math.log(2)}
        return found

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return bits and nats a byte, each byte scored once; every evaluation stream has its own memory."""
        read: SegmentConfig = getattr(self._segments, split)
        text, before = self.corpus.splits[split], self.corpus.before(split)
        device = next(model.parameters()).device
        memory: list[Tensor] = []
        total = 0.0
        with torch.inference_mode():
            for segment in Segments(text, before, self._data.evaluation_streams, read.length):
                batch = segment.to(device)
                logits, memory = model(batch.segment, memory, **segment_options(read))
                total += _cross_entropy(logits, batch.target).double().item()
        nats = total / len(text)
        return Evaluation({"bpc": nats / math.log(2), "loss": nats}, [])


def segment_options(read: SegmentConfig) -> dict[str, Any]:
    """Return what a model is told of how a text is read: nothing where it carries a state on."""
    if read.memory is None:
        return {}
    return {"remember": read.memory, "clamp": read.clamp, "same_length": read.same_length}


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    rows = logits.flatten(0, 1).float()
    return F.cross_entropy(rows, target.flatten(), ignore_index=IGNORED, reduction="sum")


def bits_per_byte(train: Bytes, text: Bytes, *, context: int, before: Bytes) -> float:
    """Return the bits a byte of a text under the n-gram model of `train` with so much context.

    Witten-Bell interpolation (Witten and Bell 1991) down to the uniform distribution over 256
    bytes: p(c | h) = (count(hc) + kinds(h) p(c | h')) / (count(h) + kinds(h)), h' without h's first
    byte. `before` is what stands before the text.
    """
    p = np.full(len(text), 1 / 256)
    for length in range(context + 1):
        grams, counts = np.unique(_grams(train, length), return_counts=True)
        histories, first = np.unique(grams // 256, return_index=True)
        totals, kinds = np.add.reduceat(counts, first), np.diff([*first, len(grams)])
        wanted = _grams(np.concatenate([before[len(before) - length :], text]), length)
        count = _looked_up(wanted, grams, counts)
        total = _looked_up(wanted // 256, histories, totals)
        kind = _looked_up(wanted // 256, histories, kinds)
        p = np.where(total > 0, (count + kind * p) / np.maximum(total + kind, 1), p)
    return float(-np.log2(p).mean())


def _grams(text: Bytes, length: int) -> Bytes:
    """Return the number that each byte and the `length` bytes before it make together."""
    made = np.zeros(len(text) - length, dtype=np.int64)
    for offset in range(length + 1):
        made = made * 256 + text[offset : len(text) - length + offset]
    return made


def _looked_up(wanted: Bytes, keys: Bytes, values: Bytes) -> Bytes:
    """Return the values of wanted keys, 0 where there is none."""
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)
