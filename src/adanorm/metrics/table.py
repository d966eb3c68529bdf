"""The table of metrics: how each is named and shown, which way it points, which kind of task yields it."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A metric of test or validation; `label` is what tables and figures call it."""

    label: str
    higher_is_better: bool | None  # None: neither; nothing is chosen by it
    unit: str = ""  # behind the label on an axis; of a loss, its kind of task says it
    places: int = 2  # decimals of a score of 1 or more; settings are chosen by differences of 0.005 nats

    @property
    def sign(self) -> Literal[1, -1]:
        """What a score is multiplied by so that larger is better."""
        return 1 if self.higher_is_better else -1

    @property
    def largest(self) -> float:
        """The largest score that can be: where higher is better it is a share, in percent."""
        return 100.0 if self.higher_is_better else math.inf

    @property
    def with_unit(self) -> str:
        """The label of an axis of leads, which are positive for the better norm."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def axis(self) -> str:
        """The label of an axis of scores: with the unit, and a word where lower is better."""
        return f"{self.with_unit}{', lower is better' if self.higher_is_better is False else ''}"

    def decimals(self, score: float) -> int:
        """Return how many decimals show a score: two, three of a loss; below 1 three digits."""
        size = abs(score)
        small = 1e-9 <= size < 1
        return max(self.places, 2 - math.floor(math.log10(size)) if small else 0)

    def text(self, score: float) -> str:
        """Return a score as it is shown."""
        return f"{score:.{self.decimals(score)}f}"


def mean_text(scores: Sequence[float], digits: int) -> str:
    """Return the mean of scores over seeds and, from two on, their standard deviation."""
    spread = f" ± {stdev(scores):.{digits}f}" if len(scores) > 1 else ""
    return f"{fmean(scores):.{digits}f}{spread}"


METRICS = {
    "accuracy": Metric("accuracy", higher_is_better=True, unit="%"),
    "memorized": Metric("wrong labels learned", higher_is_better=False, unit="%"),
    "recovered": Metric("wrong labels recovered", higher_is_better=True, unit="%"),
    "bleu": Metric("BLEU", higher_is_better=True),
    "sacrebleu": Metric("sacreBLEU", higher_is_better=True),
    "compound_bleu": Metric("compound BLEU", higher_is_better=True),
    "chrf": Metric("chrF", higher_is_better=True),
    "length_ratio": Metric("length over the reference's", higher_is_better=None),
    "bpc": Metric("BPC", higher_is_better=False),
    "uas": Metric("UAS", higher_is_better=True, unit="%"),
    "uas_all": Metric("UAS with punctuation", higher_is_better=True, unit="%"),
    "las": Metric("LAS", higher_is_better=True, unit="%"),
    "las_all": Metric("LAS with punctuation", higher_is_better=True, unit="%"),
    "loss": Metric("loss", higher_is_better=False, places=3),
    "nll": Metric("negative log-likelihood", higher_is_better=False, unit="nats", places=3),
    "perplexity": Metric("perplexity", higher_is_better=False),
}


class KindMetrics(NamedTuple):
    """The metrics that a kind of task yields on the test set and in validation, and its curves."""

    test: tuple[str, ...]
    valid: tuple[str, ...]
    axis: str  # the label of its curves'
    curve: str = "loss"  # the metric that curves of training and validation show, times the factor
    factor: float = 1.0
    beside: tuple[str, ...] = ()  # with those of the test set: nothing is chosen by them


ATTACHMENT = ("uas", "uas_all", "las", "las_all")
KIND_METRICS = {
    "classification": KindMetrics(
        ("accuracy", "loss"),
        ("accuracy", "loss"),
        "loss (nats per example)",
        beside=("memorized", "recovered"),  # with data.label_noise
    ),
    "translation": KindMetrics(
        ("bleu", "sacrebleu", "compound_bleu"),
        ("loss", "nll", "perplexity"),
        "loss (bits per subword)",
        factor=1 / math.log(2),  # the paper's is to base 2, as fairseq prints it; the records' is in nats
        beside=("chrf", "length_ratio"),
    ),
    "char_lm": KindMetrics(("bpc", "loss"), ("bpc", "loss"), "bits per character", curve="bpc"),
    "parsing": KindMetrics(ATTACHMENT, (*ATTACHMENT, "loss"), "loss (nats per transition)"),
    "regression": KindMetrics(("loss",), ("loss",), "mean squared error"),
}


def check_target(kind: str, *, metric: str, selected_by: str | None, goal: str) -> None:
    """Raise ValueError, naming the choices, for a metric, selection or goal that a task cannot have."""
    if kind not in KIND_METRICS:
        raise ValueError(f"task.kind={kind}: choose from {', '.join(KIND_METRICS)}")
    test, valid, chosen = KIND_METRICS[kind].test, KIND_METRICS[kind].valid, selected_by or metric
    if metric not in test:
        raise ValueError(f"task.metric={metric}: the test of {kind} yields {', '.join(test)}")
    if chosen not in valid:
        given = selected_by or f"null (so {metric})"
        raise ValueError(f"task.selected_by={given}: the validation of {kind} yields {', '.join(valid)}")
    if goal != (own := "max" if METRICS[chosen].higher_is_better else "min"):
        raise ValueError(f"task.goal={goal}: the goal of {chosen} is {own}")
