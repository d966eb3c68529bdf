"""Compare norms on the same test examples, from the recorded outputs of completed runs.

Seeds and examples are crossed: the interval of a difference allows for both, and their standard errors are
printed and recorded, so that the claims allow for them too. The variance over seeds is each comparison's
own, with the task's other norms as a prior. Without `norm` the comparisons of the task's claims are made.
From five seeds on, each norm's spread is split into that on this test set and that on its distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.values import seed_list
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.metrics.table import METRICS
from adanorm.records import reader
from adanorm.records.comparisons import ComparisonRecord, comparison_path, write_comparison
from adanorm.records.folder import shown
from adanorm.reporting.verdicts.answers import compared
from adanorm.reporting.verdicts.comparison import Comparison
from adanorm.reporting.verdicts.crossed import Values, components, seed_split
from adanorm.reporting.verdicts.evidence import norm_runs, variance_of
from adanorm.reporting.verdicts.preregistration import preregistration
from adanorm.runs.auto_scale import resolve_auto

RUN_KEYS = ("task", "scale", "runs")  # of all the runs that are compared

USAGE = Usage(
    keys={
        "norm": Key("two norms or more, each compared with the first (default: of claims)", also=("norms",)),
        "seed": Key("such as 1,2,3 (default: all that two norms share)", also=("seeds",)),
        "metric": Key("of translations: bleu, sacrebleu or compound_bleu (default: the task's)"),
    },
    settings="of the runs",
    examples=("task=rt norm=layernorm,adanorm seed=1,2,3", "task=de-en scale=mini", "task=rt scale=paper"),
)


def main(arguments: Arguments) -> None:
    """Print and record the differences of the norms that the command line names."""
    given = arguments.keys
    check_fixed([setting for setting in arguments.settings if setting.partition("=")[0] not in RUN_KEYS])
    overrides = resolve_auto(arguments.settings)
    seeds = seed_list(given["seed"]) if given["seed"] else None
    pairs = _named_pairs(given["norm"]) if given["norm"] else _claimed(compose_experiment(overrides))
    norms = dict.fromkeys([*preregistration().norms, *(norm for pair in pairs for norm in pair)])
    runs = {norm: compose_experiment([*overrides, f"norm={norm}"]) for norm in norms}
    if not given["norm"]:
        pairs = [pair for pair in pairs if shared_seeds(runs, pair, seeds)]
        if not pairs:
            first = next(iter(runs.values()))
            raise ValueError(f"{first.task.name} {first.scale}: no completed runs of two norms of a claim")
    for line in compare(runs, pairs, seeds=seeds, metric=given["metric"]):
        print(line)


def _named_pairs(text: str) -> list[tuple[str, str]]:
    first, *others = norms = text.split(",")
    if twice := next((norm for norm in norms if norms.count(norm) > 1), None):
        raise ValueError(f"norm={text}: {twice} is named twice")
    if not others:
        raise ValueError("name two norms or more, such as norm=layernorm,adanorm")
    return [(first, other) for other in others]


def _claimed(run: Experiment) -> list[tuple[str, str]]:
    if not (pairs := claimed_pairs(run.task.name)):
        raise ValueError(
            f"task={run.task.name}: no claim is of it; name norms, such as norm=layernorm,adanorm"
        )
    return pairs


def claimed_pairs(task: str) -> list[tuple[str, str]]:
    """Return the pairs of norms that claims of a task's score compare, the worse first."""
    claims = [c for c in preregistration().claims if c.quantity == "test" and task in c.tasks]
    return list(dict.fromkeys((worse, better) for better, worse in (c.norms(task) for c in claims)))


def shared_seeds(
    runs: Mapping[str, Experiment], pair: tuple[str, str], seeds: Sequence[int] | None = None
) -> list[int]:
    """Return the seeds that both norms have done, of those that are named if there are such."""
    done = [norm_runs(runs[norm]).scores.keys() for norm in pair]
    return sorted(done[0] & done[1] if seeds is None else done[0] & done[1] & {*seeds})


