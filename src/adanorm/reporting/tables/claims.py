"""The verdicts on the paper's claims as text, and the answer to the main question."""

from collections.abc import Sequence
from statistics import fmean

from adanorm.config.paths import RUNS
from adanorm.config.titles import (
    QUANTITIES,
    task_metric,
    title,
)
from adanorm.records import reader
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.table import origin_note
from adanorm.reporting.text import how_to_read, markdown_table, p_text
from adanorm.stats.comparison import Comparison
from adanorm.stats.conjunction import pooled
from adanorm.verdicts.claims import (
    ClaimResult,
    TaskAnswer,
    TaskResult,
    claims_of_the_paper,
)
from adanorm.verdicts.pair import Pair, published_gap
from adanorm.verdicts.preregistration import (
    Claim,
    preregistration,
)
from adanorm.verdicts.sentences import (
    claim_closing,
    claim_sentence,
    count,
    data_sets,
    listed,
    more,
)

ANSWER_COLUMNS = (
    "Data set", "Trained with", "Seeds", "AdaNorm's lead", "Sign", "Size", "The paper's lead",
)  # fmt: skip
SIZES = {
    "paper": "the paper's size",
    "small": "small model and data",
}
PLAN_NAMES = {"first": "first plan", "fresh": "plan of fresh seeds"}
SUMMARY_COLUMNS = (
    "claim",
    "scale",
    "verdict",
    "in words",
    "what would close it",
)
PAPERS_COLUMNS = (
    "claim",
    "data sets for it",
    "against",
    "equal",
    "p of the sign test",
)
CLAIM_COLUMNS = (
    "task", "quantity", "better", "worse", "effect", "95 % interval", "interval for the margin",
    "noise", "margin", "answer", "by own noise", "p", "seeds", "the paper's gap", "excluded (p)",
    "to find the paper's gap", "to show equivalence", "validation, best epoch", "validation, level",
)  # fmt: skip


def registered_note() -> str:
    """Return the note on where claims, margins and the stopping rule were written down."""
    registered = preregistration()
    plan = registered.stopping
    return (
        "Claims, margins, norms and the stopping rule were written down in"
        f" `conf/claims/paper.yaml`, digest **{registered.digest}**. The first plan reads"
        f" {plan.planned} seeds of each cell once; with more it looks after each seed, up to"
        f" {plan.most}. Later plans decide at scale small, with looks of their own; RT, SST5 and"
        " MNIST are at full size there. `docs/verdicts.md` has every formula."
    )


def claims_markdown(results: Sequence[ClaimResult]) -> str:
    """Return the claims in Markdown: all verdicts, then a table of comparisons per claim."""
    lines = [
        "# The paper's claims, tested",
        "",
        registered_note(),
        "",
    ]
    for note in origin_note(reader.records(RUNS)):
        lines += [note, ""]
    rows = []
    for result in results:
        words = [
            claim_sentence(result),
            claim_closing(result),
        ]
        rows.append(
            [
                result.claim.text,
                result.scale,
                f"**{result.verdict}**",
                *words,
            ]
        )
    lines += markdown_table(SUMMARY_COLUMNS, rows)
    lines += [
        "",
        "## How to read the tables",
        "",
        how_to_read("Claims"),
        "",
    ]
    papers = "The paper's own table"
    lines += [
        f"## {papers}, tested as the paper's claims",
        "",
        how_to_read(papers),
        "",
    ]
    rows = []
    for claim, wins, losses, ties, p in claims_of_the_paper():
        rows.append(
            [
                claim.text,
                str(wins),
                str(losses),
                str(ties),
                p_text(p),
            ]
        )
    lines += markdown_table(PAPERS_COLUMNS, rows)
    for result in results:
        if result.run:
            claim = result.claim
            about = f"{claim.source}. Scale {result.scale}: {claim_sentence(result)}"
            lines += ["", f"## {claim.text}", "", about, ""]
            lines += markdown_table(CLAIM_COLUMNS, map(claim_row, result.run))
            lines += ["", over_tasks(result)]
    return "\n".join([*lines, ""])


