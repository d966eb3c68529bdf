"""The report over 10,000 run folders: `python -m scripts.benchmarks.report`."""

from __future__ import annotations

import json
import tempfile
import time

from adanorm.config.experiment import Experiment
from adanorm.records.result import Result
from adanorm.reporting.pages.report import report_page
from adanorm.reporting.tables.table import Table
from adanorm.reporting.verdicts.claims import claim_results
from adanorm.studies.grid import study_grid
from adanorm.studies.study import load_study
from scripts.benchmarks import results
from scripts.benchmarks.memory import peak_mb

SEEDS, EVALUATIONS = 179, 30  # 7 norms x 8 tasks x 179 seeds: 10,024 runs


def main() -> None:
    """Print seconds and peak memory of building the report_page, and write results/bench/report.csv."""
    study = load_study("overview")
    study = study.model_copy(update={"seeds": list(range(1, SEEDS + 1))})
    with tempfile.TemporaryDirectory() as folder:
        runs = [run for plan in study_grid(study, runs=folder).values() for run in plan.runs]
        for run in runs:
            _record(run)
        before = peak_mb()
        started = time.perf_counter()
        table = Table(study, study_grid(study, runs=folder))
        text = report_page({"overview": table}, claim_results(folder))
        seconds = time.perf_counter() - started
    row = {
        "what": f"report over {len(runs):,} runs",
        "seconds": round(seconds, 1),
        "peak_mb": round(peak_mb()),
        "before_mb": round(before),
        "page_mb": round(len(text) / 1e6, 1),
    }
    print("{what}: {seconds} s, peak memory {peak_mb} MB, page {page_mb} MB".format(**row))
    results.write("report", [row])


def _record(run: Experiment) -> None:
    folder = run.folder()
    folder.mkdir(parents=True)
    metric = run.task.metric
    result = Result(
        status="done",
        task=run.task.name,
        norm=run.norm.name,
        scale=run.scale,
        seed=run.seed,
        precision=run.precision,
        own_data=False,
        norm_sites=[],
        layernorm_sites=[],
        parameters=0,
        norm_parameters=0,
        data={"file": "0" * 64},
        valid={run.task.criterion: 50},
        test={metric: 50 + run.seed % 7},
        seconds=1.0,
    )
    rows = [
        {
            "update": n,
            "train_loss": 1 / (1 + n),
            f"valid_{run.task.criterion}": 1 / (1 + n),
            "valid_loss": 1.0,
        }
        for n in range(EVALUATIONS)
    ]
    (folder / "result.json").write_bytes(result.to_json())
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "config.yaml").write_text("task: {}\n" * 40)
    (folder / "environment.json").write_text(json.dumps({"commit": "0" * 40, "packages": {"torch": "2"}}))


if __name__ == "__main__":
    main()
