"""The verdicts on the paper's claims as text, and the answer to the main question on each data set."""

from collections.abc import Sequence
from statistics import fmean

from adanorm.config.paths import RUNS
from adanorm.config.titles import QUANTITIES, task_metric, title
from adanorm.records import reader
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.table import origin_note
from adanorm.reporting.text import how_to_read, markdown_table
from adanorm.stats.conjunction import pooled
from adanorm.verdicts.claims import ClaimResult, TaskAnswer, TaskResult, claims_of_the_paper
from adanorm.verdicts.pair import Pair, published_gap
from adanorm.verdicts.preregistration import Claim, preregistration
from adanorm.verdicts.sentences import claim_closing, claim_sentence, count, data_sets, listed, more

ANSWER_COLUMNS = (
    "Data set",
    "Trained with",
    "Seeds",
    "AdaNorm's lead",
    "Sign",
    "Size",
    "The paper's lead",
)
SIZES = {"paper": "the paper's size", "small": "small model and data"}
CLAIM_COLUMNS = (
    "task", "quantity", "better", "worse", "effect", "95 % interval", "interval for the margin", "noise",
    "margin", "answer", "p", "seeds", "the paper's gap", "excluded (p)", "to find the paper's gap",
    "to show equivalence", "validation, best epoch", "validation, level",
)  # fmt: skip


def registered_note() -> str:
    """Return the note on registration: where claims, margins and the stopping rule were written down."""
    registered = preregistration()
    plan = registered.stopping
    return (
        "Claims, margins, norms and the stopping rule were written down in `conf/claims/paper.yaml`, digest"
        f" **{registered.digest}**. The first plan reads {plan.planned} seeds of each cell once; with more"
        f" it looks after each seed, up to {plan.most}. Later plans decide at scale small, with looks of"
        " their own; RT, SST5 and MNIST are at full size there. `docs/verdicts.md` has every formula."
    )


def claims_markdown(judgements: Sequence[ClaimResult]) -> str:
    """Return the claims in Markdown: first all verdicts, then one table of comparisons per claim."""
    lines = ["# The paper's claims, tested", "", registered_note(), ""]
    lines += [line for text in origin_note(reader.records(RUNS)) for line in (text, "")]
    rows = (
        [r.claim.text, r.scale, f"**{r.verdict}**", claim_sentence(r), claim_closing(r)]
        for r in judgements
    )
    lines += markdown_table(("claim", "scale", "verdict", "in words", "what would close it"), rows)
    lines += ["", "## How to read the tables", "", how_to_read("Claims"), ""]
    own_table = "The paper's own table"
    lines += [f"## {own_table}, tested as the paper's claims", "", how_to_read(own_table), ""]
    own = (
        [claim.text, *map(str, counts), p_text(p)] for claim, *counts, p in claims_of_the_paper()
    )
    lines += markdown_table(
        ("claim", "data sets for it", "against", "equal", "p of the sign test"), own
    )
    for result in judgements:
        if result.run:
            lead = f"{result.claim.source}. Scale {result.scale}: {claim_sentence(result)}"
            lines += ["", f"## {result.claim.text}", "", lead, ""]
            lines += [
                *markdown_table(CLAIM_COLUMNS, map(claim_row, result.run)),
                "",
                over_tasks(result),
            ]
    return "\n".join([*lines, ""])


def claim_row(task: TaskResult) -> list[str]:
    """Return a claim's comparison on a task as a row, one text for each of CLAIM_COLUMNS."""
    pair, quantity = task.pair, task.claim.quantity
    comparison = pair.comparison
    metric = task_metric(task.task).label if quantity == "test" else QUANTITIES[quantity]
    if overrides := task.claim.overrides(pair.scale, task.task):
        metric = f"{metric} ({', '.join(overrides)})"
    answer = f"{pair.answer} ({pair.remark})" if pair.remark else pair.answer
    row = [title(task.task), metric, *map(title, pair.norms)]
    if comparison is None:
        effect = f"{fmean(pair.gaps):+.3f}" if pair.gaps else "-"
        return [*row, effect, *["-"] * 4, answer, "-", str(len(pair.seeds)), *["-"] * 6]
    paper, prospect = comparison.paper, pair.prospect
    assert prospect is not None, "with a comparison"
    excluded = "yes" if comparison.papers_gap == "excluded" else "no"
    return [
        *row,
        f"{comparison.gap:+.3f}",
        comparison.interval.text(3),
        comparison.margin_interval.text(3),
        f"seeds, {comparison.examples:,} examples" if comparison.examples else "seeds",
        f"{comparison.margin:g}",
        answer,
        p_text(comparison.p),
        str(comparison.seeds),
        f"{paper.value:+.3f}{'' if paper.confirmed else UNCONFIRMED}" if paper else "-",
        f"{excluded} ({p_text(comparison.paper_p)})" if paper else "-",
        _seeds_text(pair, prospect.to_find) if paper else "-",
        _seeds_text(pair, prospect.to_equate),
        _effect_and_half(task.best_epoch),
        _effect_and_half(task.level),
    ]


def _seeds_text(pair: Pair, seeds: int | None) -> str:
    if seeds is None:
        return "no number"
    return f"{seeds}: {more(pair, seeds)}" if seeds > len(pair.seeds) else str(seeds)