def claim_row(result: TaskResult) -> list[str]:
    """Return a claim's comparison on a task as a row, one text for each of CLAIM_COLUMNS."""
    pair, quantity = result.pair, result.claim.quantity
    metric = task_metric(result.task).label if quantity == "test" else QUANTITIES[quantity]
    overrides = result.claim.overrides(pair.plan.scale, result.task)
    if overrides:
        metric = f"{metric} ({', '.join(overrides)})"
    answer = f"{pair.answer} ({pair.remark})" if pair.remark else pair.answer
    row = [
        title(result.task),
        metric,
        *map(title, pair.norms),
    ]
    comparison, prospect = pair.comparison, pair.prospect
    if comparison is None:
        effect = f"{fmean(pair.gaps):+.3f}" if pair.gaps else "-"
        return [
            *row,
            effect,
            *["-"] * 4,
            answer,
            *["-"] * 2,
            str(len(pair.seeds)),
            *["-"] * 6,
        ]
    assert prospect is not None, "with a comparison"
    papers = ["-"] * 3
    if paper := comparison.paper:
        mark = "" if paper.confirmed else UNCONFIRMED
        excluded = "yes" if comparison.papers_gap == "excluded" else "no"
        papers = [
            f"{paper.value:+.3f}{mark}",
            f"{excluded} ({p_text(comparison.paper_p)})",
            _seeds_text(pair, prospect.to_find),
        ]
    return [
        *row,
        f"{comparison.gap:+.3f}",
        comparison.interval.text(3),
        comparison.margin_interval.text(3),
        f"seeds, {comparison.examples:,} examples" if comparison.examples else "seeds",
        f"{comparison.margin:g}",
        answer,
        _by_own_noise(result.by_own_noise),
        p_text(comparison.p),
        str(comparison.seeds),
        *papers,
        _seeds_text(pair, prospect.to_equate),
        _effect_and_half(result.best_epoch),
        _effect_and_half(result.tail),
    ]


def _by_own_noise(comparison: Comparison | None) -> str:
    """Return size and sign, each with the interval that decides it, of a later plan's comparison."""
    if comparison is None:
        return "-"
    size, sign = comparison.margin_interval.text(3), comparison.interval.text(3)
    return f"{comparison.size} ({size}); {comparison.sign} ({sign})"


def _seeds_text(pair: Pair, seeds: int | None) -> str:
    if seeds is None:
        return "no number"
    return f"{seeds}: {more(pair, seeds)}" if seeds > len(pair.seeds) else str(seeds)


def _effect_and_half(pair: Pair | None) -> str:
    """Return an effect ± half the width of its interval."""
    if pair is None or pair.comparison is None:
        return "-"
    gap = pair.comparison.gap
    return f"{gap:+.3f} ± {pair.comparison.interval.high - gap:.3f}"


def over_tasks(result: ClaimResult) -> str:
    """Return a paragraph with the tests of a claim over all its tasks."""
    holds, contrary, no_gain = map(p_text, result.family or result.ps)
    return (
        f"Over all data sets, p corrected for the claims of the scale: {holds} for the claim,"
        f" {contrary} for the opposite, {no_gain} for no such gain. The claim"
        f" is shown on at least {result.shown_on} of them."
    )


def question() -> Claim:
    """Return the claim that AdaNorm beats LayerNorm."""
    return next(claim for claim in preregistration().claims if claim.id == "adanorm")


