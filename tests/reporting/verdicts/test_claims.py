"""Claims judged over records made by hand, with known answers; and the runs behind a cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.reporting.provenance import trace
from adanorm.reporting.tables.claims import claims_markdown
from adanorm.reporting.verdicts.claims import evaluate_claim
from adanorm.reporting.verdicts.preregistration import Claim
from tests.conftest import Command
from tests.reporting.records import record

ADANORM = Claim(
    id="a", text="AdaNorm is better.", source="here", better="adanorm", worse="layernorm",
    tasks=["rt", "sst5", "enwik8"],
)  # fmt: skip


def made(folder: Path, task: str, norm: str, scores: list[float | None]) -> None:
    """Runs of seeds 1, 2, ... with these test scores; None: diverged."""
    for seed, score in enumerate(scores, 1):
        run = compose_experiment([f"task={task}", f"norm={norm}", f"seed={seed}", f"runs={folder}"])
        metric = run.task.metric
        ended = {"status": "done", "test": {metric: score}} if score is not None else {"status": "diverged"}
        record(run, **ended)


def judged(claim: Claim, folder: Path) -> dict[str, str]:
    found = evaluate_claim(claim, scale="paper", seeds=[1, 2, 3], runs=str(folder))
    return {"all": found.verdict, **{finding.task: finding.verdict for finding in found.findings}}


def test_a_claim_is_supported_where_every_task_supports_it(tmp_path: Path) -> None:
    for task, worse in (("rt", 70.0), ("sst5", 38.0)):
        made(tmp_path, task, "layernorm", [worse, worse + 1, worse + 2])
        made(tmp_path, task, "adanorm", [worse + 3, worse + 4.1, worse + 4.9])
    assert judged(ADANORM, tmp_path) == {
        "all": "undecided", "rt": "supported", "sst5": "supported", "enwik8": "not run",
    }  # fmt: skip
    made(tmp_path, "enwik8", "layernorm", [1.10, 1.11, 1.12])
    made(tmp_path, "enwik8", "adanorm", [1.05, 1.06, 1.071])
    assert judged(ADANORM, tmp_path)["all"] == "supported", "fewer bits are better"


def test_a_claim_is_contradicted_where_any_task_contradicts_it(tmp_path: Path) -> None:
    made(tmp_path, "rt", "layernorm", [75.0, 76.0, 77.0])
    made(tmp_path, "rt", "adanorm", [73.0, 74.1, 74.9])
    assert judged(ADANORM, tmp_path) == {
        "all": "contradicted", "rt": "contradicted", "sst5": "not run", "enwik8": "not run",
    }  # fmt: skip


def test_what_is_too_noisy_too_few_or_unpaired_is_undecided(tmp_path: Path) -> None:
    made(tmp_path, "rt", "layernorm", [75.0, 76.0, 77.0])
    made(tmp_path, "rt", "adanorm", [77.0, 74.0, 79.0])
    made(tmp_path, "sst5", "layernorm", [38.0])
    made(tmp_path, "sst5", "adanorm", [48.0])
    found = evaluate_claim(ADANORM, scale="paper", seeds=[1, 2, 3], runs=str(tmp_path))
    assert [finding.verdict for finding in found.findings] == ["undecided", "undecided", "not run"]
    noisy = found.findings[0].gap
    assert noisy is not None
    assert noisy.needed is not None
    assert noisy.needed > 3
    assert found.findings[1].p is None


def test_p_values_are_corrected_over_the_tasks_of_a_claim(tmp_path: Path) -> None:
    made(tmp_path, "rt", "layernorm", [75.0, 76.0, 77.0])
    made(tmp_path, "rt", "adanorm", [76.0, 77.5, 78.6])
    alone = evaluate_claim(ADANORM, scale="paper", seeds=[1, 2, 3], runs=str(tmp_path)).findings[0].p
    made(tmp_path, "sst5", "layernorm", [38.0, 39.0, 40.0])
    made(tmp_path, "sst5", "adanorm", [37.0, 40.0, 40.0])
    corrected = evaluate_claim(ADANORM, scale="paper", seeds=[1, 2, 3], runs=str(tmp_path)).findings[0].p
    assert alone is not None
    assert corrected == pytest.approx(2 * alone)


def test_a_norm_that_always_diverges_is_worse(tmp_path: Path) -> None:
    made(tmp_path, "rt", "layernorm", [None, None])
    made(tmp_path, "rt", "adanorm", [75.0, 76.0])
    made(tmp_path, "sst5", "layernorm", [38.0, 39.0])
    made(tmp_path, "sst5", "adanorm", [None, 40.0])
    assert judged(ADANORM, tmp_path) == {
        "all": "undecided", "rt": "supported", "sst5": "undecided", "enwik8": "not run",
    }  # fmt: skip


def test_losses_are_those_of_the_last_evaluation(tmp_path: Path) -> None:
    claim = ADANORM.model_copy(update={"quantity": "last_valid_loss", "tasks": ["rt"]})
    for norm, lift in (("layernorm", 0.0), ("adanorm", -0.3)):
        made(tmp_path, "rt", norm, [70.0, 70.0, 70.0])
        for seed in (1, 2, 3):
            run = compose_experiment(["task=rt", f"norm={norm}", f"seed={seed}", f"runs={tmp_path}"])
            rows = [{"valid_loss": 9.0}, {"valid_loss": 1 + seed / 50 + lift * (1 + seed / 100)}]
            (run.folder() / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert judged(claim, tmp_path)["all"] == "supported"


def test_the_claims_table_says_what_was_found(tmp_path: Path) -> None:
    made(tmp_path, "rt", "layernorm", [70.0, 71.0, 72.0])
    made(tmp_path, "rt", "adanorm", [73.0, 74.1, 74.9])
    text = claims_markdown([evaluate_claim(ADANORM, scale="paper", seeds=[1, 2, 3], runs=str(tmp_path))])
    assert "Scale paper: **undecided**." in text
    assert "| RT | accuracy | AdaNorm | LayerNorm | +3.000 |" in text
    assert "Not run: SST5, Enwiki8." in text


def test_a_cell_is_traced_to_its_runs_and_their_commands() -> None:
    lines = trace("table4/AdaNorm/RT")
    assert lines[0] == "Table 4: AdaNorm against LayerNorm: AdaNorm, RT"
    assert "the paper has 77.50" in lines[1]
    command = "adanorm run task=rt norm=adanorm scale=paper seed=2 runs=repeated norm.backend=eager"
    assert f"  repeat   {command}" in lines
    assert any(line.startswith("  commit   ") for line in lines)
    assert trace("table4/adanorm/rt") == lines
    assert max(len(line) for line in lines) <= 110


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("table9/adanorm/rt", "unknown study 'table9'"),
        ("table4/none/rt", "no row 'none' in this study: choose from layernorm, adanorm"),
        ("table4/adanorm/wsj", "no task 'wsj' in this study"),
        ("table4", "name a cell as STUDY/NORM/TASK"),
    ],
)
def test_a_cell_that_is_not_there_is_one_line(command: Command, address: str, message: str) -> None:
    done = command("trace", address)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
