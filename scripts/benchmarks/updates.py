"""Updates and validation passes of this checkout against another's, each task at its committed settings.

    python -m scripts.benchmarks.updates baseline=/path/to/other/checkout tasks=rt,mnist rounds=21

`baseline` may also be a commit, which is checked out under outputs/baselines/; the default is the
last commit whose arithmetic was PyTorch's own. Each checkout has a process that makes updates by
its own code. The two take turns on the same batches, with one thread each (here: `threads`). A
ratio is processor time, here : there, so below 1 this checkout is faster. `seconds` is the length
of a turn, `evaluations` the rounds of validation passes (0: none), `scale` one scale for all tasks.
`arithmetic=portable`, `mkl` or `onednn` is this side's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from inspect import getsource
from pathlib import Path
from typing import Any, TextIO

from adanorm.config.compose import cached_experiment
from adanorm.config.errors import whole_number
from adanorm.config.paths import PROJECT
from adanorm.data.fetch import mirrors_of
from adanorm.process import HELD, PRODUCTS, products
from adanorm.records.environment import variables_for_git
from scripts.benchmarks.harness import Options, Row, run_benchmark, take_turns

# At mini scale ptb has the paper's whole model and settings, on the treebank's public sample.
SCALES = {
    "rt": "paper",
    "sst5": "paper",
    "mnist": "paper",
    "ptb": "mini",
    "enwik8": "mini",
    "de-en": "mini",
    "en-de": "mini",
    "en-vi": "mini",
}
THREADS = "OMP_NUM_THREADS"
ARITHMETICS = {"": {}, "portable": HELD, "mkl": {PRODUCTS: "mkl"}, "onednn": {PRODUCTS: "onednn"}}
ENVIRONMENT = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), "1000000000")
NUMERICS_1 = "0c61c8c"  # the last commit whose dropout, products and optimizer were PyTorch's own
WARM_UP = 5  # uncounted updates of each side; their speed decides how many make a turn


def _say(answers: TextIO, **fields: Any) -> None:
    """Write the fields as one line of JSON."""
    print(json.dumps(fields), file=answers, flush=True)


def _start_run(settings: list[str], answers: TextIO) -> None:
    """Run the checkout's experiment of these settings; only this depends on how its modules are laid out."""
    try:
        experiment = import_module("adanorm.config.compose").compose_experiment(settings)
        execute = import_module("adanorm.runs.execute").execute
    except ModuleNotFoundError:  # up to commit bd8051a
        experiment = import_module("adanorm.compose").experiment(settings)
        execute = import_module("adanorm.execution").make
    trainer_class: Any = import_module("adanorm.training.loop").Trainer
    trainer_class.train = lambda trainer, *_, **__: _serve(trainer, answers)
    execute(experiment)


def _serve(trainer: Any, answers: TextIO) -> None:
    """Make updates or a validation pass for each line of input, until it ends.

    An answer has the seconds of processor time, and `found`: the last loss or the scores.
    """
    trainer.model.train()
    batches = trainer.batches()
    _say(answers, ready=True)
    for line in sys.stdin:
        request, *count = line.split()
        started = time.process_time()
        if request == "update":
            for _ in range(int(count[0])):
                loss = trainer.update(next(batches))
            seconds = time.process_time() - started
            _say(answers, seconds=seconds, found=float(loss.total) / loss.units)
        else:
            scores = trainer.measure("valid").metrics
            _say(answers, seconds=time.process_time() - started, found=scores)
    raise SystemExit  # skips the rest of the run, so nothing is recorded


# The child process imports only the checkout that PYTHONPATH names, which may be another commit.
CHILD = f"""
from __future__ import annotations
import json, os, sys, time
from functools import partial
from importlib import import_module
from pathlib import Path
{getsource(_say)}{getsource(_serve)}{getsource(_start_run)}
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # prints of the checkout go to stderr
_say(answers, code=str(Path(import_module("adanorm").__file__ or "").parent))
_start_run(sys.argv[1:], answers)
"""


