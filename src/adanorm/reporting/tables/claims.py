"""The paper's claims, tested, as text."""

from collections.abc import Sequence
from statistics import fmean

from adanorm.config.paths import RUNS
from adanorm.config.titles import QUANTITIES, task_metric, title
from adanorm.records import reader
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.origins import origin_note
from adanorm.reporting.text import how_to_read, markdown_table
from adanorm.verdicts.claims import ClaimResult, TaskResult, claims_of_the_paper
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import claim_closing, claim_sentence, more

VERDICT_COLUMNS = ("claim", "scale", "verdict", "in words", "what would close it")
OWN_COLUMNS = ("claim", "data sets for it", "against", "equal", "p of the sign test")
CLAIM_COLUMNS = (
    "task", "quantity", "better", "worse", "effect", "95 % interval", "interval for the margin", "noise",
    "margin", "answer", "p", "seeds", "the paper's gap", "excluded (p)", "to find the paper's gap",
    "to show equivalence", "validation, best epoch", "validation, level",
)  # fmt: skip


def registered_note() -> str:
    """Return which file says what is claimed, which difference matters and when runs stop."""
    registered = preregistration()
    plan = registered.stopping
    return (
        "Claims, margins, norms and the stopping rule were written down in `conf/claims/paper.yaml`, digest"
        f" **{registered.digest}**: {plan.planned} seeds of each cell are read as a fixed plan, more as"
        f" one with a look after each seed, up to {plan.most}. `docs/verdicts.md` has every formula."
    )


def claims_markdown(judgements: Sequence[ClaimResult]) -> str:
    """Return the claims in Markdown: all verdicts first, then one table per claim with its comparisons."""
    lines = ["# The paper's claims, tested", "", registered_note(), ""]
    lines += [line for text in origin_note(reader.records(RUNS)) for line in (text, "")]
    lines += markdown_table(
        VERDICT_COLUMNS,
        (
            [r.claim.text, r.scale, f"**{r.verdict}**", claim_sentence(r), claim_closing(r)]
            for r in judgements
        ),
    )
    lines += ["", "## How to read the tables", "", how_to_read("Claims"), ""]
    own_table = "The paper's own table"
    lines += [f"## {own_table}, tested as the paper's claims", "", how_to_read(own_table), ""]
    lines += markdown_table(
        OWN_COLUMNS,
        ([claim.text, *map(str, counts), shown_p(p)] for claim, *counts, p in claims_of_the_paper()),
    )
    for result in judgements:
        if result.run:
            lead = f"{result.claim.source}. Scale {result.scale}: {claim_sentence(result)}"
            lines += ["", f"## {result.claim.text}", "", lead, ""]
            lines += [*markdown_table(CLAIM_COLUMNS, map(claim_row, result.run)), "", over_tasks(result)]
    return "\n".join([*lines, ""])


def claim_row(task: TaskResult) -> list[str]:
    """Return the comparison of a claim's norms on a task, with one text for each of CLAIM_COLUMNS."""
    pair = task.pair
    assert pair is not None, "of tasks with runs"
    comparison = pair.comparison
    quantity = task.claim.quantity
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
        shown_p(comparison.p),
        str(comparison.seeds),
        f"{paper.value:+.3f}{'' if paper.confirmed else UNCONFIRMED}" if paper else "-",
        f"{excluded} ({shown_p(comparison.paper_p)})" if paper else "-",
        _seeds(pair, prospect.to_find) if paper else "-",
        _seeds(pair, prospect.to_equate),
        _half(task.best_epoch),
        _half(task.level),
    ]


def _seeds(pair: Pair, seeds: int | None) -> str:
    if seeds is None:
        return "no number"
    return f"{seeds}: {more(pair, seeds)}" if seeds > len(pair.seeds) else str(seeds)


def _half(pair: Pair | None) -> str:
    """Return an effect with half its interval."""
    comparison = pair.comparison if pair else None
    return f"{comparison.gap:+.3f} ± {comparison.interval.high - comparison.gap:.3f}" if comparison else "-"


def shown_p(p: float | None) -> str:
    """Return a p as it is shown; none is shown as 0."""
    return "-" if p is None else "< .001" if p < 0.001 else f"{p:.3f}"


def over_tasks(result: ClaimResult) -> str:
    """Return the tests of a claim over all its tasks, in a paragraph."""
    holds, contrary, no_gain = result.family or result.ps
    return (
        f"Over data sets, corrected for the claims of the scale: p {shown_p(holds)} of the claim,"
        f" {shown_p(contrary)} of its contrary, {shown_p(no_gain)} of no difference that matters; shown on at"
        f" least {result.shown_on}."
    )
