"""Compare the recorded test outputs of completed runs, example by example.

Each norm is compared with the first. Accuracy and UAS: the seeds are averaged example by example;
p is of a sign-flip permutation test over examples, and the standard error is split into what the
choice of test examples and what the choice of seeds adds. BLEU: sacrebleu's paired bootstrap, a
seed at a time; its p says nothing of the seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from adanorm.cli.command import Arguments, Key, Usage, seed_list, whole_number
from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import Parallel
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.data.translation.pairs import load_pairs
from adanorm.metrics.bleu import KINDS, paired_bootstrap, sides
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.reporting.statistics import over_examples
from adanorm.runs.auto_scale import resolve_auto

RUN_KEYS = ("task", "scale", "runs")  # of all the runs that are compared

USAGE = Usage(
    keys={
        "norm": Key("two norms or more; each is compared with the first", also=("norms",)),
        "seed": Key("the seeds of the runs, such as 1,2,3", "1", also=("seeds",)),
        "metric": Key(f"of translations: {', '.join(KINDS)}", "bleu"),
        "samples": Key("bootstrap samples of translations", "1000"),
    },
    settings="of the runs",
    examples=("task=rt norm=layernorm,adanorm seed=1,2,3", "task=de-en scale=mini norm=none,adanorm"),
)


def main(arguments: Arguments) -> None:
    """Print scores, differences and p-values of the runs named on the command line."""
    norms, seeds, samples = _choices(arguments)
    check_fixed([setting for setting in arguments.settings if setting.partition("=")[0] not in RUN_KEYS])
    overrides = resolve_auto(arguments.settings)
    runs = {
        norm: [compose_experiment([*overrides, f"norm={norm}", f"seed={seed}"]) for seed in seeds]
        for norm in norms
    }
    for cell in runs.values():
        for run in cell:
            found = reader.result(run.folder())
            if found is None or found.status != "done":
                raise ValueError(f"{shown(run.folder())}: no completed run; `adanorm run` makes it")
    if isinstance(next(iter(runs.values()))[0].data, Parallel):
        for alike in zip(*runs.values(), strict=True):
            for line in compare_bleu(alike, kind=arguments.keys["metric"], samples=samples):
                print(line)
    else:
        for line in compare_examples(runs):
            print(line)


def _choices(arguments: Arguments) -> tuple[list[str], list[int], int]:
    """Return norms, seeds and bootstrap samples; raises ValueError for what they cannot be."""
    given = arguments.keys
    if given["metric"] not in KINDS:
        raise ValueError(f"unknown metric {given['metric']!r}: choose from {', '.join(KINDS)}")
    norms = given["norm"].split(",")
    if twice := next((norm for norm in norms if norms.count(norm) > 1), None):
        raise ValueError(f"norm={given['norm']}: {twice} is named twice")
    if len(norms) < 2:
        raise ValueError("name two norms or more, such as norm=layernorm,adanorm")
    return norms, seed_list(given["seed"]), whole_number("samples", given["samples"])


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
    digits = METRICS[metric].decimals(float(base.mean()))
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
    corpus = load_pairs(first.data)
    references: list[str] = []
    systems: dict[str, list[str]] = {}
    for run in runs:
        words, text = corpus.beside_references("test", reader.outputs(run.folder()))
        systems[run.norm.name], references = sides(kind, words, text)
    found = paired_bootstrap(kind, systems, references, samples=samples, lowercase=first.data.lowercase)
    name = f"{first.task.name} {first.scale} seed {first.seed}"
    return [f"{name}, {kind} {KINDS[kind]}, {samples} bootstrap samples", *found]