def headline(answers: Sequence[TaskAnswer]) -> str:
    """Return where AdaNorm is ahead, where behind, and where the paper's lead is excluded."""
    ahead, behind, missing, not_compared = [], [], [], []
    for answer in answers:
        task = title(answer.task)
        if answer.comparison is None:
            if answer.setback:
                not_compared.append(f"{task} ({answer.setback})")
            else:
                missing.append(task)
        elif answer.comparison.sign == "ahead":
            ahead.append(task)
        elif answer.comparison.sign == "behind":
            behind.append(task)
    compared = len(answers) - len(missing) - len(not_compared)
    claim = question()
    needed, claimed = (
        claim.needed("paper"),
        len(claim.tasks_at("paper")),
    )
    where = data_sets(len(answers))
    if 0 < compared < len(answers):
        where = f"the {data_sets(compared)} with an answer"
    names = f" ({listed(ahead)})" if ahead else ""
    sentences = [
        f"AdaNorm is ahead of LayerNorm on {count(len(ahead))} of {where}{names};"
        f" the paper reports it on {count(needed)} of {count(claimed)}."
    ]
    if behind:
        sentences.append(f"It is behind on {listed(behind)}.")
    excluded = _excluded(answers)
    earlier = _excluded([before for answer in answers for before in answer.before[-1:]])
    earlier = [task for task in earlier if task not in excluded]
    papers = {"on": excluded, "by the first plan on": earlier}
    parts = [f"{how} {listed(tasks)}" for how, tasks in papers.items() if tasks]
    if parts:
        sentences.append(f"The paper's lead is excluded {', and '.join(parts)}.")
    if not_compared:
        sentences.append(f"Not compared: {listed(not_compared)}.")
    if missing:
        sentences.append(f"No answer yet: {listed(missing)}.")
    return " ".join(sentences)


def _excluded(answers: Sequence[TaskAnswer]) -> list[str]:
    """Return the titles of the tasks on which the paper's lead is excluded."""
    compared = {title(answer.task): answer.comparison for answer in answers}
    return [
        task
        for task, comparison in compared.items()
        if comparison and comparison.papers_gap == "excluded"
    ]


def answer_rows(
    answers: Sequence[TaskAnswer],
) -> list[list[str]]:
    """Return one row per data set, with one text for each of ANSWER_COLUMNS.

    Without an answer, last.

    Below an answer by a later plan are the answers of plans before it, by their own rules.
    """
    rows = []
    for answer in sorted(answers, key=lambda answer: answer.comparison is None):
        rows.append(_answer_row(answer))
        for before in answer.before:
            rows.append(_answer_row(before, f", {PLAN_NAMES[before.plan.name]}"))
    return rows


def _answer_row(answer: TaskAnswer, mark: str = "") -> list[str]:
    metric = task_metric(answer.task)
    about = [
        f"{title(answer.task)} ({metric.label})",
        f"{SIZES[answer.plan.scale]}{mark}",
    ]
    gap = published_gap(answer.task, *question().norms(answer.task))
    papers = f"{gap.value + 0.0:+.2f}" if gap else ""  # no -0.00
    comparison = answer.comparison
    if comparison is None and answer.setback:
        return [
            *about,
            "",
            f"not compared: {answer.setback}",
            "",
            "",
            papers,
        ]
    if comparison is None:
        seeds = str(answer.pairs)
        if answer.next_look is not None:
            seeds += f" of {answer.next_look}"
        return [
            *about,
            seeds,
            "no answer yet",
            "",
            "",
            papers,
        ]
    digits = comparison.digits
    inner = comparison.margin_interval.text(digits)
    return [
        *about,
        answer.seeds,
        f"{comparison.gap:+.{digits}f} ({comparison.interval.text(digits)})",
        comparison.sign,
        f"{comparison.size}, ±{comparison.margin:g} ({inner})",
        f"{papers}, {comparison.papers_gap}",
    ]


def corrections(answers: Sequence[TaskAnswer]) -> str:
    """Return the answers corrected for the number of data sets, and the lead in translation."""
    significance = preregistration().level
    significant, translations = [], []
    for answer in answers:
        if answer.comparison is None:
            continue
        if answer.family_p < significance:
            significant.append(title(answer.task))
        if task_metric(answer.task).label == "BLEU":
            translations.append(answer.comparison)
    names = listed(significant) if significant else "none of them"
    text = f"Corrected for {data_sets(len(answers))} (Holm), AdaNorm is ahead or behind on {names}."
    if len(translations) < 2:
        return text
    whole = pooled(translations)
    return (
        f"{text} Over {count(len(translations))} translations together the lead is"
        f" {whole.gap:+.2f} BLEU ({whole.interval.text(2)}): {whole.sign}."
    )
