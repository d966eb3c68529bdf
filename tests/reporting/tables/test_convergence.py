"""How far the runs of scale small had converged stands below their table."""

from __future__ import annotations

from pathlib import Path

from adanorm.config.compose import cached_experiment
from adanorm.reporting.tables.notes import notes
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import Study
from tests.reporting.records import record


def test_a_run_whose_validation_loss_still_falls_is_named(tmp_path: Path) -> None:
    study = Study.model_validate(
        {"title": "t", "rows": ["layernorm", "adanorm"], "columns": ["de-en"], "scale": "small", "seeds": [1]}
    )
    for norm, last in (("layernorm", 2.499), ("adanorm", 2.4)):
        run = cached_experiment(["task=de-en", f"norm={norm}", "scale=small"], runs=str(tmp_path))
        losses = [4.0] * 17 + [2.5, 2.5, last]
        record(run, rows=[{"valid_loss": loss} for loss in losses], test={"bleu": 40.0})
    table = Table(study, study_grid(study, runs=str(tmp_path)))
    (line,) = [note for note in notes(table) if "last tenth" in note]
    assert line == (
        "Over the last tenth of a run its validation loss fell by 4.0% at most."
        " Still falling, by more than 1%: De-En AdaNorm (4.0%)."
    )
