"""Verdicts in plain words, made from the results of tests."""

from collections.abc import Sequence

from adanorm.config.titles import QUANTITIES, counted, title
from adanorm.verdicts.claims import ClaimResult
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import Claim

ANSWERS = {"worse": "worse", "equivalent": "equivalent within the margin", "open": "open"}
NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")


def listed(names: Sequence[str]) -> str:
    """Return names joined as in a sentence: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def count(number: int) -> str:
    """Return a small number in words."""
    return NUMBERS[number] if number < len(NUMBERS) else str(number)


def data_sets(number: int) -> str:
    """Return a number of data sets in words."""
    return f"{count(number)} data {'set' if number == 1 else 'sets'}"


def claim_sentence(result: ClaimResult) -> str:
    """Return the result of a claim in one sentence, with the conditions of its runs."""
    claim = result.claim
    if not result.run:
        return "Not run: no task has runs of both norms."
    names = {claim.norms(task.task) for task in result.tasks}
    better, worse = "the norm claimed to be better", "the other"
    if len(names) == 1:
        better, worse = map(title, names.pop())
    relation = "no worse than" if claim.bound == "no_worse" else "better than"
    by = "" if claim.quantity == "test" else f" by the {QUANTITIES[claim.quantity]}"
    by_task = {title(task.task): task for task in result.run}
    hits = [name for name, task in by_task.items() if task.holds]
    needed, missing = claim.needed(result.scale), len(result.tasks) - len(result.run)
    several = len(result.tasks) > 1
    if several:
        share = f"{count(len(hits))} of {data_sets(len(result.tasks))}{f' ({listed(hits)})' if hits else ''}"
        finding = f"shown on {share}, claimed on {count(needed)}"
    else:
        finding = f"{'shown' if hits else 'not shown'} on {title(result.tasks[0].task)}"
    by_words = {
        words: [
            name for name, task in by_task.items() if task.pair.answer == answer and not task.holds
        ]
        for answer, words in ANSWERS.items()
        if several or answer != result.verdict  # one data set's answer may be the verdict
    }
    comparisons = {name: task.pair.comparison for name, task in by_task.items()}
    excluded = [name for name, one in comparisons.items() if one and one.papers_gap == "excluded"]
    by_words["the paper's own gap is excluded"] = excluded
    parts = [f"{result.verdict.capitalize()}: {finding}: {better} is {relation} {worse}{by}"]
    parts += [
        f"{words}{f' on {listed(where)}' if several else ''}"
        for words, where in by_words.items()
        if where
    ]
    parts += [f"{count(missing)} without runs"] if missing else []
    return "; ".join(parts) + "." + conditions(claim, result.scale)


def conditions(claim: Claim, scale: str) -> str:
    """Return which runs of a scale a claim reads, as sentences to append to another; perhaps ''."""
    own = {title(task): claim.overrides(scale, task) for task in claim.tasks_at(scale)}
    used = [
        f" {task}: runs with {listed(overrides)}." for task, overrides in own.items() if overrides
    ]
    left_out = [title(task) for task in claim.tasks if task not in claim.tasks_at(scale)]
    no_run = (
        f" Without {listed(left_out)}, where no run of this scale can show it." if left_out else ""
    )
    return "".join([*used, no_run])


def claim_closing(result: ClaimResult) -> str:
    """Return what would close a claim, by task: seeds with core-hours, or runs; '' if it is decided."""
    if result.verdict in ("supported", "contradicted", "no such gain"):
        return ""
    pairs = [(title(task.task), task.pair) for task in result.run if task.pair.answer == "open"]
    missing = [title(task.task) for task in result.tasks if task.pair.answer == "not run"]
    closing = [f"{task}: {lacking(pair)}" for task, pair in pairs]
    return "; ".join([*closing, *([f"runs of {listed(missing)}"] if missing else [])])


def lacking(pair: Pair) -> str:
    """Return what closes a comparison: the seeds to show equivalence, and to find the paper's gap."""
    if pair.comparison is None or pair.prospect is None:
        if any(side.unlearned for side in pair.sides):
            return "runs that learn"
        return "a second seed" if len(pair.seeds) == 1 else "more seeds"
    takes = {"to show equivalence": pair.prospect.to_equate}
    if pair.comparison.papers_gap == "not excluded":
        takes["to find the paper's gap"] = pair.prospect.to_find
    parts = [f"{more(pair, seeds)} {aim}" for aim, seeds in takes.items()]
    is_only_look = (
        pair.comparison.levels.difference == pair.plan.looks.level
    )  # the next seed changes that
    if is_only_look and any(seeds is not None for seeds in takes.values()):
        parts.append("though the next seed widens the interval at first")
    return ", ".join(parts)


def more(pair: Pair, seeds: int | None) -> str:
    """Return how many more seeds of both norms make `seeds`, with their core-hours."""
    if seeds is None:
        return "no number of seeds is enough"
    left = seeds - len(pair.seeds)
    if left <= 0:
        return f"more seeds than these ({seeds} usually do)"
    about = [] if pair.hours_per_seed is None else [f"{left * pair.hours_per_seed:.1f} h"]
    about += ["beyond the plan"] if seeds > pair.plan.looks.after[-1] else []
    return counted(left, "more seed") + (f" ({', '.join(about)})" if about else "")
