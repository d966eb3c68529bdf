"""AdaNorm's lead over LayerNorm on all data sets together, as a page and in one sentence."""

from collections.abc import Sequence

from adanorm.config.titles import listed, task_metric, title
from adanorm.reporting.tables.answers import excluded_on, headline
from adanorm.reporting.text import how_to_read, p_text, page, table_block
from adanorm.verdicts.claims import Answers
from adanorm.verdicts.later_answers import LaterAnswer
from adanorm.verdicts.later_plans import later_plans
from adanorm.verdicts.pair import Pair
from adanorm.verdicts.protocol import TRIES, TaskProtocols
from adanorm.verdicts.sentences import count, data_sets
from adanorm.verdicts.summary import Summary, summary

COLUMNS = (
    "data set", "plan", "seeds", "margin", "lead, in margins", "the paper's lead",
    "P(better by the margin)", "P(within)", "P(worse by the margin)", "P(lead > 0)",
)  # fmt: skip
WORDS = {
    "better": "is better than LayerNorm",
    "worse": "is worse than LayerNorm",
    "equivalent": "is equivalent to LayerNorm",
    "open": "is open beside LayerNorm",
}
CORPORA_PAGE = "docs/tasks.md#scale-open-the-largest-free-corpus"
CONTROL_PAGE = "docs/results.md#could-these-beds-show-that-a-norm-is-worth-something"


def standing(summary: Summary) -> str:
    """Return what the registration of the summary makes of it: exploratory, or the primary answer."""
    written = "The rule of the average (`conf/plans/later.yaml`, `summary`) was written"
    later = later_plans().plans
    new = [title(lead.task) for lead in summary.leads if lead.plan in later]
    if not new:
        return f"{written} after the runs had been read: exploratory until the next look."
    return (
        f"{written} before the newest look at {listed(new)}, so it is the registered primary answer;"
        " the first half of their runs, and those of the other data sets, had been read by then."
    )


def summary_sentence(summary: Summary) -> str:
    """Return the answer over all data sets in one sentence, with the interval that decides it."""
    effects = summary.effects
    sign = effects.interval()
    words = WORDS[summary.answer]
    intervals = f"95 %: {sign.text(2)}"
    if summary.is_within:
        size = f"90 %: {effects.interval(0.1).text(2)}, within ±1"
        if sign.low > 0 or sign.high < 0:
            side = "better" if sign.low > 0 else "worse"
            words = f"{WORDS[side]}, by less than the margin"
            intervals = f"{intervals}; {size}"
        else:
            intervals = size
    where = f"On average over {data_sets(len(summary.leads))} AdaNorm {words}"
    return f"{where}: {effects.mean:+.2f} margins ({intervals})."


def answer_sentence(answers: Answers) -> str:
    """Return the answer over all data sets; which of them have a sign, where there is no mean."""
    over_all = summary(answers)
    return headline(answers) if over_all is None else summary_sentence(over_all)


def paper_sentence(summary: Summary, answers: Answers) -> str:
    """Return where a true lead of the paper's size is excluded, and our lead as a multiple of it."""
    excluded = excluded_on(answers)
    sentences = []
    if excluded:
        text = f"In our settings a true lead of the paper's size is excluded on {excluded}"
        sentences.append(text)
    if summary.multiple is not None:
        value = summary.multiple.value
        interval = summary.multiple.interval()
        sentences.append(f"our lead is {value:+.2f} times the paper's ({interval.text(2)})")
    text = "; ".join(sentences)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def protocol_sentence(results: Sequence[TaskProtocols]) -> str:
    """Return how leads like the paper's come about by choosing among runs; '' without any."""
    claimed = shown = 0
    for result in results:
        if result.paper is None or result.paper.value <= 0:
            continue
        claimed += 1
        shown += result.shown[-1].lead >= result.paper.value - result.paper.rounding
    if not claimed:
        return ""
    return (
        "Why the paper may have seen a lead: it has one run of each norm, and tried several C for AdaNorm"
        f" alone. Choosing the best of {count(TRIES)} runs by test score makes such leads without a better"
        f" norm: LayerNorm's own best of {count(TRIES)} leads LayerNorm by the paper's lead of AdaNorm or"
        f" more on {count(shown)} of the {data_sets(claimed)} on which the paper has AdaNorm ahead. Whether"
        " the paper chose by test score is not known."
    )


