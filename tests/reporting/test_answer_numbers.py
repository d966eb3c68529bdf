"""README's answers, recomputed from the evaluations in the records that the trace names.

Only records are read by the package; scores, pairs, noise, bounds and intervals are computed here.
"""

import json
import re
from functools import cache
from itertools import combinations
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from adanorm.config.paths import CONF, PROJECT, RUNS
from adanorm.config.titles import task_metric, title
from adanorm.config.values import read_yaml_file
from adanorm.records import reader
from adanorm.records.by_example import by_example
from adanorm.reporting.tables.answers import answer_trace, question
from adanorm.verdicts.claims import TaskAnswer, task_answers

ROW = (
    r"^\| \[({})\]\(results/tables/answers\.md#\S+\) \(\w+\) \| (\S*)"
    r" \| (\S+) \((90 %: )?(\S+) to (\S+)\) \| ([^|]+) \| ([^|]+) \|$"
)
RUN = re.compile(
    r"^  \S+ +([\d.]+) = (?:mean of )?(.*)\n    results/runs/(\S+)\.jsonl, (\S+)$", re.M
)
LOOKS = {"fresh": (10, 20, 40), "small": (3, 6, 10), "fresh-third-look": (10, 20, 40)}
DRAWS = 400_000


class Run(NamedTuple):
    """A run as the trace prints it, and its record."""

    norm: str
    seed: int
    fold: str
    score: float
    record: reader.Record


@cache
def answers() -> dict[str, TaskAnswer]:
    return {answer.task: answer for answer in task_answers(question())}


def traced(task: str) -> list[Run]:
    runs = []
    for part in "\n".join(answer_trace(answers()[task])).split("\nfold "):
        for score, _, file, name in RUN.findall(part):
            record = reader.record(RUNS / file / name)
            seed = int(name.split("-seed")[1].split("-")[0])
            fold = part[0] if part[1:2] == "\n" else ""
            runs.append(Run(file.split("/")[1], seed, fold, float(score), record))
    return runs


def score_of(record: reader.Record, task: str, *, is_top3: bool) -> float:
    """Return the score that the plan reads, from the record's own files."""
    result, metric = json.loads(record.text("result.json")), METRIC_NAMES[task]
    if not is_top3 or result.get("averaged"):
        return float(result["test"][metric])
    goal = -1 if "loss" in (selection := SELECTION[task]) else 1
    tests = {row["update"]: row[f"test_{metric}"] for row in record.rows("test_metrics.jsonl")}
    rows = [row for row in record.rows() if row["update"] in tests and f"valid_{selection}" in row]
    best = sorted(rows, key=lambda row: goal * row[f"valid_{selection}"], reverse=True)[:3]
    return fmean(tests[row["update"]] for row in best)


METRIC_NAMES = {
    "rt": "accuracy", "sst5": "accuracy", "mnist": "accuracy", "de-en": "bleu", "en-de": "bleu",
    "en-vi": "bleu", "enwik8": "bpc", "ptb": "uas",
}  # fmt: skip
SELECTION = {"rt": "accuracy", "sst5": "accuracy", "mnist": "accuracy", "ptb": "uas"}


def level_at(looks: tuple[int, ...], seeds: int) -> float:
    """Return the two-sided level of the look after `seeds` seeds, by drawing paths of gaps."""
    spent = 0.05 * (np.array(looks) / looks[-1]) ** 1.5
    gaps = np.random.default_rng(0).standard_normal((DRAWS, seeds))
    inside, level = np.ones(DRAWS, bool), spent[0]
    for look, error in zip(looks, np.diff(spent, prepend=0.0), strict=True):
        first = gaps[:, :look]
        t = np.abs(first.mean(1) / first.std(1, ddof=1)) * look**0.5
        p = 2 * stats.t.sf(t, look - 1)
        level = error if look == looks[0] else np.sort(p[inside])[int(error * DRAWS)]
        inside &= p > level
        if look == seeds:
            return float(level)
    raise AssertionError(f"no look after {seeds}")


