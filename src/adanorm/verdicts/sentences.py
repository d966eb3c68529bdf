"""Verdicts in plain words, made from the results of tests."""

from adanorm.config.titles import QUANTITIES, counted, listed, title
from adanorm.verdicts.claims import ClaimResult
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import Claim

ANSWERS = {"worse": "worse", "equivalent": "equivalent within the margin", "open": "open"}
NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")


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
    by_task = {title(task.task): task for task in result.run}
    hits = [name for name, task in by_task.items() if task.holds]
    several = len(result.tasks) > 1
    if several:
        where = f" ({listed(hits)})" if hits else ""
        needed = count(claim.needed(result.scale))
        share = f"{count(len(hits))} of {data_sets(len(result.tasks))}{where}"
        finding = f"shown on {share}, claimed on {needed}"
    else:
        finding = f"{'shown' if hits else 'not shown'} on {title(result.tasks[0].task)}"
    parts = [f"{result.verdict.capitalize()}: {finding}: {_claim_in_words(result)}"]
    for words, tasks in _tasks_by_words(result).items():
        if tasks:
            parts.append(f"{words} on {listed(tasks)}" if several else words)
    missing = len(result.tasks) - len(result.run)
    if missing:
        parts.append(f"{count(missing)} without runs")
    return "; ".join(parts) + "." + conditions(claim, result.scale)


def _claim_in_words(result: ClaimResult) -> str:
    """Return what a claim says of two norms, which may be other ones on each data set."""
    claim = result.claim
    names = {claim.norms(task.task) for task in result.tasks}
    better = "the norm claimed to be better"
    worse = "the other"
    if len(names) == 1:
        better, worse = map(title, names.pop())
    relation = "no worse than" if claim.bound == "no_worse" else "better than"
    by = "" if claim.quantity == "test" else f" by the {QUANTITIES[claim.quantity]}"
    return f"{better} is {relation} {worse}{by}"


def _tasks_by_words(result: ClaimResult) -> dict[str, list[str]]:
    """Return where a claim is not shown, by answer, and where the paper's gap is excluded."""
    by_words: dict[str, list[str]] = {}
    for answer, words in ANSWERS.items():
        if len(result.tasks) == 1 and answer == result.verdict:
            continue  # one data set's answer is the verdict
        by_words[words] = []
        for task in result.run:
            if task.pair.answer == answer and not task.holds:
                by_words[words].append(title(task.task))
    excluded = by_words["the paper's own gap is excluded"] = []
    for task in result.run:
        comparison = task.pair.comparison
        if comparison and comparison.papers_gap == "excluded":
            excluded.append(title(task.task))
    return by_words


def conditions(claim: Claim, scale: str) -> str:
    """Return which runs of a scale a claim reads, as a sentence to append to another; perhaps ''."""
    tasks = claim.tasks_at(scale)
    left_out = [title(task) for task in claim.tasks if task not in tasks]
    if not left_out:
        return ""
    return f" Without {listed(left_out)}, where no run of this scale can show it."


def claim_closing(result: ClaimResult) -> str:
    """Return what would close a claim, by task: seeds with core-hours, or runs.

    '' if it is decided.
    """
    if result.verdict in ("supported", "contradicted", "no such gain"):
        return ""
    closing = []
    missing = []
    for task in result.tasks:
        if task.pair.answer == "open":
            closing.append(f"{title(task.task)}: {lacking(task.pair)}")
        elif task.pair.answer == "not run":
            missing.append(title(task.task))
    if missing:
        closing.append(f"runs of {listed(missing)}")
    return "; ".join(closing)


def lacking(pair: Pair) -> str:
    """Return what closes a comparison: seeds to show equivalence and to find the paper's gap."""
    comparison = pair.comparison
    prospect = pair.prospect
    if comparison is None or prospect is None:
        if any(side.unlearned for side in pair.sides):
            return "runs that learn"
        return "a second seed" if len(pair.seeds) == 1 else "more seeds"
    takes = {"to show equivalence": prospect.to_equate}
    if comparison.papers_gap == "not excluded":
        takes["to find the paper's gap"] = prospect.to_find
    parts = [f"{more(pair, seeds)} {aim}" for aim, seeds in takes.items()]
    # The next seed changes that.
    is_only_look = comparison.levels.difference == pair.plan.looks.level
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
    about = []
    if pair.hours_per_seed is not None:
        about.append(f"{left * pair.hours_per_seed:.1f} h")
    if seeds > pair.plan.looks.after[-1]:
        about.append("beyond the plan")
    text = counted(left, "more seed")
    return f"{text} ({', '.join(about)})" if about else text