def summary_markdown(summary: Summary | None, answers: Answers) -> str:
    """Return the page of the summary in Markdown."""
    blocks = ["# AdaNorm and LayerNorm over all data sets"]
    if summary is None:
        return page([*blocks, "No answer on two data sets yet."])
    effects = summary.effects
    belief = summary.posterior
    blocks.append(f"**{summary_sentence(summary)}** {paper_sentence(summary, answers)}")
    blocks += [standing(summary), how_to_read("Summary")]
    rows = []
    for lead in summary.leads:
        paper = "-" if lead.paper is None else f"{lead.paper:+.2f}"
        value = f"{lead.value:+.2f} ({lead.interval.text(2)})"
        rows.append([title(lead.task), lead.plan, lead.seeds, f"{lead.margin:g}", value, paper])
    mean = f"{effects.mean:+.2f} ({effects.interval().text(2)})"
    rows.append(["**mean**", "", "", "", mean, ""])
    rows.append(["a new data set", "", "", "", "", ""])
    beliefs = [*belief.each, belief.mean, belief.new]
    for row, shares in zip(rows, beliefs, strict=True):
        row += [f"{share:.3f}" for share in shares]
    blocks.append(table_block(COLUMNS, rows))
    lines = [
        f"- Mean by random effects: {effects.mean:+.2f} margins, 95 % {effects.interval().text(2)},"
        f" 90 % {effects.interval(0.1).text(2)}, p {p_text(effects.p)}.",
        f"- Deviation of true leads between data sets: {effects.deviation:.2f} margins;"
        f" p {p_text(effects.heterogeneity_p)} that all are equal (Cochran's Q).",
    ]
    if len(summary.leads) > 2:
        parts = []
        for lead in summary.leads:
            rest = summary.without(lead.task)
            parts.append(f"{title(lead.task)} {rest.mean:+.2f} ({rest.interval().text(2)})")
        lines.append(f"- Mean without one of the data sets, 95 %: {'; '.join(parts)}.")
    if multiple := summary.multiple:
        lines.append(
            f"- Our lead is {multiple.value:+.2f} times the paper's, 95 %"
            f" {multiple.interval().text(2)}; p {p_text(multiple.p_of(1.0))} that it is once the paper's."
        )
    lines.append(
        f"- Posterior mean {belief.mean_effect:+.2f} margins, central 95 %"
        f" {belief.mean_interval.text(2)}."
    )
    return page([*blocks, "\n".join(lines)])


def control_sentence(answers: Sequence[LaterAnswer]) -> str:
    """Return AdaNorm's answer where a norm is needed, by the positive control's answers in order.

    It is empty where the first of them has not made the task a positive control.
    """
    pairs = {answer.norms: answer.pair for answer in answers}
    gate = next(iter(pairs.values()), None)
    asked = pairs.get(later_plans().norms_of_summary)
    if gate is None:
        return ""
    remark = f"; {gate.remark}" if gate.remark else ""
    bed = (
        f"[positive control]({CONTROL_PAGE}): {title(gate.plan.task)} with a deeper network, all norms"
        f" at one learning rate, tuned for none of them{remark}"
    )
    return _sentence(f"Where a norm is needed ({bed})", asked)


def craft_sentence(answers: Sequence[LaterAnswer]) -> str:
    """Return AdaNorm's answer on CRAFT, by the answers of its plan; empty before the first look."""
    corpus = f"[CRAFT, the largest free treebank with Penn's tags]({CORPORA_PAGE})"
    return _sentence(f"In parsing {corpus}", answers[0].pair)


def _sentence(where: str, asked: Pair | None) -> str:
    """Return how AdaNorm does beside LayerNorm by a plan; empty before its first look."""
    if asked is None or asked.comparison is None:
        return ""
    comparison = asked.comparison
    metric = task_metric(asked.plan.task)
    gap, _, interval = comparison.text.partition(" ")
    return (
        f"{where}, AdaNorm {WORDS[asked.answer]}: {gap} {metric.label} {interval},"
        f" {comparison.seeds} seeds, margin {asked.plan.margin:g}."
    )
