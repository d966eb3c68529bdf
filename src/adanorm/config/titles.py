"""What figures and tables call norms, tasks and metrics, and how they show scores and times."""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from adanorm.config.paths import CONF, choices


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

QUANTITIES = {  # titles of what claims compare
    "test": "test score",
    "top3": "top-3 mean",
    "last_train_loss": "last training loss",
    "last_valid_loss": "last validation loss",
    "memorized": "share of wrong labels learned at the end",
    "recovered": "share of wrong labels recovered at the end",
}


@cache
def title(name: str, scale: str = "paper") -> str:
    """Return the title of a norm or task from its YAML; any other name is returned unchanged.

    A corpus that a task has at one scale alone may have a title there.
    """
    from adanorm.config.values import read_yaml_file

    if f"{name}_{scale}" in choices("task_scale"):
        sized = read_yaml_file(CONF / "task_scale" / f"{name}_{scale}.yaml")
        corpus = sized.get("task", {}).get("title")
        if corpus:
            return str(corpus)
    group = next((group for group in ("task", "norm") if name in choices(group)), None)
    section = read_yaml_file(CONF / group / f"{name}.yaml") if group else {}
    return str(section.get("task", section).get("title", name))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, which gets an s unless the count is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names joined as in a sentence: a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def in_words(hours: float) -> str:
    """Return a time in words: in minutes below 2 hours, in days from 100 hours on."""
    if hours < 2:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.0f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


def task_metric(task: str) -> Metric:
    """Return the test metric of a task; raises ValueError for an unknown task."""
    from adanorm.config.compose import cached_experiment

    return METRICS[cached_experiment([f"task={task}"]).task.metric]
