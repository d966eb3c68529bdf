"""An observed training step against one that is not: `python -m scripts.benchmarks.analysis`.

For every analysis and its tasks: the two take turns in one run of one model, on the same batches. The ratio
is of seconds, observed : not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import tee

from adanorm.analyses.registry import OBSERVERS
from adanorm.analyses.spec import load_analysis
from adanorm.analyses.step import Step
from adanorm.config.compose import compose_experiment
from adanorm.runs.setup import prepare, start_trainer
from scripts.benchmarks.harness import Options, Row, run_benchmark, take_turns, timed


def measure(options: Options) -> Iterator[Row]:
    """Yield a row for each analysis and task of it."""
    for name in OBSERVERS:
        for task in load_analysis(name).tasks:
            yield _compared(name, task, options.rounds)


def _compared(name: str, task: str, rounds: int) -> Row:
    options = load_analysis(name).options
    experiment = compose_experiment([f"task={task}", "norm=adanorm", "scale=mini"])
    prepared = prepare(experiment)
    trainer = start_trainer(experiment, prepared)
    norms = {site: trainer.model.get_submodule(site) for site in prepared.sites.swapped}
    # The same batches, so the same work: what it trains does not matter here.
    plain, observed = tee(trainer.batches())
    sides = {
        "plain": timed(lambda: trainer.update(next(plain))),
        "observed": timed(lambda: OBSERVERS[name](Step(trainer, next(observed), norms), **options)),
    }
    return {"analysis": name, "task": task, "ratio": take_turns(sides, rounds).ratio("observed", "plain")}


if __name__ == "__main__":
    run_benchmark(measure, rounds=40)
