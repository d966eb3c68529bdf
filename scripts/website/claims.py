"""A page a claim: what was written down of it beforehand, and what the records say."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.config.paths import PROJECT
from adanorm.config.titles import quantity_title, title
from adanorm.reporting.tables.claims import CLAIM_COLUMNS, claim_row, over_tasks, registered_note
from adanorm.reporting.tables.formats import markdown_table
from adanorm.verdicts.claims import ClaimResult
from adanorm.verdicts.findings import Finding, load_findings
from adanorm.verdicts.preregistration import Claim, preregistration
from adanorm.verdicts.sentences import claim_closing, claim_sentence, task_sentences
from scripts.website.text import Pages, contents, plain

FOLDER = "docs/reference/claims"


def claim_pages(judgements: Sequence[ClaimResult]) -> Pages:
    """Return a page for each claim of the paper and each finding of earlier papers, and their list."""
    claims, findings = preregistration().claims, load_findings()
    pages = {
        f"{FOLDER}/{claim.id}.md": claim_page(claim, [found for found in judgements if found.claim == claim])
        for claim in claims
    }
    pages |= {f"{FOLDER}/earlier-{finding.id}.md": finding_page(finding) for finding in findings}
    lead = (
        "What the paper claims, and what earlier papers found, each with the verdict of the records."
        " [How a verdict is reached](../../verdicts.md) has the rules."
    )
    names = [path.removeprefix(f"{FOLDER}/").removesuffix(".md") for path in pages]
    return {f"{FOLDER}/index.md": contents("Claims", lead, names), **pages}


def claim_page(claim: Claim, results: Sequence[ClaimResult]) -> str:
    """Return the page of a claim in Markdown: the hypothesis, then a section for each scale."""
    lines = [
        f"# {plain(claim.text)}",
        "",
        f"Xu et al. 2019, {plain(claim.source)}.",
        "",
        *_hypothesis(claim),
        "",
    ]
    for found in results:
        lines += [f"## At scale {found.scale}: {found.verdict}", "", plain(claim_sentence(found)), ""]
        if closing := claim_closing(found):
            lines += [f"What would close it: {plain(closing)}.", ""]
        lines += [f"- {title(task.task)}, {task_sentences(task)}" for task in found.run]
        if found.run:
            lines += ["", *markdown_table(CLAIM_COLUMNS, map(claim_row, found.run))]
            lines += ["", over_tasks(found), ""]
    figure = f"results/figures/claim-{claim.id}.svg"
    if (PROJECT / figure).exists():
        alternative = f"Effect on each data set, in units of its margin: {claim.text}"
        lines += ["## The figure", "", f"![{plain(alternative)}](../../../{figure})", ""]
    return "\n".join(
        [*lines, registered_note().replace("`docs/verdicts.md`", "[Verdicts](../../verdicts.md)"), ""]
    )


def _hypothesis(claim: Claim) -> list[str]:
    """Return what is tested, a row a data set."""
    registered = preregistration()
    relation = "is no worse by the margin than" if claim.bound == "no_worse" else "is better than"
    rows = []
    for task in claim.tasks:
        better, worse = (f"[{title(norm)}](../norms/{norm}.md)" for norm in claim.norms(task))
        margin = registered.margin(task, claim.quantity)
        rows.append([f"[{title(task)}](../tasks/{task}.md)", f"{better} {relation} {worse}", f"{margin:g}"])
    quantity = quantity_title(claim.quantity)
    return [
        f"The claim is that this holds of the {quantity} on at least {claim.needed('paper')} of"
        f" {len(claim.tasks)} data sets:",
        "",
        *markdown_table(("data set", "hypothesis", "margin"), rows),
    ]


def finding_page(finding: Finding) -> str:
    """Return the page of an earlier paper's finding in Markdown."""
    lines = [f"# {plain(finding.text)}", "", f"{plain(finding.source)}.", ""]
    if finding.norms is not None:
        first, second = (f"[{title(norm)}](../norms/{norm}.md)" for norm in finding.norms)
        quantities = ", ".join(f"`{quantity}`" for quantity in finding.quantities)
        lines += [f"Tested: {quantities} of {second} is {finding.expected} than that of {first}.", ""]
    else:
        lines += [f"Tested: the published entries for {', '.join(map(title, finding.table))}.", ""]
    lines += [
        f"Its records are those of the [analysis](../../analyses.md) `{finding.analysis}`; the verdict, row"
        " by row, is in [findings](../../../results/tables/findings.md).",
        "",
    ]
    return "\n".join(lines)
