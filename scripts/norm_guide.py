"""The generated lines of docs/norms.md on each norm, and a figure of what norms cost."""

import csv
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

from adanorm.analyses.spec import (
    analysis_grid,
    analysis_results,
    load_analysis,
    text,
)
from adanorm.config.paths import PROJECT
from adanorm.config.titles import counted, title
from adanorm.files import write_whole
from adanorm.reporting.figures.style import (
    Handle,
    NamedFigure,
    figure_style,
    legend_below,
    panels,
    rendered,
)
from adanorm.reporting.tables.notes import rule_decisions
from adanorm.reporting.tables.table import Table
from adanorm.verdicts.deciding import deciding_pair
from adanorm.verdicts.evidence import Evidence, variance_of
from adanorm.verdicts.pair import Pair, pair
from adanorm.verdicts.preregistration import first_plan, preregistration

GUIDE = PROJECT / "docs" / "norms.md"
BASELINE = "layernorm"
COLORS = {"": "#0072B2", "to_eager": "#56B4E9", "to_authors": "#999999"}
SIDES = {
    "": "as used",
    "to_eager": "eager",
    "to_authors": "as published",
}
MARKED = re.compile(r"(<!-- facts: (\S+) -->\n).*?(<!-- /facts -->)", re.DOTALL)


def update_norm_guide(
    text: str,
    tables: Sequence[Table],
    *,
    costs: Path,
    invariances: Mapping[str, Sequence[str]],
) -> str:
    """Return the guide with the facts of each norm between its marks.

    `tables` are of studies whose rows are norms; where two have the same task and scale, the first
    counts. `costs` is the benchmark's CSV. `invariances` has the changes that leave a norm's output
    as it is, by the norms that were measured.
    """
    times = _times(costs)

    def facts(mark: re.Match[str]) -> str:
        name = mark[2]
        changes = ", ".join(invariances.get(name, ())) or "none of the six changes measured"
        lines = [f"invariant to: {changes}"] if name in invariances else []
        lines += [times[name]] if name in times else []
        lines += _scores(tables, name) or ["no runs in `overview`, `heirs`, `small` or `beyond`"]
        return "\n- ".join([f"{mark[1]}**Here**", *lines]) + f"\n{mark[3]}"

    return MARKED.sub(facts, text)


def _times(path: Path) -> dict[str, str]:
    """Return one line per norm on its time beside LayerNorm's, from the benchmark's CSV."""
    cases: dict[str, list[str]] = {}
    for row in _rows(path):
        ratio = f"{float(row['to_layernorm']):.2f} at ({row['rows']}, {row['features']})"
        team = "" if row["threads"] == "1" else f" with {row['threads']} threads"
        cases.setdefault(row["norm"], []).append(f"{ratio}{team}")
    about = "time, forward and backward, as a multiple of LayerNorm's"
    return {norm: f"{about}: {', '.join(ratios)}" for norm, ratios in cases.items()}


def _scores(tables: Sequence[Table], norm: str) -> list[str]:
    """Return one line per task and scale: the norm's score, and the answer beside LayerNorm."""
    lines: dict[tuple[str, str], str] = {}
    for table in tables:
        for task, line in _of_table(table, norm).items():
            name = f"{table.columns[task].title}, `{table.study.scale}`"
            lines.setdefault((task, table.study.scale), f"{name}: {line}")
    return list(lines.values())


def _of_table(table: Table, norm: str) -> dict[str, str]:
    """Return, by task, a norm's score in a table and the answer beside LayerNorm."""
    decisions = chain.from_iterable(rule_decisions(table)[1].values())
    by_rule = {d.column.plan.task: d.comparison for d in decisions if d.rows == (norm, BASELINE)}
    lines = {}
    for task in table.study.columns:
        cell = table.columns[task].cells.get(norm)
        if cell is None or not cell.results:
            continue
        lines[task] = table.ours(norm, task)
        if norm == BASELINE:
            continue
        decided = None
        if not table.study.overrides:
            norms = BASELINE, norm
            decided = deciding_pair(task, table.study.scale, norms, table.folder)
        both = decided or _pair(table, norm, task)
        if both is None or both.answer == "not run":
            continue
        comparison = both.comparison
        if decided is None:
            comparison = by_rule.get(task, comparison)  # by the study's own rule
        seeds = counted(len(both.seeds), "seed")
        if comparison is not None:
            gap = f"{comparison.text}, {seeds}: {comparison.answer}"
        else:
            why = f" ({both.remark})" if both.remark else ""
            gap = f"{fmean(both.gaps):+.2f}, {seeds}: " if both.gaps else ""
            gap += f"{both.answer}{why}"
        lines[task] += f"; over LayerNorm {gap}"
    return lines