def _effect_and_half(pair: Pair | None) -> str:
    """Return an effect ± half the width of its interval."""
    comparison = pair.comparison if pair else None
    return (
        f"{comparison.gap:+.3f} ± {comparison.interval.high - comparison.gap:.3f}"
        if comparison
        else "-"
    )


def p_text(p: float | None) -> str:
    """Return a p as text, `< .001` if it is smaller than that."""
    return "-" if p is None else "< .001" if p < 0.001 else f"{p:.3f}"


def over_tasks(result: ClaimResult) -> str:
    """Return a paragraph with the tests of a claim over all its tasks."""
    holds, contrary, no_gain = result.family or result.ps
    return (
        f"Over all data sets, p corrected for the claims of the scale: {p_text(holds)} for the claim,"
        f" {p_text(contrary)} for the opposite, {p_text(no_gain)} for no such gain. The claim"
        f" is shown on at least {result.shown_on} of them."
    )


def question() -> Claim:
    """Return the claim that AdaNorm beats LayerNorm."""
    return next(claim for claim in preregistration().claims if claim.id == "adanorm")


def headline(answers: Sequence[TaskAnswer]) -> str:
    """Return where AdaNorm is ahead or behind, where the paper's lead is excluded, and missing answers."""
    compared = {title(one.task): one.comparison for one in answers if one.comparison is not None}
    ahead, behind = (
        [task for task, c in compared.items() if c.sign == sign] for sign in ("ahead", "behind")
    )
    excluded, first_plan = (
        [
            title(one.task)
            for one in group
            if one.comparison and one.comparison.papers_gap == "excluded"
        ]
        for group in (answers, [one.before for one in answers if one.before])
    )
    where = {
        "on": excluded,
        "by the first plan on": [task for task in first_plan if task not in excluded],
    }
    papers = ", and ".join(f"{how} {listed(tasks)}" for how, tasks in where.items() if tasks)
    lacking = [one for one in answers if one.comparison is None]
    missing = [title(one.task) for one in lacking if not one.setback]
    uncompared = [f"{title(one.task)} ({one.setback})" for one in lacking if one.setback]
    of = (
        f"the {data_sets(len(compared))} with an answer"
        if compared and lacking
        else data_sets(len(answers))
    )
    claimed = count(question().needed("paper")), count(len(question().tasks_at("paper")))
    sentences = [
        f"AdaNorm is ahead of LayerNorm on {count(len(ahead))} of {of}"
        f"{f' ({listed(ahead)})' if ahead else ''}; the paper reports it on {claimed[0]} of {claimed[1]}.",
        f"It is behind on {listed(behind)}." if behind else "",
        f"The paper's lead is excluded {papers}." if papers else "",
        f"Not compared: {listed(uncompared)}." if uncompared else "",
        f"No answer yet: {listed(missing)}." if missing else "",
    ]
    return " ".join(filter(None, sentences))


def answer_rows(answers: Sequence[TaskAnswer]) -> list[list[str]]:
    """Return one row per data set, with one text for each of ANSWER_COLUMNS; rows without an answer are last.

    Below an answer by a later plan is a second row with the first plan's answer by its own rule.
    """
    rows = []
    for one in sorted(answers, key=lambda one: one.comparison is None):
        rows += [_answer_row(one)] + (
            [_answer_row(one.before, ", first plan")] if one.before else []
        )
    return rows


def _answer_row(one: TaskAnswer, mark: str = "") -> list[str]:
    metric, gap = task_metric(one.task), published_gap(one.task, *question().norms(one.task))
    about = [f"{title(one.task)} ({metric.label})", f"{SIZES[one.scale]}{mark}"]
    papers = "" if gap is None else f"{gap.value + 0.0:+.2f}"  # no -0.00
    comparison = one.comparison
    if comparison is None and one.setback:
        return [*about, "", f"not compared: {one.setback}", "", "", papers]
    if comparison is None:
        next_look = "" if one.next_look is None else f" of {one.next_look}"
        return [*about, f"{one.pairs}{next_look}", "no answer yet", "", "", papers]
    digits = comparison.digits
    lead = f"{comparison.gap:+.{digits}f} ({comparison.interval.text(digits)})"
    size = f"{comparison.size}, ±{comparison.margin:g} ({comparison.margin_interval.text(digits)})"
    return [*about, one.seeds, lead, comparison.sign, size, f"{papers}, {comparison.papers_gap}"]


def corrections(answers: Sequence[TaskAnswer]) -> str:
    """Return the answers corrected for the number of data sets, and the pooled lead on translation."""
    compared = [(one, one.comparison) for one in answers if one.comparison is not None]
    significant = [title(one.task) for one, _ in compared if one.family_p < preregistration().level]
    names = listed(significant) if significant else "none of them"
    text = f"Corrected for {data_sets(len(answers))} (Holm), AdaNorm is ahead or behind on {names}."
    translations = [
        comparison for one, comparison in compared if task_metric(one.task).label == "BLEU"
    ]
    if len(translations) < 2:
        return text
    whole = pooled(translations)
    return (
        f"{text} Over {count(len(translations))} translations together the lead is"
        f" {whole.gap:+.2f} BLEU ({whole.interval.text(2)}): {whole.sign}."
    )
