"""The table of metrics: name, unit, decimals, direction, and the kinds of tasks that yield them."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A metric of test or validation; `label` is its name in tables and figures."""

    label: str
    higher_is_better: bool | None  # None: neither, so nothing is chosen by it
    unit: str = ""  # behind the label on an axis; a loss has that of its kind of task
    # Decimals of a score of 1 or more; settings are chosen by differences of 0.005 nats.
    places: int = 2

    @property
    def sign(self) -> Literal[1, -1]:
        """The factor, 1 or -1, that makes larger scores better."""
        return 1 if self.higher_is_better else -1

    @property
    def largest(self) -> float:
        """The largest possible score: metrics where higher is better are percentages."""
        return 100.0 if self.higher_is_better else math.inf

    @property
    def with_unit(self) -> str:
        """The label with its unit, for an axis of leads (positive for the better norm)."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def axis(self) -> str:
        """The label with its unit, and a note where lower is better, for an axis of scores."""
        if self.higher_is_better is False:
            return f"{self.with_unit}, lower is better"
        return self.with_unit

    def decimals(self, score: float) -> int:
        """Return the number of decimals to show: `places`, or below 1 as many as make three digits.

        Scores in percent or bits keep their two; a squared error of 0.0123 is not shown as 0.01.
        """
        size = abs(score)
        if 1e-9 <= size < 1:
            return 2 - math.floor(math.log10(size))
        return self.places

    def text(self, score: float) -> str:
        """Return a score with its number of decimals."""
        return f"{score:.{self.decimals(score)}f}"


def mean_text(scores: Sequence[float], digits: int) -> str:
    """Return the mean of scores over seeds, with their standard deviation if there are several."""
    mean, deviation = mean_and_deviation(scores)
    text = f"{mean:z.{digits}f}"
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def mean_and_deviation(scores: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the standard deviation over seeds, None for one score."""
    return fmean(scores), stdev(scores) if len(scores) > 1 else None


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
    "nll": Metric(
        "negative log-likelihood",
        higher_is_better=False,
        unit="nats",
        places=3,
    ),
    "perplexity": Metric("perplexity", higher_is_better=False),
}


class KindMetrics(NamedTuple):
    """The metrics of a kind of task on test and validation data, and what its curves show."""

    test: tuple[str, ...]
    valid: tuple[str, ...]
    axis: str  # the label of the curves' axis
    curve: str = "loss"  # the metric in curves of training and validation, times `factor`
    factor: float = 1.0
    beside: tuple[str, ...] = ()  # further test metrics, by which nothing is chosen


ATTACHMENT = ("uas", "uas_all", "las", "las_all")
KIND_METRICS = {
    "classification": KindMetrics(
        ("accuracy", "loss"),
        ("accuracy", "loss"),
        "loss (nats per example)",
        beside=("memorized", "recovered"),  # only with data.label_noise
    ),
    "translation": KindMetrics(
        ("bleu", "sacrebleu", "compound_bleu"),
        ("loss", "nll", "perplexity"),
        "loss (bits per subword)",
        factor=1 / math.log(2),  # the paper and fairseq use bits, the records nats
        beside=("chrf", "length_ratio"),
    ),
    "char_lm": KindMetrics(
        ("bpc", "loss"),
        ("bpc", "loss"),
        "bits per character",
        curve="bpc",
    ),
    "parsing": KindMetrics(
        ATTACHMENT,
        (*ATTACHMENT, "loss"),
        "loss (nats per transition)",
    ),
    "regression": KindMetrics(
        ("loss",),
        ("loss",),
        "mean squared error",
    ),
}


def check_target(kind: str, *, metric: str, selected_by: str | None, goal: str) -> None:
    """Raise ValueError, naming choices, if a kind lacks the metric, the selection or its goal."""
    if kind not in KIND_METRICS:
        raise ValueError(f"task.kind={kind}: choose from {', '.join(KIND_METRICS)}")
    test, valid = KIND_METRICS[kind].test, KIND_METRICS[kind].valid
    chosen = selected_by or metric
    if metric not in test:
        raise ValueError(f"task.metric={metric}: the test of {kind} yields {', '.join(test)}")
    if chosen not in valid:
        setting = selected_by or f"null (so {metric})"
        raise ValueError(
            f"task.selected_by={setting}: the validation of {kind} yields {', '.join(valid)}"
        )
    expected = "max" if METRICS[chosen].higher_is_better else "min"
    if goal != expected:
        raise ValueError(f"task.goal={goal}: the goal of {chosen} is {expected}")
