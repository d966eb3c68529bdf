"""Put a norm on trial beside LayerNorm: one answer, a row per bed.

Name a norm of the suite, or your own as my_norms:MyNorm. Its contract is checked first. Then both
norms get equally many tries, and runs with seeds that follow from the norm's code: nobody chooses
them. A budget of time makes as much of it as fits, best first; a second start goes on, also with
runs that the end of the budget cut off. The command prints a page and writes it to RUNS/trials.
"""

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.cli.study_arguments import workers_of
from adanorm.config.errors import check_known, suggestion
from adanorm.config.titles import title
from adanorm.files import create_folder, write_files
from adanorm.norms.check import IN_TRIALS, check_norm
from adanorm.runs.memory import kept_per_update
from adanorm.studies.launch import choose_launch
from adanorm.trials.conduct import Trial, beds_left_out, budget_seconds
from adanorm.trials.page import page
from adanorm.trials.reading import Reading
from adanorm.trials.rules import OPTIMIZERS, REFERENCE, load_rules
from adanorm.trials.twin import twin_of

USAGE = Usage(
    name="[NORM]",
    keys={
        "norm": Key("another way to name the norm"),
        "budget": Key("time for runs: 90s, 20min, 2h, 1d", "20min"),
        "optimizer": Key("adam or muon; each has its own tries", "adam"),
        "beds": Key("a file like conf/trial.yaml (default: that file)"),
        "runs": Key("folder of the records; the page goes to RUNS/trials", "runs"),
        "workers": Key("runs at a time (default: as many as this machine suits)"),
    },
    settings="norm.params.NAME=VALUE",
    examples=("my_norms:MyNorm budget=20min", "rmsnorm budget=1d workers=2"),
)


def main(arguments: Arguments) -> int:
    """Conduct a trial; the exit code is 1 if the norm breaks the contract."""
    trial, budget = _trial(arguments)
    # The suite has norms that keep statistics or draw noise, and says so.
    outcomes = [*check_norm(trial.config.choice, IN_TRIALS)]
    failing = [outcome for outcome in outcomes if outcome.problem]
    contract = f"{len(outcomes) - len(failing)} of {len(outcomes)} checks hold"
    if failing:
        print(*failing, f"{trial.norm}: {contract}; no trial", sep="\n")
        return 1
    twin = twin_remark(trial)
    if twin:
        print(twin, file=sys.stderr)
    trial.left_out = beds_left_out(trial.rules, trial.norm, trial.settings)
    trial.check_tries()
    folder = pages_in(trial.runs)
    ended = trial.run(budget)
    reading = trial.reading()
    others = [name for name in OPTIMIZERS if name != trial.optimizer]
    text = page(
        reading,
        missing=trial.missing(reading),
        remarks=[*filter(None, [twin]), f"Contract: {contract}.", f"Ended: {ended}."],
        left_out=trial.left_out,
        memory=memory_of(trial, reading),
        beside=[trial.reading(name) for name in others],
    )
    print(text)
    print(*write_files(folder, {f"{trial.name}.md": text}))
    return 0


def _trial(arguments: Arguments) -> tuple[Trial, float]:
    """Return the trial of a command line and its budget in seconds; ValueError if it is wrong."""
    keys = arguments.keys
    if arguments.names and keys["norm"]:
        raise ValueError(f"trial takes one norm, not {arguments.names[0]} and norm={keys['norm']}")
    norm = arguments.names[0] if arguments.names else keys["norm"]
    if not norm:
        raise ValueError("trial needs a norm: one of the suite's, or my_norms:MyNorm")
    if norm == REFERENCE:
        raise ValueError(f"{REFERENCE}: is what a norm is compared with; name another")
    check_known("optimizer", [keys["optimizer"]], OPTIMIZERS)
    optimizer = OPTIMIZERS[keys["optimizer"] == "muon"]
    for setting in arguments.settings:
        if not setting.lstrip("+").startswith("norm.params."):
            key = setting.partition("=")[0]
            known = f"the keys of trial are {', '.join(USAGE.keys)} and norm.params.NAME"
            raise ValueError(f"unknown key {key!r}: {known}{suggestion(key, USAGE.keys)}")
    settings = tuple(f"++{setting.lstrip('+')}" for setting in arguments.settings)
    budget = budget_seconds(keys["budget"])
    rules = load_rules(keys["beds"])
    runs = folder_of(keys["runs"])
    if runs is None:
        raise ValueError(f"runs={keys['runs']}: a trial keeps its runs in a folder of its own")
    launch = choose_launch(
        "local", workers=workers_of(arguments), gpus=1, settings=[], on_cpu=False
    )
    quiet = replace(launch, facts=launch.facts.model_copy(update={"aloud": False}))
    trial = Trial(norm, rules, optimizer, settings, runs, quiet)
    tried = trial.entrant.tries
    if tried and any(f".{tried}=" in setting for setting in settings):
        raise ValueError(f"norm.params.{tried}: is what the trial tries")
    return trial, budget


def pages_in(runs: str) -> Path:
    """Return the folder of the trials' pages; ValueError if it cannot be written."""
    folder = Path(runs) / "trials"
    try:
        create_folder(folder)
        with TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise ValueError(f"runs={runs}: cannot be written: {error.strerror}") from None


def twin_remark(trial: Trial) -> str | None:
    """Return that an outside norm is one of the suite's under another name, if it is."""
    twin = None if trial.config.is_ours else twin_of(trial.config.choice)
    if twin is None:
        return None
    same = f"{trial.config.name} computes what {title(twin)} computes: two names of one norm."
    if twin == REFERENCE:
        return f"{same} Any lead over LayerNorm is chance."
    return f"{same} `adanorm trial {twin}` has its own tries and runs."


def memory_of(trial: Trial, reading: Reading) -> dict[str, float]:
    """Return by bed the memory of an update as a multiple of LayerNorm's."""
    memory = {}
    for name, row in reading.rows.items():
        if row.look:
            ours = row.bed.experiment(trial.norm, *trial.settings, "updates=1")
            theirs = row.bed.experiment(REFERENCE, "updates=1")
            memory[name] = kept_per_update(ours) / kept_per_update(theirs)
    return memory
