"""The verdicts on the paper's claims as text."""

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
from adanorm.reporting.tables.table import origin_note, seeds_text
from adanorm.reporting.text import how_to_read, p_text, page, table_block
from adanorm.stats.comparison import Comparison
from adanorm.verdicts.claims import (
    ClaimResult,
    TaskResult,
    claims_of_the_paper,
)
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import (
    claim_closing,
    claim_sentence,
    more,
)

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
        f" {plan.most}. The newest plan with a look decides on a data set; RT, SST5 and MNIST have"
        " the paper's size, the others a smaller model and data. `answers.md` has what earlier plans"
        " answered, and `docs/verdicts.md` every formula."
    )


def claims_markdown(results: Sequence[ClaimResult], submitted: Sequence[ClaimResult] = ()) -> str:
    """Return the claims in Markdown: all verdicts, then a table of comparisons per claim.

    `submitted` are the softer claims of the paper's submission.
    """
    blocks = ["# The paper's claims, tested", registered_note(), *origin_note(reader.records(RUNS))]
    rows = []
    for result in results:
        rows.append(
            [
                result.claim.text,
                result.scale,
                f"**{result.verdict}**",
                claim_sentence(result),
                claim_closing(result),
            ]
        )
    blocks.append(table_block(SUMMARY_COLUMNS, rows))
    if submitted:
        blocks += ["## The submission's softer claims", how_to_read("The submission's claims")]
        rows = []
        for result in submitted:
            rows.append([result.claim.text, f"**{result.verdict}**", claim_sentence(result)])
        blocks.append(table_block(("claim", "verdict", "in words"), rows))
    blocks += ["## How to read the tables", how_to_read("Claims")]
    papers = "The paper's own table"
    blocks += [f"## {papers}, tested as the paper's claims", how_to_read(papers)]
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
    blocks.append(table_block(PAPERS_COLUMNS, rows))
    for result in results:
        if result.run:
            claim = result.claim
            about = f"{claim.source}. Scale {result.scale}: {claim_sentence(result)}"
            blocks += [f"## {claim.text}", about]
            blocks.append(table_block(CLAIM_COLUMNS, map(claim_row, result.run)))
            blocks.append(over_tasks(result))
    return page(blocks)


def claim_row(result: TaskResult) -> list[str]:
    """Return a claim's comparison on a task as a row, one text for each of CLAIM_COLUMNS."""
    pair = result.pair
    quantity = result.claim.quantity
    metric = task_metric(result.task).label if quantity == "test" else QUANTITIES[quantity]
    answer = f"{pair.answer} ({pair.remark})" if pair.remark else pair.answer
    row = [
        title(result.task),
        metric,
        *map(title, pair.norms),
    ]
    comparison = pair.comparison
    prospect = pair.prospect
    if comparison is None:
        effect = f"{fmean(pair.gaps):+.3f}" if pair.gaps else "-"
        return [
            *row,
            effect,
            *["-"] * 4,
            answer,
            *["-"] * 2,
            seeds_text(len(pair.seeds), pair),
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
        seeds_text(comparison.seeds, pair),
        *papers,
        _seeds_text(pair, prospect.to_equate),
        _effect_and_half(result.best_epoch),
        _effect_and_half(result.tail),
    ]


def _by_own_noise(comparison: Comparison | None) -> str:
    """Return the answer of a later plan's comparison, with the intervals that decide it."""
    if comparison is None:
        return "-"
    size = comparison.margin_interval.text(3)
    sign = comparison.interval.text(3)
    if comparison.answer == "equivalent":
        return f"equivalent (90 %: {size})"
    return f"{comparison.answer} (95 %: {sign}; 90 %: {size})"


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
