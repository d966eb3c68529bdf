"""What the paper's own protocol would show by our records, as text."""

from collections.abc import Sequence

from adanorm.config.titles import title
from adanorm.reporting.text import how_to_read, markdown, page, table_block
from adanorm.verdicts.claims import ClaimResult
from adanorm.verdicts.protocol import (
    PAPERS_COUNT,
    PROTOCOLS,
    SameOrder,
    TaskProtocols,
    numbers_ahead,
)

PAPERS_LEADS = 7  # of eight data sets


def protocol_markdown(
    results: Sequence[TaskProtocols], orders: Sequence[SameOrder], counted: ClaimResult
) -> str:
    """Return the page in Markdown: leads by data set, counts of data sets, orders of norms."""
    labels = [protocol.label for protocol in PROTOCOLS]
    header = ["Data set", "scale", "runs", "the paper's lead"]
    for label in labels:
        header += [label, "ahead"]
    header.append(f"as large as the paper's, {labels[0]}")
    counts = []
    for label, shares in numbers_ahead(results).items():
        mean = sum(number * share for number, share in enumerate(shares))
        counts.append([label, f"{mean:.1f}", f"{sum(shares[PAPERS_LEADS:]):.3f}"])
    blocks = [
        "# The paper's own protocol, simulated from our records",
        how_to_read("The paper's own protocol"),
        table_block(header, map(_row, results)),
        f"## On how many of {len(results)} data sets AdaNorm would be ahead",
        table_block(["protocol", "on average", f"chance of {PAPERS_LEADS} or more"], counts),
        "## The paper's own count as a claim",
        _count(counted),
        "## The paper's order of norms",
        table_block(
            [
                "our seeds",
                "pairs that the paper ranks",
                "same order here",
                "confirmed",
                "same order",
            ],
            [list(map(str, order)) for order in orders],
        ),
        "A confirmed pair has two scores that somebody has read in the paper; the other scores are"
        " quoted from memory.",
    ]
    return page(blocks)


def _count(result: ClaimResult) -> str:
    p = result.ps[2]
    corrected = f"{result.family[2]:.3f}" if result.family else "-"
    return (
        f"Better on {PAPERS_COUNT} of {len(result.tasks)}, without PTB, by the registered rule at"
        f" scale small: *{result.verdict}* (no gain by the margin: p {p:.4f}, corrected over the"
        f" claims of the scale {corrected})."
    )


def _row(result: TaskProtocols) -> list[str]:
    fields = [
        markdown(title(result.task)),
        result.scale,
        "{} and {}".format(*result.runs),
        f"{result.paper.value + 0:+.2f}" if result.paper else "-",
    ]
    for tried in result.shown:
        fields += [f"{tried.lead:+.3f}", f"{tried.ahead:.2f}"]
    fields.append(f"{result.shown[0].as_large:.2f}")
    return fields
