"""Put a norm on trial beside LayerNorm: one answer, a row per bed.

Name a norm of the suite, or your own as my_norms:MyNorm. Its contract is checked first. Then both
norms get equally many tries, and runs with seeds that follow from the norm's code: nobody chooses
them. A budget of time makes as much of it as fits, best first; a second start goes on. The command
prints a page and writes it to RUNS/trials.
"""

from dataclasses import replace
from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage, folder_of
from adanorm.cli.study_arguments import workers_of
from adanorm.config.errors import check_known, suggestion
from adanorm.files import write_files
from adanorm.launch.launch import choose_launch
from adanorm.norms.check import IN_TRIALS, check_norm
from adanorm.trials.conduct import Trial, beds_left_out, budget_seconds
from adanorm.trials.cost import kept_per_update
from adanorm.trials.page import page
from adanorm.trials.reading import Reading
from adanorm.trials.rules import REFERENCE, Optimizer, load_rules

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
OPTIMIZERS: tuple[Optimizer, ...] = ("adam", "muon")


def main(arguments: Arguments) -> int:
    """Conduct a trial; the exit code is 1 if the norm breaks the contract."""
    keys = arguments.keys
    norm = arguments.names[0] if arguments.names else keys["norm"]
    if not norm:
        raise ValueError("trial needs a norm: one of the suite's, or my_norms:MyNorm")
    if norm == REFERENCE:
        raise ValueError(f"{REFERENCE}: is what a norm is compared with; name another")
    check_known("optimizer", [keys["optimizer"]], OPTIMIZERS)
    optimizer = OPTIMIZERS[keys["optimizer"] == "muon"]
    runs = folder_of(keys["runs"])
    if runs is None:
        raise ValueError(f"runs={keys['runs']}: a trial keeps its runs in a folder of its own")
    for setting in arguments.settings:
        if not setting.lstrip("+").startswith("norm.params."):
            key = setting.partition("=")[0]
            known = f"the keys of trial are {', '.join(USAGE.keys)} and norm.params.NAME"
            raise ValueError(f"unknown key {key!r}: {known}{suggestion(key, USAGE.keys)}")
    budget = budget_seconds(keys["budget"])
    rules = load_rules(keys["beds"])
    settings = tuple(f"++{setting.lstrip('+')}" for setting in arguments.settings)
    launch = choose_launch(
        "local", workers=workers_of(arguments), gpus=1, settings=[], on_cpu=False
    )
    quiet = replace(launch, facts=launch.facts.model_copy(update={"aloud": False}))
    trial = Trial(norm, rules, optimizer, settings, runs, quiet)
    entrant = trial.entrant
    if entrant.parameter and any(f".{entrant.parameter[0]}=" in setting for setting in settings):
        raise ValueError(f"norm.params.{entrant.parameter[0]}: is what the trial tries")
    checks = contract(trial)
    if checks.startswith("FAIL"):
        print(checks)
        return 1
    trial.left_out = beds_left_out(rules, norm, settings)
    trial.check_tries()
    ended = trial.run(budget)
    reading = trial.reading()
    beside = []
    for name in OPTIMIZERS:
        if name != optimizer:
            beside.append(trial.reading(name))
    text = page(
        reading,
        ended=ended,
        checks=checks,
        left_out=trial.left_out,
        memory=memory_of(trial, reading),
        beside=beside,
    )
    print(text)
    print(*write_files(Path(runs) / "trials", {f"{entrant.name}.md": text}))
    return 0


def contract(trial: Trial) -> str:
    """Return how many checks of the contract hold, or the lines of those that fail."""
    bed = next(iter(trial.rules.beds.values()))
    config = bed.experiment(trial.norm, trial.optimizer, *trial.settings).norm
    # The suite has norms that keep statistics or draw noise, and says so.
    outcomes = [*check_norm(config.choice, IN_TRIALS)]
    failing = [
        f"FAIL {outcome.claim}\n     {outcome.problem}" for outcome in outcomes if outcome.problem
    ]
    if failing:
        count = f"{len(failing)} of {len(outcomes)} checks of the contract fail; no trial"
        return "\n".join([*failing, f"{trial.norm}: {count}"])
    return f"{len(outcomes)} of {len(outcomes)} checks hold"


def memory_of(trial: Trial, reading: Reading) -> dict[str, float]:
    """Return by bed the memory of an update as a multiple of LayerNorm's."""
    memory = {}
    for name, row in reading.rows.items():
        if row.look is None:
            continue
        kept = []
        for norm, settings in ((trial.norm, trial.settings), (REFERENCE, ())):
            dry_run = row.bed.experiment(norm, trial.optimizer, *settings, "updates=1")
            kept.append(kept_per_update(dry_run))
        memory[name] = kept[0] / kept[1]
    return memory
