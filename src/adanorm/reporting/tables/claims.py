"""What was found of the paper's claims, as text."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.config.titles import quantity_title, task_metric, title
from adanorm.records.published import UNCONFIRMED
from adanorm.reporting.tables.formats import markdown_table
from adanorm.verdicts.claims import ClaimResult, TaskResult, claims_of_the_paper
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.sentences import claim_closing, claim_sentence, more

VERDICT_COLUMNS = ("claim", "scale", "verdict", "in words", "what would close it")
CLAIM_COLUMNS = (
    "task", "quantity", "better", "worse", "effect", "95 % interval", "noise", "margin", "answer", "p",
    "seeds", "the paper's gap", "excluded (p)", "to find the paper's gap", "to show equivalence",
    "validation, best epoch", "validation, level",
)  # fmt: skip


def registered_note() -> str:
    """Return which file says what is claimed, which difference matters and when runs stop."""
    found = preregistration()
    plan = found.stopping
    return (
        "Claims, margins, norms and the stopping rule were written down in `conf/claims/paper.yaml`, digest"
        f" **{found.digest}**: {plan.planned} seeds of each cell are read as a fixed plan, more as one with a"
        f" look after each seed, up to {plan.most}. `docs/verdicts.md` has every formula."
    )


CLAIMS_NOTE = (
    "The effect is by how much the norm that is claimed to be better is better, over the seeds that both"
    " norms share, in the task's unit. Its variance is its own and that of the task's other norms (Smyth"
    " 2004), of more seeds than planned its own alone; one seed has no interval; *noise* says whether the"
    " choice of test examples is in the interval beside the seeds. *Better* and *worse*: zero is outside"
    " the interval. *Equivalent*: the 90 % interval lies inside the margin, the smallest difference that"
    " matters. *Open*: neither. Of more seeds than planned both intervals are wider, as looking after"
    " every seed takes. *Excluded* has the p of the paper's gap being the true one on this test set. *To"
    " find* and *to show* are seeds in all, and those still to run with their core-hours, by which looks"
    " after each seed have closed it with probability 0.8 if the paper's gap is true, or if there is no"
    " difference. The validation scores are effects too, with half their 95 % interval: at the best epoch,"
    " and on average over the last third of the evaluations. A claim is tested as a count of data sets"
    " (partial conjunction, Benjamini & Heller 2008), and corrected over the claims of a scale; *shown on*"
    " so many counts them one by one, each at the level. Of answers that should be *open* or *equivalent*,"
    " one in twenty is *better* or *worse* by chance, and one in eleven where the planned seeds are read"
    " first and what is open goes on. The scale paper has the paper's data and settings; mini is another"
    " experiment, and the paper's gaps are no measure of it."
)


def claims_markdown(judgements: Sequence[ClaimResult]) -> str:
    """Return the claims in Markdown: all verdicts first, then a table a claim with what was found."""
    lines = ["# The paper's claims, tested", "", registered_note(), ""]
    lines += markdown_table(VERDICT_COLUMNS, map(verdict_row, judgements))
    lines += ["", "## How to read the tables", "", CLAIMS_NOTE, "", *_papers_own_table()]
    for found in judgements:
        if not found.run:
            continue
        lines += [
            "",
            f"## {found.claim.text}",
            "",
            f"{found.claim.source}. Scale {found.scale}: {claim_sentence(found)}",
        ]
        lines += ["", *markdown_table(CLAIM_COLUMNS, map(claim_row, found.run))]
        lines += ["", over_tasks(found)]
    return "\n".join([*lines, ""])


def verdict_row(found: ClaimResult) -> list[str]:
    """Return a claim's verdict, a text for each of VERDICT_COLUMNS."""
    return [
        found.claim.text,
        found.scale,
        f"**{found.verdict}**",
        claim_sentence(found),
        claim_closing(found),
    ]


def claim_row(task: TaskResult) -> list[str]:
    """Return what was found of a claim on a task, a text for each of CLAIM_COLUMNS."""
    pair = task.pair
    assert pair is not None, "of tasks with runs"
    read = pair.comparison
    metric = (
        task_metric(task.task).label if task.claim.quantity == "test" else quantity_title(task.claim.quantity)
    )
    if overrides := task.claim.overrides(pair.scale, task.task):
        metric = f"{metric} ({', '.join(overrides)})"
    remark = f" ({pair.remark})" if pair.remark else ""
    row = [title(task.task), metric, *map(title, pair.norms)]
    if read is None:
        effect = f"{sum(pair.gaps) / len(pair.gaps):+.3f}" if pair.gaps else "-"
        return [*row, effect, "-", "-", "-", pair.answer + remark, "-", str(len(pair.seeds)), *["-"] * 6]
    interval = f"{read.interval.low:+.3f} to {read.interval.high:+.3f}"
    noise = f"seeds, {read.examples:,} examples" if read.examples else "seeds"
    paper = read.paper
    quoted = ["-", "-"]
    if paper is not None:
        gap = f"{paper.value:+.3f}{'' if paper.confirmed else UNCONFIRMED}"
        quoted = [gap, f"{'yes' if read.papers_gap == 'excluded' else 'no'} ({shown_p(read.paper_p)})"]
    ahead = pair.prospect
    assert ahead is not None, "with a comparison"
    return [
        *row,
        f"{read.gap:+.3f}",
        interval,
        noise,
        f"{read.margin:g}",
        pair.answer + remark,
        shown_p(read.p),
        str(read.seeds),
        *quoted,
        _seeds(pair, ahead.to_find) if paper else "-",
        _seeds(pair, ahead.to_equate),
        _half(task.best_epoch),
        _half(task.level),
    ]


def _seeds(pair: Pair, seeds: int | None) -> str:
    if seeds is None:
        return "no number"
    return f"{seeds}: {more(pair, seeds)}" if seeds > len(pair.seeds) else str(seeds)


def _half(pair: Pair | None) -> str:
    """Return an effect with half its interval."""
    read = pair.comparison if pair else None
    return "-" if read is None else f"{read.gap:+.3f} ± {read.interval.high - read.gap:.3f}"


def shown_p(p: float | None) -> str:
    """Return a p as it is shown; none is shown as 0."""
    return "-" if p is None else "< .001" if p < 0.001 else f"{p:.3f}"


def over_tasks(found: ClaimResult) -> str:
    """Return what is said of a claim over all its tasks, in a paragraph."""
    holds, contrary, no_gain = found.family or found.ps
    return (
        f"Over data sets, corrected for the claims of the scale: p {shown_p(holds)} of the claim,"
        f" {shown_p(contrary)} of its contrary, {shown_p(no_gain)} of no difference that matters; shown on at"
        f" least {found.shown_on}."
    )


OWN_COLUMNS = ("claim", "data sets for it", "against", "equal", "p of the sign test")
OWN_NOTE = (
    "How often the paper's numbers, one seed each, have the better norm ahead, and how probable a count as"
    " one-sided is if neither norm is better. A divergence counts as behind; where both diverge there is no"
    " count."
)


def _papers_own_table() -> list[str]:
    """Return the claims tested on the paper's own numbers."""
    lines = ["## The paper's own table, tested as the paper's claims", "", OWN_NOTE, ""]
    rows = (
        [own.claim.text, *map(str, (own.wins, own.losses, own.ties)), shown_p(own.p)]
        for own in claims_of_the_paper()
    )
    return [*lines, *markdown_table(OWN_COLUMNS, rows)]
