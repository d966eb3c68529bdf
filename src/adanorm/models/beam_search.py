"""Beam search over an encoder-decoder by fairseq's rules; B sentences, K beams each, T words so far."""

from typing import Any

import torch
from torch import Tensor


class Beams(dict[Any, tuple[Tensor, ...]]):
    """The keys and values (B, N, T K, d) that decoding keeps for each attention module.

    Keys stay in their order when beams are reordered: `past` (B, 1, K, T K) is true at those a beam
    sees.
    """

    past: Tensor

    def __init__(self, encoded: Tensor, padding: Tensor | None) -> None:
        self.encoded, self.padding = encoded, padding  # (S, B, H), and (B, S) if there is padding

    def append(self, attention: Any, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the newest words' keys and values (B, N, K, d) and return them all, (B, N, T K, d) each."""
        end, beams = self.past.shape[3], new[0].shape[2]
        buffers = self.get(attention) or tuple(x.repeat(1, 1, 8, 1) for x in new)
        if buffers[0].shape[2] < end:
            buffers = tuple(torch.cat([x, x], 2) for x in buffers)
        self[attention] = buffers
        for buffer, x in zip(buffers, new, strict=True):
            buffer[:, :, end - beams : end] = x
        return tuple(x[:, :, :end] for x in buffers)

    def keep(self, rows: Tensor) -> None:
        """Keep the sentences whose indices are `rows` and drop the others."""
        self.encoded = self.encoded[:, rows]
        self.padding = None if self.padding is None else self.padding[rows]
        self.update(
            {attention: tuple(x[rows] for x in buffers) for attention, buffers in self.items()}
        )


def beam_search(
    model: Any, source: Tensor, limit: int, *, beam: int, length_penalty: float
) -> list[Tensor]:
    """Return the best target ids, without the end symbol, for each row of left-padded source ids (B, S).

    Each step has 2 K candidates. Those among the first K that end are hypotheses; the first K
    others go on. A sentence is done with K hypotheses or after `limit` words. The best hypothesis
    has the largest sum of log-probabilities / (number of words with the end symbol)^length_penalty.
    """
    dictionary, device = model.decoder.dictionary, source.device
    pad, end, count = dictionary.pad(), dictionary.eos(), len(source)
    beam = min(beam, len(dictionary) - 1)
    beams, ranks = model.start_beams(source), torch.arange(2 * beam, device=device)
    sentences, translations = torch.arange(count), [source.new_empty(0)] * count
    words = source.new_full((count, beam, 1), end)
    slots = source.new_empty(count, beam, 0)  # the index of each beam's past keys
    sums = torch.full((count, beam), -torch.inf, device=device)
    sums[:, 0] = 0.0  # all beams are alike at first
    best, ended = sums.new_full((count,), -torch.inf), source.new_zeros(count)
    for step in range(limit + 1):
        slots = torch.cat([slots, ranks[:beam].expand(len(slots), beam)[..., None]], 2)
        beams.past = (slots[..., None] == ranks[:beam]).flatten(2)[:, None]
        log_p = model.extend_beams(words, beams).log_softmax(-1)
        log_p[..., pad] = -torch.inf
        if step == 0:
            log_p[..., end] = -torch.inf
        if step == limit:
            log_p[..., :end] = log_p[..., end + 1 :] = -torch.inf
        sums, parents, ids = _candidates(log_p, sums)

        is_end = ids == end
        is_counted = is_end[:, :beam] & (sums[:, :beam] > -torch.inf)
        is_counted &= ended[:, None] + is_counted.cumsum(1) <= beam
        per_word = sums[:, :beam] / (step + 1) ** length_penalty
        scores, candidates = per_word.masked_fill(~is_counted, -torch.inf).max(1)
        for row in (scores > best).nonzero()[:, 0].tolist():
            translations[int(sentences[row])] = words[
                row, parents[row, candidates[row]], 1:
            ].clone()
        best, ended = best.maximum(scores), ended + is_counted.sum(1)
        is_open = ended < beam
        if step == limit or not is_open.any():
            break

        go_on = (is_end * 2 * beam + ranks).topk(beam, largest=False).indices
        sums, parents, ids = (x.gather(1, go_on) for x in (sums, parents, ids))
        words, slots = (x.gather(1, parents[..., None].expand_as(x)) for x in (words, slots))
        words = torch.cat([words, ids[..., None]], 2)
        if is_open.float().mean() < 0.8:  # seldom, because it copies all keys and values
            rows = is_open.nonzero()[:, 0]
            beams.keep(rows)
            sentences = sentences[rows.cpu()]
            words, slots, sums, best, ended = (x[rows] for x in (words, slots, sums, best, ended))
    return translations


def _candidates(log_p: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the 2 K largest of log_p (B, K, V) + sums (B, K), and their beams and ids, each (B, 2 K)."""
    top, ids = log_p.topk(min(2 * sums.shape[1], log_p.shape[2]))
    totals = (top + sums[..., None]).nan_to_num(-torch.inf, -torch.inf, -torch.inf).flatten(1)
    largest, indices = totals.topk(2 * sums.shape[1])
    return largest, indices // top.shape[2], ids.flatten(1).gather(1, indices)
