"""What observing a step costs: `python -m scripts.benchmarks.analysis`.

Steps observed and not observed take turns in one run of one model.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from adanorm.analyses.registry import OBSERVERS
from adanorm.analyses.spec import load_analysis
from adanorm.analyses.step import Step
from adanorm.config.compose import compose_experiment
from adanorm.runs.setup import prepare, start_trainer
from scripts.benchmarks import results

ROUNDS = 40


def main() -> None:
    """Print for each analysis and task the median ratio, and write results/bench/analysis.csv."""
    results.write(
        "analysis", [_measure(name, task) for name in OBSERVERS for task in load_analysis(name).tasks]
    )


def _measure(name: str, task: str) -> dict[str, Any]:
    options = load_analysis(name).options
    experiment = compose_experiment([f"task={task}", "norm=adanorm", "scale=mini"])
    prepared = prepare(experiment)
    trainer = start_trainer(experiment, prepared)
    norms = {site: trainer.model.get_submodule(site) for site in prepared.sites.swapped}
    batches = trainer.batches()
    trainer.update(next(batches))
    ratios = []
    for _ in range(ROUNDS):
        # The same batch, so the same work: what it trains is of no account here.
        batch = next(batches)
        started = time.perf_counter()
        trainer.update(batch)
        plain = time.perf_counter() - started
        started = time.perf_counter()
        OBSERVERS[name](Step(trainer, batch, norms), **options)
        ratios.append((time.perf_counter() - started) / plain)
    found = {"analysis": name, "task": task, "ratio": round(median(ratios), 3), "rounds": ROUNDS}
    print(f"{name} {task}: an observed step takes {median(ratios):.2f} times as long", flush=True)
    return found


if __name__ == "__main__":
    main()
