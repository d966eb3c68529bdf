"""Put a norm on trial: its contract, what it computes and costs, and how it scores beside others.

The norm is a name of the suite's or your own, norm=my_norms:MyNorm. Each norm
runs under the same seeds, and the pairs are judged as those of the studies:
better, worse, equivalent within the margin, or open, and what would decide it.
A page (HTML) and a summary (Markdown) are written, and the summary is printed.
Started again it goes on where it stopped; a larger budget adds to what is there.
"""

from __future__ import annotations

from dataclasses import replace

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.values import folder_of, whole_number
from adanorm.config.compose import compose_experiment
from adanorm.config.paths import choices
from adanorm.launch.launchers import Launch, choose_launch
from adanorm.norms import norm_factory
from adanorm.scorecards.contract import check_contract

AGAINST = ("layernorm", "adanorm")

USAGE = Usage(
    keys={
        "norm": Key(f"my_norms:MyNorm, or one of {', '.join(choices('norm'))}"),
        "against": Key(f"norms it stands beside (default: {','.join(AGAINST)}, less itself)"),
        "budget": Key("time for runs: 90s, 10min, 2h, 1d", "2h"),
        "runs": Key("folder of the records; the scorecard lies in its scorecards/", "runs"),
        "workers": Key("runs at a time (default: as many as this machine suits)"),
    },
    examples=(
        "norm=my_norms:MyNorm budget=10min",
        "norm=rmsnorm against=layernorm,none budget=1d",
    ),
)


def main(arguments: Arguments) -> int:
    """Conduct a scorecard; the code is 1 if the norm breaks the contract or a run failed."""
    norm, against, runs = _named(arguments)
    from adanorm.scorecards.columns import budget_seconds
    from adanorm.scorecards.conduct import Request, conduct, prepare
    from adanorm.scorecards.summary import summary

    budget = budget_seconds(arguments.keys["budget"])
    workers = arguments.keys["workers"]
    count = whole_number("workers", workers, at_most=1024) if workers else None
    launch = choose_launch("local", workers=count, gpus=1, settings=[], on_cpu=False)
    request = Request(norm, against, budget, runs, quiet(launch))
    card = prepare(request)
    checks, problems = [], 0
    for claim, problem in check_contract(norm_factory(compose_experiment([f"norm={norm}"]).norm)):
        problems += problem is not None
        checks.append(claim)
        if problem:
            print(f"FAIL {claim}\n     {problem}", flush=True)
    if problems:
        print(f"{norm}: {problems} of {len(checks)} checks of the contract fail; no scorecard")
        return 1
    card, failed = conduct(request, card.model_copy(update={"checks": checks}))
    print(summary(card))
    for ending in (".html", ".md"):
        print(request.place.with_suffix(ending))
    return 1 if failed else 0


def _runs_of(arguments: Arguments) -> str:
    """Return the folder of the runs; raises ValueError for that of the repository's records."""
    runs = folder_of(arguments.keys["runs"])
    if runs is None:
        raise ValueError(
            f"runs={arguments.keys['runs']}: a scorecard's runs are kept out of the repository's records"
        )
    return runs


def _named(arguments: Arguments) -> tuple[str, tuple[str, ...], str]:
    """Return the norm, those it stands beside, and the folder of the runs; raises ValueError for nonsense."""
    given = arguments.keys
    norm = given["norm"]
    if not norm:
        raise ValueError("norm= is missing: name one of the suite's or your own, norm=my_norms:MyNorm")
    against = given["against"].split(",") if given["against"] else [n for n in AGAINST if n != norm]
    if "," in norm:
        raise ValueError(f"norm={norm}: a scorecard is of one norm; others are named in against=")
    if norm in against:
        raise ValueError(f"against={given['against']}: {norm} cannot stand beside itself")
    if twice := next((other for other in against if against.count(other) > 1), None):
        raise ValueError(f"against={given['against']}: {twice} is named twice")
    for each in (norm, *against):
        norm_factory(compose_experiment([f"norm={each}"]).norm)
    return norm, tuple(against), _runs_of(arguments)


def quiet(launch: Launch) -> Launch:
    """Return a launch whose runs do not speak for themselves: the scorecard says how they go on."""
    return replace(launch, facts=launch.facts.model_copy(update={"aloud": False}))
