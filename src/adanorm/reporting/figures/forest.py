"""The leads on all data sets in one unit, their mean, and the paper's leads."""

from adanorm.config.titles import title
from adanorm.reporting.figures import style
from adanorm.reporting.figures.leads import MARGIN, ZERO
from adanorm.reporting.tables.summary import summary_sentence
from adanorm.verdicts.summary import Summary

LEAD: style.Drawn = {"color": "0.35", "marker": "o", "markersize": 5}
MEAN: style.Drawn = {"color": "#D55E00", "marker": "D", "markersize": 6}


@style.figure_style()
def forest(name: str, summary: Summary | None) -> style.NamedFigure | None:
    """Return one row per data set and one for the mean, all in margins; None without a summary."""
    if summary is None:
        return None
    leads = summary.leads
    mean = summary.effects
    figure, [(_, axes)] = style.panels(
        [summary],
        0.28 * (len(leads) + 2),
        summary_sentence(summary),
        across=1,
    )
    axes.axvspan(
        -1,
        1,
        zorder=0,
        **MARGIN,
    )
    axes.axvline(0, **ZERO)
    for row, lead in enumerate(leads):
        axes.plot(
            lead.interval,
            [row, row],
            color=LEAD["color"],
        )
        axes.plot(lead.value, row, **LEAD)
        if lead.paper is not None:
            axes.plot(lead.paper, row, **style.PAPER)
    row = len(leads)
    axes.plot(
        mean.interval(),
        [row, row],
        color=MEAN["color"],
    )
    axes.plot(mean.mean, row, **MEAN)
    style.name_rows(axes, [*(title(lead.task) for lead in leads), "mean"])
    axes.set_xlim(-4, 4)
    axes.set_xlabel("AdaNorm's lead over LayerNorm, in margins")
    handles: style.Handles = {
        "lead, 95 %": LEAD,
        "mean, 95 %": MEAN,
        "within the margin": MARGIN,
        "the paper's lead": style.PAPER,
    }
    style.legend_below(figure, handles)
    caption = (
        "AdaNorm's lead over LayerNorm on each data set divided by its margin, the smallest difference"
        " that matters, with the mean by random effects. Longer intervals are cut off."
    )
    return style.NamedFigure(name, caption, figure)
