"""Character language modelling: the next byte, scored in bits per character."""

import lzma
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
from adanorm.tasks import Evaluation, Loss, Scores, TrainingTask

TOP = 40  # likeliest bytes, of which a text is drawn
XZ_PRESET = 9 | lzma.PRESET_EXTREME
Bytes = np.typing.NDArray[np.int64]


class CharLm(TrainingTask):
    """Predicts the next byte.

    Loss in nats per byte, score in bits per byte (bits per character).
    """

    carries = True

    def __init__(self, experiment: Experiment) -> None:
        assert isinstance(experiment.data, ByteTextConfig)
        if experiment.segments is None:
            raise ValueError("segments: a language model needs train, valid and test")
        self._data, self._segments = experiment.data, experiment.segments
        self.corpus = load_streams(experiment.data)
        super().__init__(
            experiment,
            self.corpus.splits,
            self.corpus.checksums,
        )
        needed = self._data.streams * self._segments.train.length
        if self.sizes["train"] < needed:
            raise ValueError(
                f"{next(iter(self.checksums))}: {self.sizes['train']:,} bytes to train on, shorter"
                " than one segment of every stream"
                f" ({self._data.streams} x {self._segments.train.length})"
            )

    @cached_property
    def inspection(self) -> Inspection:
        """Counts of long lines that are in two splits or are copies."""
        return self.corpus.inspection

    def train_batches(self, epoch: int) -> Segments:
        """Return the training text from its start; each batch has one segment of every stream."""
        text = self.corpus.splits["train"]
        # Streams have equal lengths, so the few bytes that are left over are not trained on.
        whole = text[: len(text) // self._data.streams * self._data.streams]
        return Segments(
            whole,
            0,
            self._data.streams,
            self._segments.train.length,
        )

    def loss(self, model: nn.Module, batch: SegmentBatch, carried: Sequence[Tensor] = ()) -> Loss:
        """Return the summed cross-entropy in nats, the number of bytes, and the new memory."""
        memory = [] if batch.first else carried
        logits, memory = model(
            batch.segment,
            memory,
            **segment_options(self._segments.train),
        )
        return Loss(
            _cross_entropy(logits, batch.target),
            batch.units,
            memory,
        )

    def derived(self, train_loss: float) -> dict[str, float]:
        """Return the training loss in bits per byte."""
        return {"bpc": train_loss / math.log(2)}

    def baselines(self, split: str) -> Scores:
        """Return bits per byte of a unigram model and of a 5-gram model (Witten and Bell 1991)."""
        parts = {}
        for name, part in self.corpus.splits.items():
            parts[name] = part.numpy().astype(np.int64)
        earlier = SPLITS[: SPLITS.index(split)]
        before = np.concatenate([parts[name] for name in earlier])
        metrics = {}
        for name, context in {"unigram": 0, "5-gram": 4}.items():
            train, text = parts["train"], parts[split]
            bits = bits_per_byte(
                train,
                text,
                context=context,
                before=before,
            )
            metrics[name] = {"bpc": bits, "loss": bits * math.log(2)}
        return metrics

    def anchors(self) -> Scores:
        """Return bits per byte by which xz codes the test text, given the text before it."""
        parts = []
        for split in SPLITS:
            values = self.corpus.splits[split].numpy()
            parts.append(values.astype(np.uint8).tobytes())
        test = parts[-1]
        before = b"".join(parts[:-1])
        coded_before = lzma.compress(before, preset=XZ_PRESET)
        coded_all = lzma.compress(before + test, preset=XZ_PRESET)
        bits = 8 * (len(coded_all) - len(coded_before)) / len(test)
        return {"xz": {"bpc": bits, "loss": bits * math.log(2)}}

    def predict(
        self,
        model: nn.Module,
        entries: Sequence[str],
        *,
        length: int = 500,
        temperature: float = 1.0,
        draw: int = 1,
        **options: Any,
    ) -> list[str]:
        """Return each prompt with `length` bytes drawn after it, and a line feed.

        The seed `draw` decides them; each byte is one of the `TOP` likeliest.
        """
        texts = []
        for prompt in entries:
            text = bytearray(prompt.encode("utf-8", "surrogateescape"))
            generator = torch.Generator().manual_seed(draw)
            unread, memory = bytes(text), list[Tensor]()
            for _ in range(length):
                logits, memory = self._next(model, unread, memory)
                logits = logits / temperature
                logits[logits < logits.topk(TOP).values[-1]] = -torch.inf
                byte = int(
                    torch.multinomial(
                        logits.softmax(0),
                        1,
                        generator=generator,
                    )
                )
                text.append(byte)
                unread = bytes([byte])
            texts.append(text.decode("utf-8", "replace") + "\n")
        return texts

    def _next(
        self, model: nn.Module, unread: bytes, memory: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the logits (256,) of the byte after `unread`, and the new memory."""
        segment = torch.tensor([list(unread)], device=next(model.parameters()).device)
        with torch.inference_mode():
            logits, memory = model(
                segment,
                memory,
                **segment_options(self._segments.test),
            )
        return logits[0, -1].float().cpu(), list(memory)

    def evaluate(self, model: nn.Module, split: str) -> Evaluation:
        """Return bits and nats per byte.

        Every byte is scored once, each stream has its own memory.
        """
        reading: SegmentConfig = getattr(self._segments, split)
        text, before = self.corpus.splits[split], self.corpus.before(split)
        device = next(model.parameters()).device
        memory: list[Tensor] = []
        total = 0.0
        with torch.inference_mode():
            for segment in Segments(
                text,
                before,
                self._data.evaluation_streams,
                reading.length,
            ):
                batch = segment.to(device)
                logits, memory = model(
                    batch.segment,
                    memory,
                    **segment_options(reading),
                )
                total += _cross_entropy(logits, batch.target).double().item()
        nats = total / len(text)
        return Evaluation({"bpc": nats / math.log(2), "loss": nats}, [])


def segment_options(reading: SegmentConfig) -> dict[str, Any]:
    """Return the model's options for reading segments.

    A model that carries a state (an LSTM) has none.
    """
    if reading.memory is None:
        return {}
    return {"remember": reading.memory, "clamp": reading.clamp, "same_length": reading.same_length}


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    rows = logits.flatten(0, 1).float()
    return F.cross_entropy(
        rows,
        target.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
    )


def bits_per_byte(train: Bytes, text: Bytes, *, context: int, before: Bytes) -> float:
    """Return a text's bits per byte under an n-gram model of `train` with `context` bytes before.

    Witten-Bell interpolation (Witten and Bell 1991) down to the uniform distribution over 256
    bytes: p(c | h) = (count(hc) + kinds(h) p(c | h')) / (count(h) + kinds(h)), h' without h's first
    byte. `before` is the text before `text`.
    """
    p = np.full(len(text), 1 / 256)
    for length in range(context + 1):
        grams, counts = np.unique(_grams(train, length), return_counts=True)
        histories, first = np.unique(grams // 256, return_index=True)
        totals = np.add.reduceat(counts, first)
        kinds = np.diff([*first, len(grams)])
        with_history = np.concatenate([before[len(before) - length :], text])
        text_grams = _grams(with_history, length)
        text_histories = text_grams // 256
        count = _lookup(text_grams, grams, counts)
        total = _lookup(text_histories, histories, totals)
        kind = _lookup(text_histories, histories, kinds)
        p = np.where(
            total > 0,
            (count + kind * p) / np.maximum(total + kind, 1),
            p,
        )
    return float(-np.log2(p).mean())


def _grams(text: Bytes, length: int) -> Bytes:
    """Return one number per byte: the `length` bytes before it and the byte itself, in base 256."""
    grams = np.zeros(len(text) - length, dtype=np.int64)
    for offset in range(length + 1):
        grams = grams * 256 + text[offset : len(text) - length + offset]
    return grams


def _lookup(queries: Bytes, keys: Bytes, values: Bytes) -> Bytes:
    """Return the value of each query, 0 where it is not among the sorted `keys`."""
    index = np.searchsorted(keys, queries).clip(max=len(keys) - 1)
    return np.where(
        keys[index] == queries,
        values[index],
        0,
    )
