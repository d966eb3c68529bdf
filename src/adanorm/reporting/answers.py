"""The answer to the question, data set by data set: a sentence and a table, from the records."""

from collections.abc import Sequence

from adanorm.config.titles import task_metric, title
from adanorm.verdicts.claims import TaskAnswer
from adanorm.verdicts.conjunction import pooled
from adanorm.verdicts.pair import published_gap
from adanorm.verdicts.preregistration import Claim, preregistration
from adanorm.verdicts.sentences import count, data_sets, listed

QUESTION = "adanorm"  # the claim that answers it
HEADER = ("Data set", "Trained at", "Seeds", "AdaNorm's lead", "Sign", "Size", "The paper's lead")
SIZES = {"paper": "the paper's size", "small": "a small size, to the end"}


def question() -> Claim:
    """Return the claim that AdaNorm beats LayerNorm."""
    return next(claim for claim in preregistration().claims if claim.id == QUESTION)


def headline(answers: Sequence[TaskAnswer]) -> str:
    """Return where AdaNorm is ahead or behind, where the paper's lead is excluded, and what is missing."""
    known = {title(one.task): one.comparison for one in answers if one.comparison is not None}
    ahead, behind = ([task for task, c in known.items() if c.sign == sign] for sign in ("ahead", "behind"))
    excluded = _excluded(answers)
    earlier = [
        task for task in _excluded([one.before for one in answers if one.before]) if task not in excluded
    ]
    where = {"on": excluded, "by the first plan on": earlier}
    papers = ", and ".join(f"{how} {listed(tasks)}" for how, tasks in where.items() if tasks)
    missing = [title(one.task) for one in answers if one.comparison is None]
    sentences = [
        f"AdaNorm is ahead of LayerNorm on {count(len(ahead))} of {data_sets(len(answers))}"
        f"{f' ({listed(ahead)})' if ahead else ''}; the paper reports {count(question().needed('paper'))}.",
        f"It is behind on {listed(behind)}." if behind else "",
        f"The paper's lead is excluded {papers}." if papers else "",
        f"No answer yet: {listed(missing)}." if missing else "",
    ]
    return " ".join(filter(None, sentences))


def _excluded(answers: Sequence[TaskAnswer]) -> list[str]:
    """Return the data sets on which the paper's lead is excluded."""
    return [title(one.task) for one in answers if one.comparison and one.comparison.papers_gap == "excluded"]


def answer_rows(answers: Sequence[TaskAnswer]) -> list[list[str]]:
    """Return one row per data set, with the columns of HEADER; those without an answer come last.

    Under an answer by a later plan stands what the first plan had decided, by its own rule, marked so.
    """
    rows = []
    for one in sorted(answers, key=lambda one: one.comparison is None):
        rows += [_row(one)] + ([_row(one.before, ", first plan")] if one.before else [])
    return rows


def _row(one: TaskAnswer, mark: str = "") -> list[str]:
    metric, gap = task_metric(one.task), published_gap(one.task, *question().norms(one.task))
    about = [f"{title(one.task)} ({metric.label})", f"{SIZES[one.scale]}{mark}"]
    papers = "" if gap is None else f"{gap.value + 0.0:+.2f}"  # no -0.00
    comparison = one.comparison
    if comparison is None:
        next_look = "" if one.next_look is None else f" of {one.next_look}"
        return [*about, f"{one.pairs}{next_look}", "no answer yet", "", "", papers]
    lead = f"{comparison.gap:+.2f} ({comparison.interval.text(2)})"
    size = f"{comparison.size}, ±{comparison.margin:g} ({comparison.margin_interval.text(2)})"
    if comparison.papers_gap != "not comparable":
        papers = f"{papers}, {comparison.papers_gap}"
    return [*about, str(comparison.seeds), lead, comparison.sign, size, papers]


def corrections(answers: Sequence[TaskAnswer]) -> str:
    """Return what is left of the answers when they are corrected for their number, and translation pooled."""
    level = preregistration().level
    known = [(one, one.comparison) for one in answers if one.comparison is not None]
    told = [title(one.task) for one, _ in known if one.family_p < level]
    left = listed(told) if told else "none"
    text = f"Corrected for {data_sets(len(answers))} (Holm), ahead or behind: {left}."
    translations = [comparison for one, comparison in known if task_metric(one.task).label == "BLEU"]
    if len(translations) < 2:
        return text
    whole = pooled(translations)
    return (
        f"{text} Of {count(len(translations))} translations together the lead is"
        f" {whole.gap:+.2f} BLEU ({whole.interval.text(2)}): {whole.sign}."
    )