def compare(
    runs: Mapping[str, Experiment],
    pairs: Sequence[tuple[str, str]],
    *,
    seeds: Sequence[int] | None = None,
    metric: str = "",
) -> Sequence[str]:
    """Return lines on pairs of norms, and record each; `runs` are one run of each norm, whatever its seed.

    Of a pair the second norm's difference from the first is shown; of fewer seeds than the two share it
    is not recorded. The other norms' runs, where there are some, tell of the variance. Raises ValueError
    where a run is missing or has no outputs.
    """
    from adanorm import tasks

    first = next(iter(runs.values()))
    shown_metric = metric or first.task.metric
    shared = {pair: shared_seeds(runs, pair, seeds) for pair in pairs}
    for pair, found in shared.items():
        lacking = [seed for seed in seeds or ([] if found else [first.seed]) if seed not in found]
        if lacking:
            folders = [runs[norm].model_copy(update={"seed": lacking[0]}).folder() for norm in pair]
            missing = next((f for f in folders if not (f / "result.json").exists()), folders[1])
            raise ValueError(f"{shown(missing)}: no completed run; `adanorm run` makes it")
    task = tasks.build(first)
    values: dict[tuple[str, int], Values] = {}
    for pair, found in shared.items():
        for norm, seed in ((norm, seed) for norm in pair for seed in found):
            folder = runs[norm].model_copy(update={"seed": seed}).folder()
            outputs = reader.outputs(folder, examples=task.sizes["test"])
            values[norm, seed] = np.array(task.scored(outputs, shown_metric))
    sides = {norm: norm_runs(run) for norm, run in runs.items()}
    variance = variance_of({norm: side for norm, side in sides.items() if side.runs})
    sign = 1 if METRICS[first.task.metric].higher_is_better else -1
    lines = [f"{first.task.name} {first.scale}, test {METRICS[shown_metric].label}"]
    for (worse, better), found in shared.items():
        record = _record(runs, (worse, better), shown_metric, found, values)
        lines += [
            f"  {better} over {worse}, seeds {', '.join(map(str, found))}, {record.examples:,} examples"
        ]
        is_whole = found == shared_seeds(runs, (worse, better))
        if shown_metric == first.task.metric and is_whole:
            write_comparison(comparison_path(runs[worse], runs[better]), record)
        margin = preregistration().margin(first.task.name, "test")
        gaps = [sign * float((values[better, s] - values[worse, s]).mean()) + 0.0 for s in found]
        read = compared(variance, better, worse, gaps, margin=margin or 0.0, noise=record)
        lines += _lines(record, read)
        if not is_whole:
            lines.append("    not recorded, as the claims are of all the seeds that the two share")
    return lines


def _record(
    runs: Mapping[str, Experiment],
    pair: tuple[str, str],
    metric: str,
    seeds: Sequence[int],
    values: Mapping[tuple[str, int], Values],
) -> ComparisonRecord:
    tables = [np.array([values[norm, seed] for seed in seeds]) for norm in pair]
    found = components(tables[1] - tables[0])
    splits = {norm: seed_split(table) for norm, table in zip(pair, tables, strict=True)}
    first = runs[pair[0]]
    return ComparisonRecord(
        task=first.task.name,
        scale=first.scale,
        metric=metric,
        norms=pair,
        seeds=list(seeds),
        examples=found.examples,
        gap=float((tables[1] - tables[0]).mean()),
        seed_variance=found.seed,
        example_variance=found.example,
        rest_variance=found.rest,
        seed_error=found.seed_error,
        example_error=found.example_error,
        test_set={norm: split.test_set for norm, split in splits.items() if split},
        distribution={norm: split.distribution for norm, split in splits.items() if split},
    )


def _lines(record: ComparisonRecord, read: Comparison | None) -> list[str]:
    by_examples = f"standard errors: examples {record.example_error:.3f}"
    lines = [f"    {record.gap:+.3f}, {by_examples}"]
    if read is not None:
        interval = f"95 % {read.interval.low:+.3f} to {read.interval.high:+.3f}, p {max(read.p, 0.0001):.4f}"
        lines = [
            f"    {read.gap + 0:+.3f}, {interval}: {read.answer}",
            f"    {by_examples}, seeds {read.seed_error:.3f}; margin {read.margin:g}",
        ]
    for norm, spread in record.test_set.items():
        rest = f"on its distribution {record.distribution[norm]:.3f}"
        lines.append(f"    {norm}: standard deviation over seeds {spread:.3f} on this test set, {rest}")
    return lines
