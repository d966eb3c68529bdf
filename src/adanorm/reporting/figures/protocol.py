"""On how many data sets AdaNorm would be ahead by the paper's own protocol."""

from collections.abc import Sequence

from adanorm.reporting.figures import style
from adanorm.reporting.tables.protocol import PAPERS_LEADS
from adanorm.verdicts.protocol import TaskProtocols, numbers_ahead

COLORS = ("#0072B2", "#009E73", "#D55E00", "0.6")
MARKERS = "osD^"


@style.figure_style()
def protocol_figure(results: Sequence[TaskProtocols]) -> style.NamedFigure | None:
    """Return the probability of each number of data sets by protocol; None without runs."""
    if not results:
        return None
    message = (
        "With one run of each norm AdaNorm would be ahead on few data sets; the best of several"
    )
    message += " by test score makes it many"
    figure, [(_, axes)] = style.panels(
        [results],
        2.2,
        message,
        across=1,
    )
    handles: style.Handles = {}
    distributions = numbers_ahead(results).items()
    for (label, shares), color, marker in zip(
        distributions,
        COLORS,
        MARKERS,
        strict=True,
    ):
        drawn: style.Drawn = {"color": color, "marker": marker}
        axes.plot(
            range(len(shares)),
            shares,
            **drawn,
        )
        handles[label] = drawn
    paper: style.Drawn = {"color": "black", "linestyle": ":", "linewidth": 0.8}
    axes.axvline(PAPERS_LEADS, **paper)
    handles["the paper's number"] = paper
    axes.set(xlabel="data sets on which AdaNorm is ahead", ylabel="probability")
    style.legend_below(figure, handles)
    caption = (
        f"Of {len(results)} data sets, on how many AdaNorm's run has the better test score than one"
        " run of LayerNorm, drawn from the runs on record; a tie counts half."
    )
    return style.NamedFigure("protocol", caption, figure)