def noise_of_examples(answer: TaskAnswer, seeds: list[int]) -> float:
    """Return the squared standard error of examples: a component of variance.

    It is pooled over all pairs, or the upper bound of the pair's own (one-sided, 75 %).
    """
    (records,) = answer.records
    metric, components, examples = METRIC_NAMES[answer.task], [], 1
    pairs = [*combinations(records.variance.scores, 2)]
    if is_own := answer.plan.examples == "own":
        pairs = [answer.norms]
    for first, second in pairs:
        shared = {run.seed: run for run in records.norms[first].runs if run.seed in seeds}
        others = {run.seed: run for run in records.norms[second].runs if run.seed in shared}
        both = [seed for seed in sorted(others) if seed in shared]
        both = both[: max((n for n in LOOKS[answer.plan.name] if n <= len(both)), default=0)]
        if not both:
            continue
        sides = []
        for runs in (shared, others):
            of_runs = [reader.record(runs[seed].folder()).counts.get(metric) for seed in both]
            counted = [counts for counts in of_runs if counts is not None]
            if len(counted) < len(of_runs):
                return 0.0
            sides.append(np.array([by_example(metric, counts) for counts in counted]))
        gaps = sides[0] - sides[1]
        n, examples = gaps.shape
        means = gaps.mean(0)
        rest = gaps - means - gaps.mean(1, keepdims=True) + gaps.mean()
        of_rest = np.square(rest).sum() / ((n - 1) * (examples - 1))
        components.append(means.var(ddof=1) - of_rest / n)
        if is_own:
            own = np.square(means - means.mean()) * examples / (examples - 1)
            own -= np.square(rest).sum(0) / (n - 1) / n * examples / (examples - 1)
            return max(0.0, own.mean() + 0.6745 * own.std(ddof=1) / examples**0.5) / examples
    return max(0.0, fmean(components)) / examples if components else 0.0


@pytest.mark.records
@pytest.mark.parametrize("task", METRIC_NAMES)
def test_every_number_of_a_readme_row_follows_from_the_evaluations_of_its_runs(task: str) -> None:
    (row,) = re.findall(ROW.format(title(task)), (PROJECT / "README.md").read_text(), re.M)
    _, paper, gain, is_narrow, low, high, seeds_text, word = row
    answer = answers()[task]
    plan, runs = answer.plan, traced(task)
    sign = task_metric(task).sign
    for run in runs:
        raw = score_of(run.record, task, is_top3=plan.quantity == "top3")
        assert run.score == pytest.approx(raw, abs=6e-5), run.record.folder
    by_run = {(run.fold, run.seed, run.norm): run for run in runs}
    assert len(by_run) == len(runs)
    gaps: dict[str, list[float]] = {}
    for (fold, seed, norm), run in by_run.items():
        if norm == "adanorm":
            base = by_run[fold, seed, "layernorm"]
            is_top3 = plan.quantity == "top3"
            ours, others = (score_of(r.record, task, is_top3=is_top3) for r in (run, base))
            gaps.setdefault(fold, []).append(sign * (ours - others))
    seeds = sorted({run.seed for run in runs})
    assert seeds == [*range(plan.first, plan.first + len(seeds))], "none is left out"
    if plan.folds:
        values = [fmean(of_fold) for of_fold in gaps.values()]
        assert seeds_text == f"{len(seeds)} x {len(values)}"
        error2, level = stdev(values) ** 2 * (1 / len(values) + 0.288), 0.05
    else:
        (values,) = gaps.values()
        assert seeds_text == str(len(values))
        error2 = stdev(values) ** 2 / len(values)
        error2 += noise_of_examples(answer, seeds)
        level = level_at(LOOKS[plan.name], len(values))
    wide, narrow = (stats.t.isf(p, len(values) - 1) * error2**0.5 for p in (level / 2, level))
    reach = narrow if is_narrow else wide
    digit = 10.0 ** -len(gain.partition(".")[2])
    assert float(gain) == pytest.approx(fmean(values), abs=0.51 * digit)
    assert float(low) == pytest.approx(fmean(values) - reach, abs=0.51 * digit + 0.02 * reach)
    assert float(high) == pytest.approx(fmean(values) + reach, abs=0.51 * digit + 0.02 * reach)
    is_within = abs(fmean(values)) + narrow < plan.margin
    answer_word = "open"
    if is_within:
        answer_word = "equivalent"
        assert is_narrow, "the interval that decides"
    elif float(low) > 0:
        answer_word = "better"
    elif float(high) < 0:
        answer_word = "worse"
    assert word.startswith(answer_word)
    published = read_yaml_file(CONF / "claims" / "paper.yaml")["plans"].get(plan.name)
    assert published is None or published["first"] == plan.first
    assert paper.strip("()") == f"{papers_gain(task):+.2f}"


def papers_gain(task: str) -> float:
    lines = (PROJECT / "results" / "published.csv").read_text().splitlines()
    header = lines[0].split(",")
    values = {}
    for line in lines[1:]:
        entry = dict(zip(header, line.split(","), strict=False))
        if entry["task"] == task:
            values[entry["norm"]] = entry
    numbers = [float(values[norm]["value"]) for norm in ("adanorm", "layernorm")]
    return task_metric(task).sign * (numbers[0] - numbers[1]) + 0.0
