"""Compare norms on the same test examples, from the recorded outputs of completed runs.

Seeds and examples are crossed: the interval of a difference allows for both, and their standard errors are
printed and recorded, so that the claims allow for them too. The variance over seeds is each comparison's
own, with the task's other norms as a prior. Without `norm` the comparisons of the task's claims are made.
From five seeds on, each norm's spread is split into that on this test set and that on its distribution.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.values import seed_list
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.metrics.table import KIND_METRICS, METRICS
from adanorm.records.comparisons import ComparisonRecord
from adanorm.runs.auto_scale import resolve_auto
from adanorm.verdicts.by_example import Norms, claimed_pairs, compare_by_example, shared_seeds
from adanorm.verdicts.cell import cell_on_record, variance_of
from adanorm.verdicts.comparison import Comparison
from adanorm.verdicts.pair import ExampleNoise, compared
from adanorm.verdicts.preregistration import preregistration

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
    first = compose_experiment(overrides)
    if given["metric"] not in ("", *(known := KIND_METRICS[first.task.kind].test)):
        raise ValueError(f"metric={given['metric']}: the test of {first.task.name} yields {', '.join(known)}")
    pairs = _named_pairs(given["norm"]) if given["norm"] else claimed_pairs(first.task.name)
    if not pairs:
        raise ValueError(f"task={first.task.name}: no claim is of it; name norms: norm=layernorm,adanorm")
    norms = dict.fromkeys([*preregistration().norms, *(norm for pair in pairs for norm in pair)])
    runs = {norm: compose_experiment([*overrides, f"norm={norm}"]) for norm in norms}
    if not given["norm"]:
        pairs = [pair for pair in pairs if shared_seeds(runs, pair, seeds)]
        if not pairs:
            raise ValueError(f"{first.task.name} {first.scale}: no completed runs of two norms of a claim")
    for line in compare(runs, pairs, seeds=seeds, metric=given["metric"]):
        print(line)


def _named_pairs(text: str) -> list[Norms]:
    first, *others = norms = text.split(",")
    if twice := next((norm for norm in norms if norms.count(norm) > 1), None):
        raise ValueError(f"norm={text}: {twice} is named twice")
    if not others:
        raise ValueError("name two norms or more, such as norm=layernorm,adanorm")
    return [(first, other) for other in others]


def compare(
    runs: Mapping[str, Experiment],
    pairs: Sequence[Norms],
    *,
    seeds: Sequence[int] | None = None,
    metric: str = "",
) -> Sequence[str]:
    """Return lines on pairs of norms, which are put on record; `runs` has one run of each norm.

    Of a pair the second norm's difference from the first is shown; of other seeds, another metric or other
    settings than claims are of it is not recorded. The other norms' runs, where there are some, tell of the
    variance. Raises ValueError where a run is missing or has no outputs.
    """
    comparisons = compare_by_example(runs, pairs, seeds=seeds, metric=metric)
    cells = {norm: cell_on_record(run) for norm, run in runs.items()}
    variance = variance_of({norm: cell for norm, cell in cells.items() if cell.runs})
    first = next(iter(runs.values()))
    lines = [f"{first.task.name} {first.scale}, test {METRICS[metric or first.task.metric].label}"]
    for one in comparisons:
        record, (worse, better) = one.record, one.record.norms
        margin = preregistration().margin(first.task.name, "test")
        noise = ExampleNoise(record.example_error, record.examples)
        comparison = compared(variance, better, worse, one.gaps, margin=margin or 0.0, noise=noise)
        named = ", ".join(map(str, record.seeds))
        headline = f"{better} over {worse}, seeds {named}, {record.examples:,} examples"
        lines += textwrap.wrap(headline, 80, initial_indent="  ", subsequent_indent="    ")
        lines += _lines(record, comparison)
        if one.parts:
            parts = ", ".join(f"{name} {part + 0:+.3f}" for name, part in one.parts.items())
            lines.append(f"    of it {parts}")
        if not one.is_on_record:
            lines.append("    not recorded: claims are of all seeds that the two share, the task's own")
            lines.append("      metric and the norms' own settings")
    return lines


def _lines(record: ComparisonRecord, comparison: Comparison | None) -> list[str]:
    by_examples = f"standard errors: examples {record.example_error:.3f}"
    lines = [f"    {record.gap:+.3f}, {by_examples}"]
    if comparison is not None:
        low, high = comparison.interval
        interval = f"95 % {low:+.3f} to {high:+.3f}, p {max(comparison.p, 0.0001):.4f}"
        lines = [
            f"    {comparison.gap + 0:+.3f}, {interval}: {comparison.answer}",
            f"    {by_examples}, seeds {comparison.seed_error:.3f}; margin {comparison.margin:g}",
        ]
    for norm, spread in record.test_set.items():
        lines.append(f"    {norm}: standard deviation over seeds {spread:.3f} on this test set,")
        lines.append(f"      on its distribution {record.distribution[norm]:.3f}")
    return lines
