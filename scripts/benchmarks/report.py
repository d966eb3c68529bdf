"""The report over 10,000 run folders against one over a tenth of them: `python -m scripts.benchmarks.report`.

Building the page, the two taking turns in one process. The ratio is seconds of all : a tenth, so 10 where the
time grows with the runs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator

import yaml

from adanorm.config.experiment import Experiment
from adanorm.records.check import digests
from adanorm.records.result import Result
from adanorm.reporting.report import report_page
from adanorm.reporting.tables.table import Table
from adanorm.studies.grid import study_grid
from adanorm.studies.study import Study, load_study
from adanorm.verdicts.claims import claim_results
from scripts.benchmarks.child_process import peak_mb
from scripts.benchmarks.harness import Options, Row, run_benchmark, take_turns, timed

SEEDS, EVALUATIONS = 179, 30  # 7 norms x 8 tasks x 179 seeds: 10,024 runs


def measure(options: Options) -> Iterator[Row]:
    """Yield the row: seconds and peak memory of building the page over all runs."""
    study = load_study("overview")
    with tempfile.TemporaryDirectory() as many, tempfile.TemporaryDirectory() as few:
        folders = {
            many: study.model_copy(update={"seeds": list(range(1, SEEDS + 1))}),
            few: study.model_copy(update={"seeds": list(range(1, SEEDS // 10 + 1))}),
        }
        counts = {folder: _record_all(wide, folder) for folder, wide in folders.items()}
        before = peak_mb()
        page_mb = len(_page(folders[many], many)) / 1e6
        sides = {
            folder: timed(lambda wide=wide, folder=folder: _page(wide, folder))  # type: ignore[misc]
            for folder, wide in folders.items()
        }
        found = take_turns(sides, options.rounds, warm_up=0)
        yield {
            "what": f"report over {counts[many]:,} runs against {counts[few]:,}",
            "seconds": round(found.median(many), 1),
            "ratio": found.ratio(many, few),
            "peak_mb": round(peak_mb()),
            "before_mb": round(before),
            "page_mb": round(page_mb, 1),
        }


def _page(study: Study, folder: str) -> str:
    table = Table(study, study_grid(study, runs=folder))
    return report_page({"overview": table}, claim_results(folder))


def _record_all(study: Study, folder: str) -> int:
    """Write the records of every run of a study, and return how many those are."""
    runs = [run for plan in study_grid(study, runs=folder).values() for run in plan.runs]
    for run in runs:
        _record(run)
    return len(runs)


def _record(run: Experiment) -> None:
    folder = run.folder()
    folder.mkdir(parents=True)
    metric, selection = run.task.metric, run.task.selection_metric
    every = run.training.evaluate_every or 1
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
        valid={selection: 1 / EVALUATIONS},
        test={metric: 50 + run.seed % 7},
        best_step=every * EVALUATIONS,
        steps=every * EVALUATIONS,
        seconds=1.0,
    )
    rows = [
        {"update": every * n, "epoch": n, "train_loss": 1 / n, "valid_loss": 1.0, f"valid_{selection}": 1 / n}
        for n in range(1, EVALUATIONS + 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "config.yaml").write_text(yaml.safe_dump(run.identity()))
    (folder / "environment.json").write_text(json.dumps({"commit": "0" * 40, "packages": {"torch": "2"}}))
    (folder / "result.json").write_bytes(result.sealed(digests(folder)))


if __name__ == "__main__":
    run_benchmark(measure, rounds=3)
