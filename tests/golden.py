"""Losses of a few updates of every task under every norm, under portable arithmetic, in every digit.

`python -m tests.golden` counts the losses of tests/golden_losses.json that this machine gives to
the bit (`python -m tests.golden rt mnist`: those of these tasks). Its exit code is 1 if a loss
differs: in any bit where PyTorch has the file's version on a processor with AVX2, and beyond
rounding elsewhere. A task or norm that the file lacks is `new`: `python -m tests.golden write` adds
it. `python -m tests.golden write all` writes all losses again, where numbers are meant to change,
which the changelog then says.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

import torch

from adanorm.config.paths import choices
from adanorm.files import write_whole
from adanorm.process import HELD, VARIABLE
from adanorm.records.environment import describe
from adanorm.runs.golden import golden_losses

PATH = Path(__file__).with_name("golden_losses.json")
# Relative. Held to AVX2 or to SSE4.1 the losses differ by up to 4e-5 and 7e-5 from those with
# AVX-512; under a rate that is a tenth higher by 2e-4 (RT) to 9e-3 (PTB).
ROUNDING = 1e-4
Losses = dict[str, list[float]]  # by norm, one per update, in nats or the task's own unit


def golden(task: str) -> Losses:
    """Return the losses on file, {} for a new task."""
    stored = json.loads(PATH.read_text())["losses"].get(task, {})
    return {norm: [float.fromhex(loss) for loss in series] for norm, series in stored.items()}


def losses(task: str, norms: Sequence[str] = ()) -> Losses:
    """Return the mean losses of the first updates at smoke scale under each norm that the sites allow.

    Without names of norms, under all.
    """
    computed = golden_losses(f"{task}/{norm}" for norm in norms or choices("norm"))
    return {pair.partition("/")[2]: series for pair, series in computed.items()}


def write(*, everything: bool) -> None:
    """Write this machine's losses, in hexadecimal: those that the file lacks, or all.

    Raises ValueError if it adds to losses that other arithmetic has computed.
    """
    stored, here = json.loads(PATH.read_text()), _machine()
    kept = stored["losses"]
    if everything:
        kept, stored = {}, here
    elif _computed_by(stored) != _computed_by(here):
        raise ValueError(
            f"{PATH.name} has the losses of {_named(stored)}; this is {_named(here)}, whose losses"
            " can differ in the last digits. Add yours there, or write them `all` again"
        )
    written = {}
    for task in choices("task"):
        series = dict(kept.get(task, {}))
        missing = [norm for norm in choices("norm") if norm not in series]
        if missing:
            computed = losses(task, missing)
            series |= {norm: [loss.hex() for loss in run] for norm, run in computed.items()}
        written[task] = {norm: series[norm] for norm in choices("norm") if norm in series}
    content = {**{key: stored[key] for key in here}, "losses": written}
    write_whole(PATH, (json.dumps(content, indent=1) + "\n").encode())


def _named(machine: Mapping[str, Any]) -> str:
    return f"{machine['device']}, PyTorch {machine['packages']['torch']}"


def compare(tasks: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield for each task whether its losses are those on file, and a line that counts them."""
    stored, here = json.loads(PATH.read_text()), _machine()
    exact = _computed_by(stored) == _computed_by(here)
    how = "to the bit" if exact else "within rounding"
    yield True, f"on file: {_named(stored)}; here: {_named(here)}; {how}"
    for task in tasks:
        old, new = golden(task), losses(task)
        agreed = {norm: _agreement(old.get(norm), new.get(norm, [])) for norm in old | new}
        counts = Counter(agreed.values())
        others = [norm for norm, word in agreed.items() if word != "equal"]
        words = ", ".join(
            f"{counts[word]} {word}" for word in ("equal", "within rounding", "other", "new")
        )
        good = not counts["other"] and (not exact or not counts["within rounding"])
        yield good, f"{task}: {words}{' (' + ', '.join(others) + ')' if others else ''}"


def _agreement(old: list[float] | None, new: list[float]) -> str:
    if old is None:
        return "new"
    if old == new:
        return "equal"
    is_close = len(old) == len(new) and all(map(partial(isclose, rel_tol=ROUNDING), old, new))
    return "within rounding" if is_close else "other"


def _machine() -> dict[str, Any]:
    torch.set_num_threads(1)
    machine = describe(
        device=torch.device("cpu"),
        precision="fp32",
        processes=1,
        threads=1,
    )
    return {key: machine[key] for key in ("device", "arithmetic", "packages")}


def _computed_by(machine: Mapping[str, Any]) -> list[Any]:
    return [machine["packages"]["torch"], machine["packages"]["numpy"], machine["arithmetic"]]


def main(arguments: Sequence[str]) -> int:
    """Write the file, or compare with it; returns the exit code."""
    if os.environ.get(VARIABLE) != "portable":  # from its start: the libraries read it once
        environment = {**os.environ, **HELD, VARIABLE: "portable", "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.golden", *arguments], environment)
    if "write" in arguments:
        try:
            write(everything="all" in arguments)
        except ValueError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return 0
    wrong = False
    for good, line in compare(arguments or choices("task")):
        print(line, flush=True)
        wrong |= not good
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
