"""The paper's own protocol, simulated from our records: one run of each norm, or the best of some.

Also its order of norms, beside that of our means.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import numpy as np

from adanorm.config.titles import METRICS
from adanorm.stats.comparison import PaperGap
from adanorm.stats.protocol import Tried, best_of, count_distribution
from adanorm.stats.sequential import Numbers
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.claims import ClaimResult, evaluated
from adanorm.verdicts.deciding import folds_of
from adanorm.verdicts.evidence import evidence
from adanorm.verdicts.pair import published_gap
from adanorm.verdicts.plan import Plan
from adanorm.verdicts.preregistration import preregistration

TRIES = 4  # values of C that the paper tried for AdaNorm
PAPERS_COUNT = 6  # of the seven data sets without PTB
NORMS = ("adanorm", "layernorm")


class Protocol(NamedTuple):
    """A way to choose one run of AdaNorm, beside one run of LayerNorm."""

    label: str
    tries: int
    chooses: str  # the norm whose runs are tried
    by: str  # the scores that choose: test, or valid


PROTOCOLS = (
    Protocol("one run", 1, "adanorm", "test"),
    Protocol(f"best of {TRIES} by validation", TRIES, "adanorm", "valid"),
    Protocol(f"best of {TRIES} by test", TRIES, "adanorm", "test"),
    Protocol(f"LayerNorm itself, best of {TRIES} by test", TRIES, "layernorm", "test"),
)


class TaskProtocols(NamedTuple):
    """What each of PROTOCOLS would show on one data set; `runs` are AdaNorm's and LayerNorm's."""

    task: str
    scale: str
    runs: tuple[int, int]
    paper: PaperGap | None
    shown: tuple[Tried, ...]


class SameOrder(NamedTuple):
    """Of the pairs of norms that the paper ranks, how many have the same order by our means."""

    seeds: str
    pairs: int
    same: int
    confirmed: int  # pairs whose two scores in the paper somebody has read there
    confirmed_same: int


def task_protocols(runs: str | None = None) -> list[TaskProtocols]:
    """Return what the protocols would show on each data set that has runs of both norms."""
    results = []
    claim = next(claim for claim in preregistration().claims if claim.id == "adanorm")
    for task in claim.tasks:
        folds = _runs_by_fold(task, runs)
        if not folds:
            continue
        paper = published_gap(task, *NORMS)
        size = paper.value - paper.rounding if paper else 0.0
        shown = [_tried(protocol, folds, size) for protocol in PROTOCOLS]
        ours, theirs = (_number_of_runs(folds, norm) for norm in NORMS)
        scale = preregistration().plans_of(task)[-1].scale
        results.append(
            TaskProtocols(
                task,
                scale,
                (ours, theirs),
                paper,
                tuple(shown),
            )
        )
    return results


def _number_of_runs(folds: Sequence[dict[str, dict[str, Numbers]]], norm: str) -> int:
    return sum(len(fold[norm]["test"]) for fold in folds)


def numbers_ahead(results: Sequence[TaskProtocols]) -> dict[str, Numbers]:
    """Return by protocol the probability of being ahead on 0, 1, ... of the data sets."""
    distributions = {}
    for index, protocol in enumerate(PROTOCOLS):
        probabilities = [result.shown[index].ahead for result in results]
        distributions[protocol.label] = count_distribution(probabilities)
    return distributions


def same_orders(runs: str | None = None) -> list[SameOrder]:
    """Return how often the order of two norms repeats at the paper's size, by whose seeds.

    By the first plan; by the fresh seeds up to the last look; and by all fresh seeds.
    """
    orders = []
    for seeds, name, up_to_look in (
        ("the first plan's", "first", False),
        ("fresh, to the last look", "fresh", True),
        ("fresh, all", "fresh", False),
    ):
        is_same = []
        of_confirmed = []
        for task in preregistration().plans["fresh"].tasks:
            plan = preregistration().plan(name, task)
            means = _means(
                replace(plan, quantity="test"),
                up_to_look,
                runs,
            )
            for first, second in combinations(means, 2):
                paper = published_gap(
                    task,
                    first,
                    second,
                )
                if paper and paper.value:
                    is_same.append((means[first] - means[second]) * paper.value > 0)
                    of_confirmed += is_same[-1:] if paper.confirmed else []
        counts = (len(is_same), sum(is_same), len(of_confirmed), sum(of_confirmed))
        orders.append(SameOrder(seeds, *counts))
    return orders


def papers_own_count(runs: str | None = None) -> ClaimResult:
    """Return the claim that AdaNorm is better, on six of the seven data sets that are counted.

    The registered claim asks for seven of them, though the paper has the norms equal on Enwiki8.
    """
    claims = []
    for claim in preregistration().claims:
        update = {"at_least": PAPERS_COUNT} if claim.id == "adanorm" else {}
        claims.append(claim.model_copy(update=update))
    results = evaluated(
        claims,
        "small",
        runs=runs,
    )
    return next(result for result in results if result.claim.id == "adanorm")


def _means(plan: Plan, up_to_look: bool, runs: str | None) -> dict[str, float]:
    """Return each norm's mean test score, larger for better."""
    means = {}
    for norm, cell in evidence(plan, runs=runs).norms.items():
        sign = METRICS[cell.metric].sign
        scores = [sign * score for score in cell.scores]
        if up_to_look:
            scores = scores[: plan.seeds_read(len(scores)) or 0]
        if scores:
            means[norm] = fmean(scores)
    return means


def _runs_by_fold(task: str, runs: str | None) -> list[dict[str, dict[str, Numbers]]]:
    """Return test and validation scores by norm, larger for better, of each fold with runs.

    A task without folds has one. Runs of all plans at the newest plan's scale count.
    """
    newest = preregistration().plans_of(task)[-1]
    plans = [plan for plan in preregistration().plans_of(task) if plan.scale == newest.scale]
    folds = []
    for fold in folds_of(newest):
        by_norm = {}
        for norm in NORMS:
            scores: dict[int, tuple[float, float]] = {}
            for plan in plans:
                plan_of_tests = replace(
                    plan,
                    quantity="test",
                    overrides=fold.overrides,
                )
                cells = evidence(plan_of_tests, runs=runs).norms
                scores |= _scores(cells[norm])
            columns = np.array([*scores.values()]).reshape(-1, 2).T
            by_norm[norm] = {"test": columns[0], "valid": columns[1]}
        if all(len(by_norm[norm]["test"]) for norm in NORMS):
            folds.append(by_norm)
    return folds


def _scores(cell: Cell) -> dict[int, tuple[float, float]]:
    """Return by seed the test and the validation score of each run that is done."""
    if not cell.runs:
        return {}
    sign = METRICS[cell.metric].sign
    sign_of_valid = METRICS[cell.runs[0].task.selection_metric].sign
    valid = cell.values("valid_best")
    scores = {}
    for seed, test in cell.values().items():
        scores[seed] = sign * test, sign_of_valid * valid[seed]
    return scores


def _tried(
    protocol: Protocol, folds: Sequence[dict[str, dict[str, Numbers]]], size: float
) -> Tried:
    """Return the means over folds of what a protocol would show."""
    by_fold = []
    for fold in folds:
        chosen = fold[protocol.chooses]
        shown = best_of(
            chosen["test"],
            fold["layernorm"]["test"],
            criterion=chosen[protocol.by],
            tries=protocol.tries,
            size=size,
        )
        by_fold.append(shown)
    return Tried(*map(fmean, zip(*by_fold, strict=True)))
