"""Compare norms on the same test examples, from the counts per example in the records of completed runs.

Every seed is scored on every example, and an interval allows for the noise of both. It holds for
one look at these seeds; the intervals of claims are wider, because they allow for all looks of a
plan. The variance over seeds is estimated for each comparison, with the task's other norms as a
prior. From five seeds on, each norm has two standard deviations over seeds: on this test set, and
on the distribution that it is drawn from. The last line has a digest of the outputs that were used.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from adanorm.cli.command import Arguments, Key, Usage, name_list, seed_list
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.config.sections import seed_series
from adanorm.metrics.table import KIND_METRICS, METRICS
from adanorm.runs.auto_scale import resolve_auto
from adanorm.stats.comparison import Comparison
from adanorm.stats.variance import TaskVariance, spread_of
from adanorm.verdicts.cell import cell_on_record
from adanorm.verdicts.evidence import variance_of
from adanorm.verdicts.plan import Plan, comparison_of
from adanorm.verdicts.preregistration import Norms, claimed_pairs, first_plan, preregistration
from adanorm.verdicts.same_examples import ByExample, compare_examples, runs_of

RUN_KEYS = ("task", "scale", "runs")  # settings of all runs that are compared

USAGE = Usage(
    keys={
        "norm": Key(
            "two or more, each compared with the first (default: pairs of claims)", also=("norms",)
        ),
        "seed": Key(
            "such as 1,2,3 (default: those of 1 to 40 that both norms have)", also=("seeds",)
        ),
        "metric": Key("for translations: bleu, sacrebleu or compound_bleu (default: the task's)"),
    },
    settings="of the runs",
    examples=(
        "task=rt norm=layernorm,adanorm seed=1,2,3",
        "task=de-en scale=mini",
        "task=rt scale=paper",
    ),
)


def main(arguments: Arguments) -> None:
    """Print the differences of the norms that the command line names."""
    keys = arguments.keys
    check_fixed(
        [setting for setting in arguments.settings if setting.partition("=")[0] not in RUN_KEYS]
    )
    named = [f"{key}={keys[key]}" for key in ("norm", "seed") if keys[key]]
    overrides = resolve_auto([*named, *arguments.settings])[len(named) :]
    seeds = seed_list(keys["seed"]) if keys["seed"] else ()
    first = compose_experiment(overrides)
    if keys["metric"] not in ("", *(names := KIND_METRICS[first.task.kind].test)):
        raise ValueError(
            f"metric={keys['metric']}: the test of {first.task.name} yields {', '.join(names)}"
        )
    base, *others = name_list("norm", keys["norm"])
    if base and not others:
        raise ValueError("name two or more norms, such as norm=layernorm,adanorm")
    pairs = [(base, other) for other in others] or claimed_pairs(first.task.name)
    if not pairs:
        raise ValueError(
            f"task={first.task.name}: no claim names it; give norms: norm=layernorm,adanorm"
        )
    norms = dict.fromkeys([*preregistration().norms, *(norm for pair in pairs for norm in pair)])
    runs = {norm: compose_experiment([*overrides, f"norm={norm}"]) for norm in norms}
    if not keys["norm"]:
        done = {norm for norm, run in runs.items() if cell_on_record(run).by_seed}
        pairs = [pair for pair in pairs if done.issuperset(pair)]
        if not pairs:
            raise ValueError(
                f"{first.task.name} {first.scale}: no completed runs of two norms of a claim"
            )
    print(
        "\n".join(
            compare(
                runs,
                pairs,
                seeds=seeds,
                metric=keys["metric"],
            )
        )
    )


def compare(
    runs: Mapping[str, Experiment],
    pairs: Sequence[Norms],
    *,
    seeds: Sequence[int] = (),
    metric: str = "",
) -> Sequence[str]:
    """Return the lines that compare each pair of norms; `runs` has one run of each norm.

    They show by how much the second norm of a pair differs from the first. Runs of other norms, if
    any, inform the variance. Raises ValueError if a run is missing or has no counts per example.
    """
    runs = {
        norm: run.model_copy(update={"seed": (*seeds, run.seed)[0]}) for norm, run in runs.items()
    }
    cells = {norm: cell_on_record(run) for norm, run in runs.items()}
    variance = variance_of({norm: cell for norm, cell in cells.items() if cell.runs})
    first = next(iter(runs.values()))
    metric = metric or first.task.metric
    plan = first_plan(first.task.name, first.scale)
    if metric != first.task.metric:
        plan = replace(plan, margin=0.0)  # margins are of the task's own metric
    lines = [f"{first.task.name} {first.scale}, test {METRICS[metric].label}"]
    for base, other in pairs:
        pair_seeds = (
            seeds
            or sorted(cells[base].by_seed.keys() & cells[other].by_seed.keys())
            or [first.seed]
        )
        pair = compare_examples([runs_of(runs[norm], pair_seeds) for norm in (base, other)], metric)
        if pair is None:
            raise ValueError(
                f"{first.task.name}: no run has the {metric} of two or more test examples"
            )
        comparison = _comparison(
            plan,
            pair,
            variance,
            (base, other),
        )
        seed_names = ", ".join(map(str, pair.seeds))
        headline = f"{other} over {base}, seeds {seed_names}, {pair.noise.examples:,} examples"
        lines += textwrap.wrap(
            headline,
            80,
            initial_indent="  ",
            subsequent_indent="    ",
        )
        example = max(cells[norm].example for norm in (base, other))
        lines += _lines(
            pair,
            comparison,
            (base, other),
            example,
        )
    return lines


def _comparison(
    plan: Plan, pair: ByExample, variance: TaskVariance, norms: Norms
) -> Comparison | None:
    """Return the comparison of the gaps that the counts per example make.

    None if no plan reads them.
    """
    seeds = len(pair.gaps)
    if seeds < 2:
        return None
    if seeds > plan.last:  # no look has so many: they are read once
        plan = replace(plan, planned=seeds)
    spread = variance.of_difference(*norms)
    if seeds > plan.planned:
        spread = spread_of(variance.gaps(*norms), variance.resolution)
    return comparison_of(
        plan,
        pair.gaps,
        seeds,
        spread,
        noise=pair.noise,
    )


def _lines(
    pair: ByExample, comparison: Comparison | None, norms: Norms, example: float
) -> list[str]:
    errors = f"standard errors: examples {pair.noise.example_error:.3f}"
    lines = [f"    {fmean(pair.gaps):+.3f}, {errors}"]
    if comparison is not None:
        interval = f"95 % {comparison.interval.text(3)}, p {max(comparison.p, 0.0001):.4f}"
        lines = [
            f"    {comparison.gap + 0:+.3f}, {interval}: {comparison.answer}",
            f"    {errors}, seeds {comparison.seed_error:.3f}",
        ]
        if margin := comparison.margin:
            narrow = comparison.margin_interval.text(3)
            lines.append(f"    margin {margin:g}: 90 % {narrow}, {comparison.size}")
            if example > margin:
                lines.append(f"      one test example is {example:.2g}: more than the margin")
    for norm, spread in zip(
        norms,
        pair.spreads,
        strict=True,
    ):
        if spread is not None:
            lines.append(
                f"    {norm}: standard deviation over seeds {spread[0]:.3f} on this test set,"
            )
            lines.append(f"      {spread[1]:.3f} on the distribution that it is drawn from")
    if pair.parts:
        lines.append(
            f"    gap: {', '.join(f'{name} {part + 0:+.3f}' for name, part in pair.parts.items())}"
        )
    names = ("seeds 1 to 40", "seeds 41 to 100", "seeds from 101 on", "seeds of trials")
    series = names[seed_series(pair.seeds[0])]
    return [*lines, f"    digest of the outputs: {pair.outputs}; series: {series}"]
