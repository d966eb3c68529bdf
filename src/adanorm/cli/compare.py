"""Compare norms, from the records of completed runs.

Without seeds and metric, it reads what decides: the plan that governs the task, with its score, its
seeds and its intervals. With seeds or a metric, or where no later plan has looked, it compares
the norms on the same test examples, by the counts per example. Every seed is scored on every
example, and an interval allows for the noise of both. It holds for one look at these seeds; those
of a plan are wider, because they allow for all its looks. The variance over seeds is estimated for
each comparison, with the task's other norms as a prior. From five seeds on, each norm has two
standard deviations over seeds: on this test set, and without the noise of its examples. The last
line has a digest of the outputs that were used.
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from adanorm.cli.command import Arguments, Key, Usage, name_list, seed_list
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import check_fixed
from adanorm.config.titles import KIND_METRICS, METRICS
from adanorm.reporting.tables.answers import question, score_words
from adanorm.reporting.text import seeds as seeds_text
from adanorm.runs.auto_scale import resolve_auto
from adanorm.stats.comparison import Comparison
from adanorm.stats.variance import TaskVariance, spread_of
from adanorm.verdicts.cell import cell_of, cell_on_record
from adanorm.verdicts.deciding import deciding_pair, plans_to_decide
from adanorm.verdicts.evidence import variance_of
from adanorm.verdicts.pair import Pair
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
            "such as 1,2,3 (default: those that the plan reads which decides)", also=("seeds",)
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
    is_of_default_scale = not any(entry.startswith("scale=") for entry in overrides)
    if is_of_default_scale and first.task.name in preregistration().margins:
        overrides.append(f"scale={plans_to_decide(first.task.name)[0].scale}")
        first = compose_experiment(overrides)
    if keys["metric"] not in ("", *(names := KIND_METRICS[first.task.kind].test)):
        raise ValueError(
            f"metric={keys['metric']}: the test of {first.task.name} yields {', '.join(names)}"
        )
    base, *compared = name_list("norm", keys["norm"])
    if base and not compared:
        raise ValueError("name two or more norms, such as norm=layernorm,adanorm")
    pairs = [(base, norm) for norm in compared] or claimed_pairs(first.task.name)
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
            task = first.task.name
            hint = f"; its answer: adanorm trace answer/{task}" if task in question().tasks else ""
            raise ValueError(
                f"{task} {first.scale}: no completed runs of two norms of a claim{hint}"
            )
    folder = next((s.partition("=")[2] for s in overrides if s.startswith("runs=")), None)
    plain = compose_experiment([f"task={first.task.name}", f"scale={first.scale}"])
    is_plain = plain.identity == first.identity  # a plan reads no runs with other settings
    decided: dict[Norms, Pair | None] = {}
    for norm_pair in pairs:
        decided[norm_pair] = None
        if is_plain:
            decided[norm_pair] = deciding_pair(first.task.name, first.scale, norm_pair, folder)
    lines = []
    if not (seeds or keys["metric"]):
        for norm_pair, decision in decided.items():
            lines += _decision(norm_pair, decision) if decision else []
        pairs = [norm_pair for norm_pair in pairs if decided[norm_pair] is None]
    if pairs:
        lines += compare(
            runs,
            pairs,
            seeds=seeds,
            metric=keys["metric"],
        )
        for norm_pair in pairs if is_plain else ():
            lines += _where_it_is_decided(norm_pair, decided[norm_pair], first.task.name)
    print("\n".join(lines))


def _decision(norms: Norms, decided: Pair) -> list[str]:
    """Return lines on two norms as the plan reads them that decides."""
    plan, (base, rival) = decided.plan, norms
    lines = [
        f"{plan.task} {plan.scale}: {rival} over {base}, plan {plan.name}, which decides",
        f"  score: {score_words(plan, decided.sides[0].results)}",
        f"  {seeds_text([decided.seeds])}",
    ]
    comparison = decided.comparison
    if comparison is None:
        lines.append(f"  {decided.answer}: {decided.remark}")
    else:
        sign, size = comparison.interval.text(3), comparison.margin_interval.text(3)
        lines += [
            f"  {comparison.gap + 0:+.3f} (95 %: {sign}): {decided.answer}",
            f"  margin {comparison.margin:g} (90 %: {size})",
        ]
    if (rival, base) == question().norms(plan.task):
        lines.append(f"  every run: adanorm trace answer/{plan.task}")
    return lines


def _where_it_is_decided(norms: Norms, decided: Pair | None, task: str) -> list[str]:
    """Return a line that names the score that decides, where this comparison reads another."""
    base, rival = norms
    if decided is not None:
        plan = decided.plan
        score = score_words(plan, decided.sides[0].results)
        command = f"adanorm compare task={task} scale={plan.scale} norm={base},{rival}"
        return [f"the decision reads {score}, {seeds_text([decided.seeds])}:", f"  {command}"]
    if task in question().tasks and (rival, base) == question().norms(task):
        return [f"the decision may read other runs: adanorm trace answer/{task}"]
    return []


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
    cells = {}
    for norm, run in runs.items():
        cell = cell_on_record(run)
        named = [past for past in cell.runs if past.seed in seeds]
        cells[norm] = cell_of(run, named) if named else cell
    variance: TaskVariance | None = variance_of(
        {norm: cell for norm, cell in cells.items() if cell.runs}
    )
    first = next(iter(runs.values()))
    metric = metric or first.task.metric
    plan = first_plan(first.task.name, first.scale)
    if metric != first.task.metric:  # margins and variances are of the task's own metric
        plan, variance = replace(plan, margin=0.0), None
    lines = [f"{first.task.name} {first.scale}, test {METRICS[metric].label}"]
    for base, rival in pairs:
        pair_seeds = (
            seeds
            or sorted(cells[base].by_seed.keys() & cells[rival].by_seed.keys())
            or [first.seed]
        )
        pair = compare_examples([runs_of(runs[norm], pair_seeds) for norm in (base, rival)], metric)
        if pair is None:
            raise ValueError(
                f"{first.task.name}: no run has the {metric} of two or more test examples"
            )
        comparison = _comparison(
            plan,
            pair,
            variance,
            (base, rival),
        )
        headline = (
            f"{rival} over {base}, {seeds_text([pair.seeds])}, {pair.noise.examples:,} examples"
        )
        lines += textwrap.wrap(
            headline,
            80,
            initial_indent="  ",
            subsequent_indent="    ",
        )
        example = max(cells[norm].example for norm in (base, rival))
        lines += _lines(
            pair,
            comparison,
            (base, rival),
            example,
        )
    return lines


def _comparison(
    plan: Plan, pair: ByExample, variance: TaskVariance | None, norms: Norms
) -> Comparison | None:
    """Return the comparison of the gaps that the counts per example make, at one look.

    `variance` informs it if it is one of these scores, else the gaps alone do. None for one seed.
    """
    seeds = len(pair.gaps)
    if seeds < 2:
        return None
    plan = replace(plan, planned=seeds)
    spread = spread_of(pair.gaps) if variance is None else variance.of_difference(*norms)
    noise = {"example_error": pair.noise.example_error, "examples": pair.noise.examples}
    return comparison_of(plan, pair.gaps, seeds, spread, **noise)


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
            lines.append(f"      {spread[1]:.3f} without the noise of its examples")
    if pair.parts:
        lines.append(
            f"    gap: {', '.join(f'{name} {part + 0:+.3f}' for name, part in pair.parts.items())}"
        )
    return [*lines, f"    digest of the test outputs: {pair.outputs}"]
