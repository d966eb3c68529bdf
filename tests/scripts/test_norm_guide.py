"""The guide to the norms: its generated lines, and that it speaks of every norm."""

from __future__ import annotations

import re
from pathlib import Path

from adanorm.config.paths import choices
from scripts.pages.norm_guide import GUIDE, update_norm_guide
from tests.reporting.records import scored

TEXT = """# One
<!-- facts: rmsnorm -->
old
<!-- /facts -->
between
<!-- facts: layernorm -->
<!-- /facts -->
"""
COSTS = "norm,rows,features,to_layernorm\nrmsnorm,4096,512,1.5\nrmsnorm,4096,128,0.875\n"


def test_every_section_of_the_guide_is_of_a_norm_and_no_norm_has_two() -> None:
    """A norm may be without a section: facts are written where there is one."""
    marks = re.findall(r"<!-- facts: (\S+) -->", GUIDE.read_text())
    assert 0 < len(set(marks)) == len(marks)
    assert set(marks) <= set(choices("norm"))
    assert re.findall(r"^### (\S+)$", GUIDE.read_text(), re.MULTILINE) == marks


def test_the_facts_are_the_records_the_bench_and_the_invariances(tmp_path: Path) -> None:
    # Gaps of -2, -2.1, -1.9 on RT: worse. Of -1, 1, 3 on SST5: open. MNIST: always 1.
    of_base = {"rt": (70.0, 71.0, 72.0), "sst5": (40.0, 40.0, 40.0), "mnist": (97.0, 97.0, 97.0)}
    of_ours = {"rt": (68.0, 68.9, 70.1), "sst5": (39.0, 41.0, 43.0), "mnist": (98.0, 98.0, 98.0)}
    scores = {("layernorm", task): accuracies for task, accuracies in of_base.items()}
    scores |= {("rmsnorm", task): accuracies for task, accuracies in of_ours.items()}
    beyond = scored("beyond", tmp_path, scores)
    heirs = scored("heirs", tmp_path, {("rmsnorm", "rt"): [75.0]})
    costs = tmp_path / "norms.csv"
    costs.write_text(COSTS)
    changed = {"rmsnorm": ["weight matrix re-scaling"], "layernorm": []}
    tables = [heirs, beyond, heirs]
    text = update_norm_guide(TEXT, tables, costs=costs, invariances=changed)
    assert text.splitlines() == [
        "# One",
        "<!-- facts: rmsnorm -->",
        "**Here**",
        "- indifferent to: weight matrix re-scaling",
        "- time, forward and backward, as a multiple of LayerNorm's: 1.50 at (4096, 512),"
        " 0.88 at (4096, 128)",
        "- RT, `paper`: 75.00 (1/5 seeds)",
        "- RT, `mini`: 69.00 ± 1.05, -2.00 to LayerNorm on 3 shared seeds: worse (interval -2.25 to -1.75)",
        "- SST5, `mini`: 41.00 ± 2.00, +1.00 to LayerNorm on 3 shared seeds: open"
        " (interval -3.97 to +5.97; for the margin of 1, -2.37 to +4.37)",
        "- MNIST, `mini`: 98.00 ± 0.00, +1.00 to LayerNorm on 3 shared seeds: open"
        " (equal gaps, and no variance)",
        "<!-- /facts -->",
        "between",
        "<!-- facts: layernorm -->",
        "**Here**",
        "- indifferent to: none of the six changes measured",
        "- RT, `mini`: 71.00 ± 1.00",
        "- SST5, `mini`: 40.00 ± 0.00",
        "- MNIST, `mini`: 97.00 ± 0.00",
        "<!-- /facts -->",
    ]
    assert update_norm_guide(text, tables, costs=costs, invariances=changed) == text