class Child:
    """The process of one checkout, which works only on request."""

    def __init__(self, checkout: Path, settings: list[str], folder: Path, **own: str) -> None:
        self.checkout, self._errors = checkout, folder / "errors.txt"
        own = {THREADS: "1"} | own
        folder.mkdir()
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", CHILD, *settings, f"runs={folder}", f"threads={own[THREADS]}"],
                env=os.environ | _mirror() | ENVIRONMENT | own | {"PYTHONPATH": f"{checkout}/src"},
                cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # its records lie in a temporary folder
        self._process.communicate()

    def wait(self) -> None:
        """Wait until the run is set up; raises ValueError if that fails or the process runs other code."""
        code = Path(self._answer()["code"])
        if not code.is_relative_to(self.checkout):
            raise ValueError(f"{self.checkout}: its process imports {code}")
        self._answer()  # ready

    def ask(self, request: str) -> dict[str, Any]:
        """Return the answer to `update N` or `evaluate`: `seconds` and `found`, the result."""
        assert self._process.stdin is not None
        print(request, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(
                f"{self.checkout}: {self._errors.read_text().strip().splitlines()[-1]}"
            )
        return json.loads(line)


def measure(options: Options) -> Iterator[Row]:
    """Yield, for each task, one row for updates and one for validation passes."""
    keys = options.keys
    tasks = keys["tasks"].split(",")
    if unknown := [task for task in tasks if task not in SCALES]:
        raise ValueError(f"tasks={unknown[0]}: choose from {', '.join(SCALES)}")
    if keys["arithmetic"] not in ARITHMETICS:
        raise ValueError(
            f"arithmetic={keys['arithmetic']}: must be portable, mkl, onednn, or nothing"
        )
    checkouts = {"here": PROJECT, "there": checkout_of(keys["baseline"])}
    for task in tasks:
        about = {"task": task, "norm": keys["norm"], "scale": keys["scale"] or SCALES[task]}
        settings = [*(f"{key}={value}" for key, value in about.items()), "device=cpu"]
        for row in _compared(checkouts, [*settings, f"data.cache={PROJECT / 'data'}"], options):
            library = ARITHMETICS[keys["arithmetic"]].get(PRODUCTS, products())
            yield {**about, "products": library, "baseline": keys["baseline"], **row}


def _mirror() -> dict[str, str]:
    """Return the variable that names this checkout's mirror of data, for a checkout in another place."""
    mirrors = mirrors_of(cached_experiment([f"task={next(iter(SCALES))}"]).data)
    return {"ADANORM_MIRROR": mirrors[0]} if mirrors else {}


def checkout_of(baseline: str) -> Path:
    """Return the folder of a checkout, from a folder or a commit; raises ValueError for anything else."""
    checkout = PROJECT / "outputs" / "baselines" / baseline
    for folder in (Path(baseline).resolve(), checkout) if baseline else ():
        if (folder / "src" / "adanorm").is_dir():
            return folder
    command = ["git", "-C", str(PROJECT), "worktree", "add", "--detach", str(checkout), baseline]
    if baseline:
        process = subprocess.run(
            command,
            capture_output=True,
            check=False,
            env=variables_for_git(),
        )
        if process.returncode == 0:
            return checkout
    raise ValueError(
        f"baseline={baseline}: must be another checkout of this project, or a commit of it"
    )


def _compared(
    checkouts: Mapping[str, Path], settings: list[str], options: Options
) -> Iterator[Row]:
    here = {**ARITHMETICS[options.keys["arithmetic"]], THREADS: options.keys["threads"]}
    with ExitStack() as stack:
        runs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        children = {
            side: stack.enter_context(
                Child(path, settings, runs / side, **(here if side == "here" else {}))
            )
            for side, path in checkouts.items()
        }
        for child in children.values():
            child.wait()
        for _ in range(2):  # the first compiles and fills caches
            first = [child.ask(f"update {WARM_UP}") for child in children.values()]
        slowest = max(answer["seconds"] for answer in first) / WARM_UP
        count = max(1, round(float(options.keys["seconds"]) / slowest))
        yield _row("update", children, f"update {count}", options.rounds, count=count)
        if evaluations := whole_number("evaluations", options.keys["evaluations"], at_least=0):
            yield _row("validation pass", children, "evaluate", evaluations, count=1)


def _row(what: str, children: Mapping[str, Child], request: str, rounds: int, *, count: int) -> Row:
    results: dict[str, list[Any]] = {side: [] for side in children}

    def turn(side: str) -> float:
        answer = children[side].ask(request)
        results[side].append(answer["found"])
        return float(answer["seconds"]) / count

    spent = take_turns({side: partial(turn, side) for side in children}, rounds)
    speeds = {f"{side}_per_second": round(1 / spent.median(side), 3) for side in children}
    same = results["here"] == results["there"]
    ratio = spent.ratio("here", "there")
    return {"what": what, "a_turn": count, **speeds, "ratio": ratio, "same_results": same}


if __name__ == "__main__":
    keys = {"baseline": NUMERICS_1, "arithmetic": "", "tasks": ",".join(SCALES), "scale": ""}
    keys |= {"norm": "adanorm", "seconds": "0.5", "evaluations": "5"}
    run_benchmark(measure, rounds=21, keys=keys)
