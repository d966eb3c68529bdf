"""Losses of a few updates of every task under every norm, to be compared within rounding, or to the bit.

`python -m tests.golden` writes what the code gives now to tests/golden_losses.json: only where numbers are
meant to change, which the changelog then says. `python -m tests.golden portable` says how many losses of
tests/golden_portable.json, in every digit those of the processor that it names, this machine gives to the bit
under portable arithmetic (`... portable rt mnist`: of these tasks); `... write-portable` writes that file.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from math import isclose
from pathlib import Path
from typing import Any

import torch

from adanorm import tasks
from adanorm.config.compose_cache import cached_experiment
from adanorm.config.paths import choices
from adanorm.files import write_whole
from adanorm.portable import HELD, VARIABLE
from adanorm.records.environment import describe
from adanorm.runs.setup import prepare, start_trainer

LEFT_OUT = ("partial-rmsnorm",)  # at this size it divides by one feature: a last digit grows to a tenth
PATH = Path(__file__).with_name("golden_losses.json")
PORTABLE = Path(__file__).with_name("golden_portable.json")
# Relative. Held to AVX2 or to SSE4.1 the losses differ by up to 4e-5 and 7e-5 from those with AVX-512; under
# a rate that is a tenth higher by 2e-4 (RT) to 9e-3 (PTB).
ROUNDING = 1e-4
UPDATES = 3


def golden() -> dict[str, dict[str, list[float]]]:
    """Return the losses on file: by task and norm, one an update, in nats or the task's own unit."""
    found: dict[str, dict[str, list[float]]] = json.loads(PATH.read_text())
    return found


def losses(task: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the norms that a task's sites allow, with the mean losses of the first updates at smoke scale."""
    loaded = model = None
    for norm in (norm for norm in choices("norm") if norm not in LEFT_OUT):
        experiment = cached_experiment([f"task={task}", f"norm={norm}", "scale=smoke"])
        if loaded is None or experiment.model != model:  # MNIST's axes depend on the norm
            loaded, model = tasks.build(experiment), experiment.model
        try:
            prepared = prepare(experiment, loaded)
        except ValueError:  # not a norm for these sites: the file names those that are
            continue
        trainer = start_trainer(experiment, prepared)
        found = [trainer.update(batches) for batches in islice(trainer.batches(), UPDATES)]
        yield norm, [loss.total.item() / loss.units for loss in found]


def every_loss() -> dict[str, dict[str, list[float]]]:
    """Return the losses that this machine gives, by task and norm."""
    return {task: dict(losses(task)) for task in choices("task")}


def write_portable() -> None:
    """Write this machine's losses, in hexadecimal, and what computed them."""
    found = {
        task: {norm: [loss.hex() for loss in series] for norm, series in norms.items()}
        for task, norms in every_loss().items()
    }
    write_whole(PORTABLE, (json.dumps({**_machine(), "losses": found}, indent=1) + "\n").encode())


def compare_portable(of: Sequence[str]) -> Iterator[str]:
    """Yield how many losses on file, of these tasks or all, are equal here, within rounding, beyond."""
    kept = json.loads(PORTABLE.read_text())
    yield f"on file: {kept['device']}, {kept['packages']['torch']}; here: {_machine()['device']}"
    for task in of or kept["losses"]:
        norms = kept["losses"][task]
        found, counts, other = dict(losses(task)), Counter[str](), []
        for norm, series in norms.items():
            pairs = zip(map(float.fromhex, series), found[norm], strict=True)
            agreed = [_agreement(was, now) for was, now in pairs]
            counts.update(agreed)
            other += [norm] if {*agreed} != {"equal"} else []
        others = ", ".join(other)
        said = ", ".join(f"{counts[word]} {word}" for word in ("equal", "within rounding", "beyond"))
        yield f"{task}: {said}{f' ({others})' if others else ''}"


def _agreement(was: float, now: float) -> str:
    if was == now:
        return "equal"
    return "within rounding" if isclose(was, now, rel_tol=ROUNDING) else "beyond"


def _machine() -> dict[str, Any]:
    torch.set_num_threads(1)
    found = describe(device=torch.device("cpu"), precision="fp32", processes=1, threads=1)
    return {key: found[key] for key in ("device", "arithmetic", "packages")}


if __name__ == "__main__":
    asked = sys.argv[1:]
    if not asked:
        write_whole(PATH, (json.dumps(every_loss(), indent=1) + "\n").encode())
    elif os.environ.get(VARIABLE) != "portable":  # from its start: the libraries read it once
        held = {**os.environ, **HELD, VARIABLE: "portable", "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.golden", *asked], held)
    elif asked == ["write-portable"]:
        write_portable()
    else:
        for line in compare_portable(asked[1:]):
            print(line, flush=True)
