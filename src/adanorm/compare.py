"""Is one norm better on the same examples? `python -m adanorm.compare task=rt norm=layernorm,adanorm`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from adanorm import compose, metrics
from adanorm.config import Experiment
from adanorm.data import parallel
from adanorm.data_sections import Parallel
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.reporting.statistics import over_examples
from adanorm.scale import resolve_auto

DESCRIPTION = """Compare the recorded test outputs of finished runs, example by example.

  python -m adanorm.compare task=rt norm=layernorm,adanorm seed=1,2,3 [scale=auto] [KEY=VALUE ...]
                            [metric=bleu|sacrebleu|compound_bleu] [samples=1000]

Each norm is compared with the first. Accuracy and UAS: the seeds are averaged example by
example; p is of a sign-flip permutation test over examples, and the standard error is told
apart into what the choice of test examples and what the choice of seeds adds. BLEU:
sacrebleu's paired bootstrap, a seed at a time; its p says nothing of the seed."""


def main() -> None:
    """Print scores, differences and p-values of the runs named on the command line."""
    if {"--help", "-h"} & {*sys.argv[1:]} or not sys.argv[1:]:
        print(DESCRIPTION)
        return
    own, overrides = _arguments(sys.argv[1:])
    overrides = resolve_auto(compose.prepare(overrides))
    runs = {
        norm: [compose.experiment([*overrides, f"norm={norm}", f"seed={s}"]) for s in own["seed"].split(",")]
        for norm in own["norm"].split(",")
    }
    for made in runs.values():
        for run in made:
            if (reader.result(run.folder()) or {}).get("status") != "done":
                raise ValueError(
                    f"{shown(run.folder())}: no finished run; make it with `python -m adanorm.run`"
                )
    if isinstance(next(iter(runs.values()))[0].data, Parallel):
        for alike in zip(*runs.values(), strict=True):
            for line in compare_bleu(alike, kind=own["metric"], samples=int(own["samples"])):
                print(line)
    else:
        for line in compare_examples(runs):
            print(line)


def _arguments(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    defaults = {"metric": "bleu", "samples": "1000", "norm": "", "seed": "1"}
    own, overrides = compose.own_keys(arguments, defaults)
    if own["metric"] not in metrics.KINDS:
        raise ValueError(f"unknown metric {own['metric']!r}: choose from {', '.join(metrics.KINDS)}")
    if not own["samples"].isdecimal() or int(own["samples"]) < 1:
        raise ValueError(f"samples={own['samples']}: must be a whole number above 0")
    if "," not in own["norm"]:
        raise ValueError("name two norms or more, such as norm=layernorm,adanorm")
    return own, overrides


def compare_examples(runs: Mapping[str, Sequence[Experiment]]) -> list[str]:
    """Return a line a norm: its mean score over seeds, and its difference from the first norm's.

    `runs` are finished ones by norm, entry i of each with one seed. Raises ValueError for a task
    whose metric is no mean over examples.
    """
    from adanorm import tasks

    first = next(iter(runs.values()))
    task = tasks.build(first[0])
    scores = {
        norm: np.array([task.scored(reader.outputs(run.folder())) for run in made])
        for norm, made in runs.items()
    }
    base_name, base = next(iter(scores.items()))
    name, metric = first[0].task.name, first[0].task.metric
    seeds = ", ".join(str(run.seed) for run in first)
    lines = [f"{name} {first[0].scale}, test {metric}, seeds {seeds}, {base.shape[1]:,} examples"]
    lines.append(
        f"  {'norm':<16} {'score':>6} {'diff':>7}  {'95 % interval':<16} {'p':>6}  {'se: examples  seeds'}"
    )
    digits = metrics.decimals(base.mean())
    for norm, found in scores.items():
        line = f"  {norm:<16} {found.mean():6.{digits}f}"
        if norm != base_name:
            gap = over_examples(base, found)
            interval = f"{gap.interval.low:+.{digits}f} to {gap.interval.high:+.{digits}f}"
            by_seed = "-" if gap.seed_error is None else f"{gap.seed_error:.{digits}f}"
            line += f" {gap.mean:+7.{digits}f}  {interval:<16} {gap.p:6.4f}"
            line += f"  {gap.example_error:12.{digits}f} {by_seed:>6}"
        lines.append(line)
    return lines


def compare_bleu(runs: Sequence[Experiment], *, kind: str, samples: int) -> list[str]:
    """Return a line a finished run: its BLEU with the bootstrap's 95 % interval, and p against the first."""
    first = runs[0]
    assert isinstance(first.data, Parallel), "translations come of pairs"
    corpus = parallel.load(first.data)
    references: list[str] = []
    systems: dict[str, list[str]] = {}
    for run in runs:
        words, text = corpus.beside_references("test", reader.outputs(run.folder()))
        systems[run.norm.name], references = metrics.sides(kind, words, text)
    found = metrics.paired_bootstrap(
        kind, systems, references, samples=samples, lowercase=first.data.lowercase
    )
    name = f"{first.task.name} {first.scale} seed {first.seed}"
    return [f"{name}, {kind} {metrics.KINDS[kind]}, {samples} bootstrap samples", *found]


if __name__ == "__main__":
    compose.door(main)
