"""The scores on record, as the committed tables have them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev

from adanorm.config.paths import PROJECT, choices
from adanorm.metrics.table import METRICS
from adanorm.reporting.tables.formats import markdown_table
from adanorm.studies.study import load_study

TABLES = PROJECT / "results" / "tables"
BY_LABEL = {metric.label: metric for metric in METRICS.values()}


@dataclass(frozen=True)
class Score:
    """A cell with runs: the row of a study on a task."""

    study: str
    label: str  # of the row
    norm: str
    task: str
    scale: str
    metric: str
    scores: tuple[float, ...]  # a seed each
    diverged: int
    paper: str
    verdict: str

    @property
    def shown(self) -> str:
        """Mean ± standard deviation over seeds, and how many diverged."""
        decimals = BY_LABEL[self.metric].decimals if self.metric in BY_LABEL else lambda _: 2
        lost = f"Diverge ({self.diverged}/{self.diverged + len(self.scores)})" if self.diverged else ""
        if not self.scores:
            return lost
        mean = fmean(self.scores)
        digits = decimals(mean)
        spread = f" ± {stdev(self.scores):.{digits}f}" if len(self.scores) > 1 else ""
        return f"{mean:.{digits}f}{spread}{f' {lost}' if lost else ''}"


@cache
def scores_on_record() -> tuple[Score, ...]:
    """Return every cell with runs of the committed tables of studies."""
    return tuple(_all())


def _all() -> Iterator[Score]:
    for name in sorted(choices("study"), key=lambda name: (load_study(name).order, name)):
        path = TABLES / f"{name}.csv"
        if not path.exists():
            continue
        study = load_study(name)
        for row in csv.DictReader(path.read_text("utf-8").splitlines()):
            scores, diverged = tuple(map(float, row["scores"].split())), int(row["diverged"])
            if (scores or diverged) and row["norm"] in study.rows:
                yield Score(
                    name,
                    row["norm"],
                    study.rows[row["norm"]].norm,
                    row["task"],
                    row["scale"],
                    row["metric"],
                    scores,
                    diverged,
                    row["paper"],
                    row["verdict"],
                )


def scores_table(scores: list[Score], *, first: str, shown: dict[str, str]) -> list[str]:
    """Return a table of scores, a row each; `first` is the field in its first column, `shown` its titles.

    The rows of one cell that stands in several studies are one, with the first study's link.
    """
    seen: dict[tuple[object, ...], Score] = {}
    for score in scores:
        seen.setdefault((getattr(score, first), score.label, score.task, score.scale, score.scores), score)
    rows = [
        [
            shown.get(getattr(score, first), getattr(score, first)),
            "" if score.label == score.norm else score.label.replace("|", "\\|"),
            score.scale,
            f"{score.shown} {score.metric}",
            str(len(score.scores) + score.diverged),
            score.paper or "-",
            score.verdict or "-",
            f"[{score.study}](../../../results/tables/{score.study}.md)",
        ]
        for score in seen.values()
    ]
    header = (first, "setting", "scale", "test score", "seeds", "the paper's", "verdict", "table")
    return markdown_table(header, rows) if rows else ["No runs on record yet."]
