"""Metrics from counts of each test example: the score, each contribution, BLEU's factors.

Counts are (E examples, columns). The columns are, for accuracy, whether the label is right; for a
loss, the loss; for UAS, right heads and scored words; for BLEU, the right 1- to 4-grams and the
lengths of output and reference, from which the numbers of all n-grams of an output follow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]
MEANS = {"accuracy": 100.0, "loss": 1.0}  # factors of the mean
COLUMNS = {"accuracy": 1, "loss": 1, "uas": 2, "bleu": 6, "sacrebleu": 6, "compound_bleu": 6}


def score(metric: str, counts: Counts) -> float:
    """Return the metric over all examples together, in percent except for a loss."""
    if metric in MEANS:
        return MEANS[metric] * float(counts.mean())
    if metric == "uas":
        right, scored = counts.sum(0)
        return 100 * float(right / scored)
    sums = _with_ngrams(counts).sum(0)
    precision, brevity = _bleu(metric, sums)
    return float(precision * brevity)


def by_example(metric: str, counts: Counts) -> Counts:
    """Return the contribution of each example, (E,).

    Their mean is the metric, for BLEU less its bias. BLEU is not a mean over examples. Its
    contributions are jackknife pseudo-values, E B - (E - 1) B', with B' the BLEU of all examples
    but one; the standard error of their mean is BLEU's (Efron & Tibshirani 1993, chapter 11).
    """
    if metric in MEANS:
        return MEANS[metric] * counts[:, 0]
    size = len(counts)
    if metric == "uas":
        return 100 * counts[:, 0] * size / float(counts[:, 1].sum())
    rows = _with_ngrams(counts)
    precision, brevity = _bleu(metric, rows.sum(0) - rows)
    without_one = precision * brevity
    return size * score(metric, counts) - (size - 1) * without_one


def factors(metric: str, counts: Counts) -> dict[str, float]:
    """Return by name the two factors of BLEU; {} for another metric.

    They are the geometric mean of the precisions of 1- to 4-grams, in percent, and the penalty, at
    most 1, of outputs shorter than their references (Papineni et al. 2002, section 2.3).
    """
    if metric in MEANS or metric == "uas":
        return {}
    precision, brevity = _bleu(metric, _with_ngrams(counts).sum(0))
    return {"precision": float(precision), "brevity penalty": float(brevity)}


def _with_ngrams(counts: Counts) -> Counts:
    """Return counts followed by the numbers of 1- to 4-grams of each output, (E, 10)."""
    lengths = counts[:, 4:5]
    return np.hstack([counts, np.maximum(lengths - np.arange(4), 0)])


def _bleu(metric: str, sums: Counts) -> tuple[Any, Any]:
    """Return the precision (%) and the brevity penalty, (...), from sums over examples, (..., 10).

    Both are as in sacrebleu, whose own BLEU counts 1 / 2^k right n-grams in the k-th order without
    any.
    """
    right, all_ngrams = sums[..., :4], sums[..., 6:]
    length, reference = sums[..., 4], sums[..., 5]
    has_precision = right.any(-1) & all_ngrams.all(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if metric == "sacrebleu":
            is_zero = right == 0
            right = np.where(
                is_zero,
                0.5 ** is_zero.cumsum(-1),
                right,
            )
        precision = 100 * np.exp(np.log(right / all_ngrams).mean(-1))
        brevity = np.exp(np.minimum(0.0, 1 - reference / length))
    return np.where(
        has_precision,
        precision,
        0.0,
    ), np.nan_to_num(brevity)


def as_text(counts: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, list[str]]:
    """Return by metric the columns of its counts (E, columns), a line of E numbers per column."""
    texts = {}
    for metric, rows in counts.items():
        columns = zip(*rows, strict=True)
        texts[metric] = [" ".join(map(repr, column)) for column in columns]
    return texts


def from_text(metric: str, columns: Sequence[str]) -> Counts:
    """Return counts (E, columns) from lines of `as_text`; raises ValueError for other lines."""
    if len(columns) != COLUMNS.get(metric):
        raise ValueError(f"{len(columns)} columns of {metric}")
    rows = list(map(_numbers, columns))
    is_table = len({len(row) for row in rows}) == 1
    counts = np.array(rows if is_table else [])
    if not is_table or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError(f"columns of {metric} differ in length, or a number is not a count")
    counts = counts.T
    if not _are_possible(metric, counts):
        raise ValueError(f"an example has more of {metric} than there is")
    return counts


def _numbers(column: str) -> list[float]:
    """Return the numbers of a column; most are small counts, so each text is read once."""
    texts = column.split(" ")
    values = {text: float(text) for text in {*texts}}
    return [values[text] for text in texts]


def _are_possible(metric: str, counts: Counts) -> bool:
    """Return whether no example has more right labels, heads or n-grams than labels and so on."""
    if metric == "loss":
        return True
    right, most = counts[:, :1], np.ones_like(counts[:, :1])
    if metric == "uas":
        most = counts[:, 1:]
    elif metric != "accuracy":
        right, most = counts[:, :4], _with_ngrams(counts)[:, 6:]
    return bool((right <= most).all() and (counts == counts.round()).all())
