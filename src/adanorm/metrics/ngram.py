"""Bits a byte of a text under n-gram models: what counting bytes comes to, without a network."""

from __future__ import annotations

import numpy as np

Bytes = np.ndarray[tuple[int], np.dtype[np.int64]]


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
