"""A setting that a study tries in a cell, judged by validation."""

import math
from collections import Counter
from statistics import fmean

from adanorm.config.titles import METRICS
from adanorm.records import reader
from adanorm.studies.study import Candidate


class Tried:
    """A setting that was tried, judged by validation.

    `valid` has the best score of each run that is done.
    """

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self._metric = candidate.runs[0].task.selection_metric
        self.results = [reader.result(run.folder()) for run in candidate.runs]
        self.has_ended = None not in self.results
        done = [result for result in self.results if result and result.status == "done"]
        self.valid = [result.valid_score(self._metric) for result in done]

    @property
    def text(self) -> str:
        """The mean validation score, and which runs diverged, failed or are missing.

        `-` if none ended.
        """
        statuses = Counter(result.status for result in self.results if result)
        facts = [METRICS[self._metric].text(fmean(self.valid))] if self.valid else []
        facts += [f"{statuses[s]} {s}" for s in ("diverged", "failed") if s in statuses]
        if facts and not self.has_ended:
            facts.append(f"{statuses.total()}/{len(self.results)} seeds")
        return ", ".join(facts) or "-"

    def rank(self) -> tuple[bool, bool, float]:
        """Return a sort key, largest for the best: all ended, all done, mean signed score."""
        mean = METRICS[self._metric].sign * fmean(self.valid) if self.valid else -math.inf
        return self.has_ended, len(self.valid) == len(self.results), mean
