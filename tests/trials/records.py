"""Trials whose runs are recorded by hand."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from adanorm.config.experiment import Experiment
from adanorm.data.catalogue import SOURCES
from adanorm.studies.launch import choose_launch
from adanorm.trials.conduct import Trial
from adanorm.trials.rules import REFERENCE, Setting, load_rules
from tests.reporting import records

BEDS = Path(__file__).with_name("beds.yaml")
MACHINE = {"commit": "0" * 40, "device": "Any CPU", "packages": {}, "precision": "fp32"}
NOISE = (0.3, -0.2, 0.1, -0.3, 0.1)  # of the gaps, whose mean is 0 over the last look


def trial_in(folder: Path, norm: str = "rmsnorm", *, workers: int = 1) -> Trial:
    launch = choose_launch("local", workers=workers, gpus=1, settings=[], on_cpu=True)
    return Trial(norm, load_rules(str(BEDS)), "adam", (), str(folder), launch)


def make(
    trial: Trial, bed: str, norm: str, setting: Setting | None, seed: int, score: float
) -> Experiment:
    """Record a run of a trial with an accuracy; without a setting, in the first that is tried."""
    setting = setting or tries(trial, bed, norm)[0]
    run = trial.planned(trial.rules.beds[bed], norm, setting, seed).experiment
    counted = {"accuracy": [[int(index < 10 * score)] for index in range(1000)]}
    code = {f"code/{name}": content for name, content in run.norm.code.items()}
    data = {}
    for file in SOURCES[run.data.source].files:
        data[file.name] = (file.checksum or "").removeprefix("sha256:")
    records.record(
        run,
        rows=[{"valid_loss": 0.5, "valid_accuracy": 0.0}, {"valid_loss": 0.4}],
        counted=counted,
        valid={"accuracy": score},
        seconds=10.0,
        data=data,
        files={"environment.json": json.dumps(MACHINE).encode(), **code},
    )
    return run


def tries(trial: Trial, bed: str, norm: str) -> list[Setting]:
    """Return what a norm of a trial tries on a bed."""
    parameter = trial.entrant.parameter if norm == trial.norm else None
    return trial.rules.tries(trial.rules.beds[bed], parameter)


def record_tries(trial: Trial, best: int = 0) -> None:
    """Record all tries of a trial; the try of index `best` has the highest validation score."""
    for bed, norm in product(trial.rules.beds, (trial.norm, REFERENCE)):
        for index, setting in enumerate(tries(trial, bed, norm)):
            for seed in trial.rules.tuning:
                make(trial, bed, norm, setting, seed, 80.0 + (index == best))


def record_fresh(trial: Trial, bed: str, lead: float, seeds: Sequence[int]) -> None:
    """Record fresh runs on a bed, in which the norm leads by so many margins."""
    for seed, noise in zip(seeds, NOISE, strict=False):
        ahead = lead * trial.rules.beds[bed].margin + noise
        make(trial, bed, trial.norm, None, seed, 85.0 + ahead)
        make(trial, bed, REFERENCE, None, seed, 85.0)


def record_trial(folder: Path, lead: float, *, norm: str = "rmsnorm", seeds: int = 5) -> Trial:
    """Record a whole trial in which the norm leads by so many margins on every bed."""
    trial = trial_in(folder, norm)
    record_tries(trial)
    for bed in trial.rules.beds:
        record_fresh(trial, bed, lead, trial.entrant.seeds(seeds))
    return trial
