"""This repository's own pages say what the records say."""

import re
from itertools import chain
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT, choices
from adanorm.config.titles import mean_text
from adanorm.reporting.report import read_tables
from adanorm.reporting.tables.formats import table_markdown, tables_beside
from adanorm.reporting.tables.table import Table, on_gpu, table_of
from adanorm.verdicts.cell import Cell
from adanorm.verdicts.evidence import evidence
from adanorm.verdicts.preregistration import preregistration
from adanorm.verdicts.task_league import task_leagues
from scripts.norm_guide import GUIDE, update_norm_guide
from scripts.pages import README, pages, summary_table
from scripts.settings import sections, settings
from tests.reporting.records import record, score, scored


@pytest.mark.records
def test_the_committed_pages_are_those_of_the_committed_records() -> None:
    stale = [path.name for path, text in pages().items() if path.read_text("utf-8") != text]
    assert not stale, "run scripts/regenerate"


def test_the_readmes_table_says_how_many_seeds_its_cells_have(
    tmp_path: Path,
) -> None:
    table = scored("table4", tmp_path, {("adanorm", "mnist"): [99.1] * 3})
    assert summary_table(table).endswith("\n\nSeeds: 3 per cell.")
    record(
        table.grid["adanorm", "mnist"].runs[0].model_copy(update={"seed": 4}),
        **score(99.6),
    )
    more = summary_table(Table(table.study, table.grid))
    assert more.endswith("\n\nSeeds: 3 per cell, except on MNIST: AdaNorm 4.")


@pytest.mark.records
def test_no_page_prints_a_cell_of_fewer_seeds_than_the_newest_plan_has_without_those_of_the_plan() -> (
    None
):
    readme = README.read_text("utf-8").partition("<!-- overview")[2].partition("<!-- /")[0]
    report = (PROJECT / "results" / "report" / "index.html").read_text("utf-8")
    tables = read_tables()
    for task in ("rt", "sst5", "mnist"):
        plan = preregistration().plan("fresh", task)
        for norm, cell in evidence(plan).norms.items():
            assert len(cell.scores) >= 10
            printed = mean_text(cell.scores, 2)
            assert printed in readme, (task, norm)
            for name in ("overview", "table1", "table2", "table3", "table4"):
                if norm in tables[name].study.rows:
                    page = (PROJECT / "results" / "tables" / f"{name}.md").read_text("utf-8")
                    newest = f"{printed} ({len(cell.scores)} seeds)"
                    assert newest in page, (name, task, norm)
                    assert tables[name].ours(norm, task).startswith(newest)
                    assert f"first plan {tables[name].text_beside(norm, task)}" in report
    for task_league in task_leagues():
        by_seed = evidence(task_league.plan).variance.scores
        assert task_league.league.scores == by_seed
        plans = [plan for plan in preregistration().plans_of(task_league.task) if not plan.folds]
        assert task_league.plan.name == plans[-1].name


@pytest.mark.records
def test_a_rule_with_looks_is_read_at_the_last_look_that_a_family_has_reached() -> None:
    for name, table in read_tables().items():
        study = table.study
        if study.rule is None or not study.rule.looks:
            continue
        for task, column in table.columns.items():
            for family in study.rule.families.values():
                rows = {*chain(*family)}
                if not rows <= {*column.cells}:
                    continue
                seeds = set.intersection(*({*column.cells[row].by_seed} for row in rows))
                reached = [look for look in study.rule.looks if look <= len(seeds)]
                assert max(reached, default=0) <= len(study.seeds), (name, task, rows)


def test_the_table_of_translations_marks_gpu_runs_and_has_chrf_beside_bleu() -> None:
    table = table_of("small")
    assert table.ours("detachnorm", "de-en").endswith("[GPU]")
    assert not table.ours("layernorm", "de-en").endswith("]")
    assert on_gpu(table.cells["adanorm", "en-vi"] or Cell("")) == []
    page = table_markdown(table)
    assert "together -0.395 (-0.544 to -0.245)" in page
    assert "behind in 14 of 15 pairs" in page
    (heading,) = (name for name in tables_beside(table) if name.startswith("chrF2"))
    rows = {row[0]: row[1:] for row in tables_beside(table)[heading]}
    assert rows["LayerNorm"] == ["60.70, 0.984", "63.52, 1.01", "36.69, 0.993"]