def _pair(table: Table, norm: str, task: str) -> Pair | None:
    """Return a norm beside LayerNorm from a table's cells.

    None if the task has no margin or no LayerNorm.
    """
    rows = dict.fromkeys([*preregistration().norms, norm])
    cells = {row: cell for row in rows if (cell := table.cells.get((row, task))) and cell.results}
    plan = first_plan(task, table.study.scale)
    if table.study.scale == "small":
        plan = preregistration().plans_of(task)[-1]
    if not plan.margin or not {norm, BASELINE} <= cells.keys():
        return None
    records = Evidence(plan, cells, variance_of(cells))
    return pair(records, norm, BASELINE)


def guide(tables: Mapping[str, Table]) -> str:
    """Return docs/norms.md with each norm's facts from tables, benchmark and analyses."""
    chosen = [table for table in tables.values() if "norm-guide" in table.study.roles]
    chosen.sort(key=lambda table: not table.reads_newest)  # a norm's line is the first table's
    costs = PROJECT / "results" / "bench" / "norms.csv"
    analysis = load_analysis("invariance")
    unseen = {}
    for (norm, _), cell in analysis_grid(analysis).items():
        if analysis_results(cell):
            shown = analysis.shown
            unseen[norm] = [change.label for change in shown if text(cell, change) == "yes"]
    return update_norm_guide(
        GUIDE.read_text("utf-8"),
        chosen,
        costs=costs,
        invariances=unseen,
    )


@figure_style()
def draw(costs: Path) -> None:
    """Write an SVG beside the CSV `costs`: a panel per shape, in multiples of LayerNorm's time."""
    rows = _rows(costs)
    cases = list(dict.fromkeys(map(_case, rows)))
    name = "adanorm" if any(row["norm"] == "adanorm" for row in rows) else rows[0]["norm"]
    times = [float(row["to_layernorm"]) for row in rows if row["norm"] == name]
    least, most = min(times), max(times)
    message = f"{title(name)} takes {least:.2f} to {most:.2f} times as long as torch's LayerNorm"
    handles: dict[str, Handle] = {}
    figure, grid = panels(cases, 2.7, message, across=2, sharey=True)
    for case, panel in grid:
        shown = [row for row in rows if _case(row) == case]
        for shift, (side, label) in zip((-0.27, 0, 0.27), SIDES.items(), strict=True):
            heights = {}
            for index, row in enumerate(shown):
                if not side:
                    heights[index + shift] = float(row["to_layernorm"])
                elif row.get(side):
                    heights[index + shift] = float(row["to_layernorm"]) / float(row[side])
            if heights:
                x, y = list(heights), list(heights.values())
                handles[label] = panel.bar(x, y, 0.25, color=COLORS[side])[0]
        names = [row["norm"] for row in shown]
        panel.set_xticks(range(len(shown)), names, rotation=90, fontsize=6)
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set(yscale="log", title=case, ylabel="time : torch's LayerNorm")
        panel.yaxis.set_major_formatter("{x:g}")
    legend_below(figure, handles)
    write_whole(
        costs.with_suffix(".svg"),
        rendered(NamedFigure("norms", message, figure), "svg"),
    )


def _case(row: dict[str, str]) -> str:
    threads = f"{row['threads']} thread{'' if row['threads'] == '1' else 's'}"
    return f"{row['device']}, {threads}\n({row['rows']}, {row['features']}) {row['dtype']}"


def _rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text("utf-8").splitlines()))
