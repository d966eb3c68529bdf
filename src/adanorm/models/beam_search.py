"""Beam search over an encoder-decoder by fairseq's rules.

Letters: B sentences, K beams each, T words so far, S source positions, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

RESERVED = 8  # times the first keys, for which there is space at first


class Beams(dict[Any, tuple[Tensor, ...]]):
    """The keys and values (B, N, T K, d) that decoding keeps for each attention module.

    Keys stay in their order when beams are reordered: `past` (B, 1, K, T K) is true at those that a
    beam sees. `encoded` is (S, B, H); `padding` (B, S), or None if there is none.
    """

    past: Tensor

    def __init__(self, encoded: Tensor, padding: Tensor | None) -> None:
        self.encoded, self.padding = encoded, padding

    def append(self, attention: Any, *new: Tensor) -> tuple[Tensor, ...]:
        """Append the newest words' keys and values (B, N, K, d) and return all, (B, N, T K, d)."""
        end = self.past.shape[3]
        start = end - new[0].shape[2]
        buffers = self.get(attention)
        if buffers is None:
            buffers = tuple(
                x.repeat(
                    1,
                    1,
                    RESERVED,
                    1,
                )
                for x in new
            )
        if buffers[0].shape[2] < end:
            buffers = tuple(torch.cat([x, x], 2) for x in buffers)
        self[attention] = buffers
        for buffer, x in zip(
            buffers,
            new,
            strict=True,
        ):
            buffer[:, :, start:end] = x
        return tuple(buffer[:, :, :end] for buffer in buffers)

    def keep(self, rows: Tensor) -> None:
        """Keep the sentences whose indices are `rows` and drop the others."""
        self.encoded = self.encoded[:, rows]
        if self.padding is not None:
            self.padding = self.padding[rows]
        for attention, buffers in self.items():
            self[attention] = tuple(x[rows] for x in buffers)


def beam_search(
    model: Any, source: Tensor, limit: int, *, beam: int, length_penalty: float
) -> list[Tensor]:
    """Return the best target ids, without the end symbol, for each row of source ids (B, S).

    Source ids are padded on the left. Each step has 2 K candidates. Those among the first K that
    end are hypotheses; the first K others go on. A sentence is done with K hypotheses or after
    `limit` words. The best hypothesis has the largest sum of log-probabilities / (number of words
    with the end symbol)^length_penalty.
    """
    dictionary, device = model.decoder.dictionary, source.device
    pad, end, count = dictionary.pad(), dictionary.eos(), len(source)
    beam = min(beam, len(dictionary) - 1)
    beams = model.start_beams(source)
    ranks = torch.arange(2 * beam, device=device)
    sentences = torch.arange(count)  # the row of the source that each row still open comes from
    translations = [source.new_empty(0)] * count
    words = source.new_full((count, beam, 1), end)
    slots = source.new_empty(count, beam, 0)  # the index of each beam's past keys
    sums = torch.full(
        (count, beam),
        -torch.inf,
        device=device,
    )
    sums[:, 0] = 0.0  # all beams are alike at first
    best = sums.new_full((count,), -torch.inf)
    ended = source.new_zeros(count)
    for step in range(limit + 1):
        # 1) The candidates: every beam with every next word.
        newest = ranks[:beam].expand(len(slots), beam)
        slots = torch.cat([slots, newest[..., None]], 2)
        is_past = slots[..., None] == ranks[:beam]
        beams.past = is_past.flatten(2)[:, None]
        log_p = model.extend_beams(words, beams).log_softmax(-1)
        log_p[..., pad] = -torch.inf
        if step == 0:
            log_p[..., end] = -torch.inf
        if step == limit:
            log_p[..., :end] = -torch.inf
            log_p[..., end + 1 :] = -torch.inf
        sums, parents, ids = _candidates(log_p, sums)

        # 2) Hypotheses: those among the first K that end.
        is_end = ids == end
        is_counted = is_end[:, :beam] & (sums[:, :beam] > -torch.inf)
        is_counted &= ended[:, None] + is_counted.cumsum(1) <= beam
        per_word = sums[:, :beam] / (step + 1) ** length_penalty
        scores, candidates = per_word.masked_fill(~is_counted, -torch.inf).max(1)
        for row in (scores > best).nonzero()[:, 0].tolist():
            parent = parents[row, candidates[row]]
            translations[int(sentences[row])] = words[row, parent, 1:].clone()
        best = best.maximum(scores)
        ended = ended + is_counted.sum(1)
        is_open = ended < beam
        if step == limit or not is_open.any():
            break

        # 3) The first K that do not end go on.
        go_on = (is_end * 2 * beam + ranks).topk(beam, largest=False).indices
        sums, parents, ids = sums.gather(1, go_on), parents.gather(1, go_on), ids.gather(1, go_on)
        words = words.gather(1, parents[..., None].expand_as(words))
        words = torch.cat([words, ids[..., None]], 2)
        slots = slots.gather(1, parents[..., None].expand_as(slots))
        if is_open.float().mean() < 0.8:  # seldom, because it copies all keys and values
            rows = is_open.nonzero()[:, 0]
            beams.keep(rows)
            sentences = sentences[rows.cpu()]
            words, slots, sums = words[rows], slots[rows], sums[rows]
            best, ended = best[rows], ended[rows]
    return translations


def _candidates(log_p: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the 2 K largest of log_p (B, K, V) + sums (B, K), their beams, and ids: (B, 2 K)."""
    count = 2 * sums.shape[1]
    top, ids = log_p.topk(min(count, log_p.shape[2]))
    totals = top + sums[..., None]
    finite = totals.nan_to_num(
        -torch.inf,
        -torch.inf,
        -torch.inf,
    )
    largest, indices = finite.flatten(1).topk(count)
    return largest, indices // top.shape[2], ids.flatten(1).gather(1, indices)