def test_the_page_of_settings_has_the_fields_of_every_section() -> None:
    page = settings()
    assert all(
        f"| `{key}.{field}" in page for key, section in sections() for field in section.model_fields
    )
    assert "| `training.clip_norm` | number, above 0, at most 1e+30 or null |" in page


def test_every_page_of_docs_is_in_the_contents_of_the_site() -> None:
    docs = PROJECT / "docs"
    listed = set(
        re.findall(
            r"^(?:.*<)?([\w./-]+?)>?$",
            (docs / "index.md").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    for path in docs.glob("**/*.md"):
        assert str(path.relative_to(docs).with_suffix("")) in {
            *listed,
            "index",
        }


TEXT = """# One
<!-- facts: rmsnorm -->
old
<!-- /facts -->
between
<!-- facts: layernorm -->
<!-- /facts -->
"""
COSTS = (
    "norm,rows,features,threads,to_layernorm\nrmsnorm,4096,512,1,1.5\nrmsnorm,4096,128,2,0.875\n"
)


def test_every_section_of_the_guide_is_of_a_norm_and_no_norm_has_two() -> None:
    """A norm may be without a section: facts are written where there is one."""
    marks = re.findall(r"<!-- facts: (\S+) -->", GUIDE.read_text())
    assert 0 < len(set(marks)) == len(marks)
    assert set(marks) <= set(choices("norm"))
    assert re.findall(r"^### (\S+)$", GUIDE.read_text(), re.MULTILINE) == marks


def test_the_facts_of_the_guide_come_from_records_benchmarks_and_invariances(
    tmp_path: Path,
) -> None:
    # Gaps of -2, -2.1, -1.9 on RT: worse. Of -1, 1, 3 on SST5: open. MNIST: always 1.
    of_base = {
        "rt": (70.0, 71.0, 72.0),
        "sst5": (40.0, 40.0, 40.0),
        "mnist": (97.0, 97.0, 97.0),
    }
    of_ours = {
        "rt": (68.0, 68.9, 70.1),
        "sst5": (39.0, 41.0, 43.0),
        "mnist": (98.0, 98.0, 98.0),
    }
    scores = {("layernorm", task): accuracies for task, accuracies in of_base.items()}
    scores |= {("rmsnorm", task): accuracies for task, accuracies in of_ours.items()}
    beyond = scored("beyond", tmp_path, scores)
    heirs = scored("heirs", tmp_path, {("rmsnorm", "rt"): [75.0]})
    costs = tmp_path / "norms.csv"
    costs.write_text(COSTS)
    changed = {"rmsnorm": ["weight matrix re-scaling"], "layernorm": []}
    tables = [heirs, beyond, heirs]
    text = update_norm_guide(
        TEXT,
        tables,
        costs=costs,
        invariances=changed,
    )
    assert text.splitlines() == [
        "# One",
        "<!-- facts: rmsnorm -->",
        "**Here**",
        "- invariant to: weight matrix re-scaling",
        "- time, forward and backward, as a multiple of LayerNorm's: 1.50 at (4096, 512),"
        " 0.88 at (4096, 128) with 2 threads",
        "- RT, `paper`: 75.00 (1/5 seeds)",
        "- RT, `mini`: 69.00 ± 1.05; over LayerNorm -2.00 (95 %: -2.25 to -1.75), 3 seeds: worse",
        "- SST5, `mini`: 41.00 ± 2.00; over LayerNorm +1.00 (95 %: -3.97 to +5.97), 3 seeds: open",
        "- MNIST, `mini`: 98.00 ± 0.00; over LayerNorm +1.00, 3 seeds: open (equal gaps, and no variance)",
        "<!-- /facts -->",
        "between",
        "<!-- facts: layernorm -->",
        "**Here**",
        "- invariant to: none of the six changes measured",
        "- RT, `mini`: 71.00 ± 1.00",
        "- SST5, `mini`: 40.00 ± 0.00",
        "- MNIST, `mini`: 97.00 ± 0.00",
        "<!-- /facts -->",
    ]
    assert (
        update_norm_guide(
            text,
            tables,
            costs=costs,
            invariances=changed,
        )
        == text
    )
