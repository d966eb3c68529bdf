"""What was found of the paper's claims, as text."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.reporting.names import title
from adanorm.reporting.tables.markdown import markdown_row
from adanorm.reporting.verdicts.claims import ClaimResult, TaskComparison


def claims_markdown(judgements: Sequence[ClaimResult]) -> str:
    """Return the claims with what was found of each, in Markdown: a table a claim."""
    lines = ["# The paper's claims, tested", "", CLAIMS_NOTE]
    for judged in judgements:
        claim = judged.claim
        run = [finding for finding in judged.findings if finding.verdict != "not run"]
        lines += ["", f"## {claim.text}", ""]
        lines.append(f"{claim.source}. Scale {judged.scale}: **{judged.verdict}**.")
        if run:
            lines += ["", markdown_row(CLAIM_COLUMNS), markdown_row(["---"] * len(CLAIM_COLUMNS))]
            lines += [markdown_row(claim_row(finding)) for finding in run]
        lacking = [title(finding.task) for finding in judged.findings if finding.verdict == "not run"]
        if lacking and run:
            lines += ["", f"Not run: {', '.join(lacking)}."]
    return "\n".join([*lines, ""])


CLAIM_COLUMNS = (
    "task", "quantity", "better", "worse", "effect", "95 % interval", "p (Holm)", "pairs", "needed", "verdict"
)  # fmt: skip
CLAIMS_NOTE = (
    "Each comparison pairs runs by seed. The effect is by how much the norm that is claimed to be better is"
    " better, in the metric's unit; p is of the paired t-test, corrected over the claim's tasks (Holm 1979);"
    " *needed* is how many seeds would find a gap of this size with power 0.8. *Supported* and *contradicted*"
    " need p below 0.05 on every task and on any, or that one norm diverges at every seed; all else is"
    " *undecided*. The scale paper has the paper's data and settings; mini is another experiment."
)


def claim_row(finding: TaskComparison) -> list[str]:
    """Return what was found of a claim on a task, a text for each of CLAIM_COLUMNS."""
    gap = finding.gap
    interval = f"{gap.interval.low:+.3f} to {gap.interval.high:+.3f}" if gap and gap.interval else "-"
    remark = f" (diverged: {finding.diverged[0]}, {finding.diverged[1]})" if any(finding.diverged) else ""
    return [
        title(finding.task),
        finding.quantity,
        title(finding.better),
        title(finding.worse),
        f"{gap.mean:+.3f}" if gap else "-",
        interval,
        "-" if finding.p is None else f"{finding.p:.3f}",
        str(gap.pairs) if gap else "0",
        str(gap.needed) if gap and gap.needed else "-",
        finding.verdict + remark,
    ]
