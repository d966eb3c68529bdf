"""A setting that a study tries in a cell, judged by validation."""

import math
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
        self.results = []
        self.valid = []
        for run in candidate.runs:
            result = reader.result(run.folder())
            self.results.append(result)
            if result and result.status == "done":
                self.valid.append(result.valid_score(self._metric))
        self.has_ended = None not in self.results

    @property
    def text(self) -> str:
        """The mean validation score, and which runs diverged, failed or are missing.

        `-` if none ended.
        """
        statuses = [result.status for result in self.results if result]
        facts = []
        if self.valid:
            facts.append(METRICS[self._metric].text(fmean(self.valid)))
        for status in ("diverged", "failed"):
            if status in statuses:
                facts.append(f"{statuses.count(status)} {status}")
        if facts and not self.has_ended:
            facts.append(f"{len(statuses)}/{len(self.results)} seeds")
        return ", ".join(facts) or "-"

    def rank(self) -> tuple[bool, bool, float]:
        """Return a sort key, largest for the best: all ended, all done, mean signed score."""
        mean = -math.inf
        if self.valid:
            mean = METRICS[self._metric].sign * fmean(self.valid)
        is_done = len(self.valid) == len(self.results)
        return self.has_ended, is_done, mean
