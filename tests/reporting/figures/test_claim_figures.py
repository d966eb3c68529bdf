"""Figures of claims: what is drawn of records made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adanorm.config.compose import cached_experiment
from adanorm.reporting.figures.leads import evidence_accrual
from adanorm.verdicts.cell import Evidence
from adanorm.verdicts.claims import claim_evidence
from adanorm.verdicts.preregistration import Claim
from tests.reporting.records import record, score

ADANORM = Claim(
    id="a", text="AdaNorm is better.", source="", better="adanorm", worse="layernorm", tasks=["mnist"]
)


def xs(line: Any) -> list[float]:
    return [float(x) for x in line.get_xdata()]


@pytest.fixture
def found(tmp_path: Path) -> dict[str, Evidence]:
    """MNIST, margin 0.1, where AdaNorm is 0.2 +- 0.01 better with each of four seeds; the paper has 0.22."""
    for norm, shift in (("layernorm", 0.0), ("adanorm", 0.2), ("none", 0.1)):
        first = cached_experiment(["task=mnist", f"norm={norm}", "scale=paper"], runs=str(tmp_path))
        for seed, noise in enumerate((0.01, -0.01, 0.0, 0.0), 1):
            own = noise if norm == "adanorm" else 0.0
            record(first.model_copy(update={"seed": seed}), **score(99 + shift + own))
    return claim_evidence(ADANORM, "paper", str(tmp_path))


def test_evidence_is_drawn_after_each_seed_by_the_seeds_so_far(found: dict[str, Evidence]) -> None:
    drawn = evidence_accrual("evidence-a-paper", ADANORM, found, "paper")
    assert drawn is not None
    axes: Any = drawn.figure.axes[0]
    effects = [line for line in axes.lines if line.get_marker() == "o"]
    assert [xs(line)[0] for line in effects] == [2, 3, 4]
    assert [float(line.get_ydata()[0]) for line in effects] == pytest.approx([0.2, 0.2, 0.2])
    intervals = [max(line.get_ydata()) for line in axes.lines if len(set(line.get_ydata())) == 2]
    assert axes.get_ylim()[1] == pytest.approx(1.1 * intervals[-2]), "that of the sign, not of the size"
    assert drawn.figure.get_suptitle() == "AdaNorm beside LayerNorm: better on MNIST"
    (legend,) = drawn.figure.legends
    shown = [text.get_text() for text in legend.get_texts()]
    assert (shown[0], shown[-2:]) == ("better", ["within the margin", "the paper's lead"])
    assert "worse" not in shown


def test_a_claim_without_runs_of_its_scale_has_no_figure(found: dict[str, Evidence]) -> None:
    assert evidence_accrual("evidence-a-small", ADANORM, found, "small") is None
    assert evidence_accrual("evidence-a", ADANORM, {}, "paper") is None
