"""Put a norm on trial: its contract, what it computes and costs, and how it scores beside others.

Name a norm of the suite, such as norm=rmsnorm, or your own, norm=my_norms:MyNorm. All norms run
with the same seeds. A pair is judged as in the studies: better, worse, equivalent within the
margin, or open; for an open pair the scorecard says what would decide it. The command writes a page
(HTML) and a summary (Markdown), and prints the summary. A second start goes on where the first
stopped; a larger budget adds runs.
"""

from dataclasses import replace

from adanorm.cli.command import Arguments, Key, Usage, folder_of, name_list
from adanorm.cli.study_arguments import workers_of
from adanorm.config.compose import compose_experiment
from adanorm.config.paths import choices
from adanorm.files import write_whole
from adanorm.launch.launch import choose_launch
from adanorm.norms.check import check_norm

AGAINST = ("layernorm", "adanorm")

USAGE = Usage(
    keys={
        "norm": Key(f"my_norms:MyNorm, or one of {', '.join(choices('norm'))}"),
        "against": Key(f"norms to compare it with (default: {','.join(AGAINST)}, without itself)"),
        "budget": Key("time for runs: 90s, 10min, 2h, 1d", "2h"),
        "runs": Key("folder of the records; the scorecard goes to RUNS/scorecards", "runs"),
        "workers": Key("runs at a time (default: as many as this machine suits)"),
    },
    examples=("norm=my_norms:MyNorm budget=10min", "norm=rmsnorm against=layernorm,none budget=1d"),
)


def main(arguments: Arguments) -> int:
    """Conduct a scorecard; the exit code is 1 if the norm breaks the contract or a run failed."""
    keys, norm = arguments.keys, arguments.keys["norm"]
    if not norm:
        raise ValueError(
            "norm= is missing: name one of the suite's or your own, norm=my_norms:MyNorm"
        )
    against = name_list("against", keys["against"] or ",".join(n for n in AGAINST if n != norm))
    if "," in norm:
        raise ValueError(f"norm={norm}: a scorecard is of one norm; name others in against=")
    if norm in against:
        raise ValueError(f"against={keys['against']}: {norm} cannot be compared with itself")
    runs = folder_of(keys["runs"])
    if runs is None:
        raise ValueError(
            f"runs={keys['runs']}: a scorecard's runs are kept out of the repository's records"
        )
    from adanorm.scorecards.columns import budget_seconds
    from adanorm.scorecards.page import card_page, summary
    from adanorm.scorecards.trial import conduct, path_of, prepare

    budget = budget_seconds(keys["budget"])
    launch = choose_launch(
        "local", workers=workers_of(arguments), gpus=1, settings=[], on_cpu=False
    )
    quiet = launch.facts.model_copy(
        update={"aloud": False}
    )  # the scorecard reports on its runs itself
    trial = prepare(
        norm,
        tuple(against),
        budget,
        runs,
        replace(launch, facts=quiet),
    )
    checks = [*check_norm(compose_experiment([f"norm={norm}"]).norm.choice)]
    if failing := [
        f"FAIL {claim}\n     {problem}" for claim, problem, _ in checks if problem is not None
    ]:
        count = f"{len(failing)} of {len(checks)} checks of the contract fail"
        print("\n".join([*failing, f"{norm}: {count}; no scorecard"]))
        return 1
    card = conduct(trial, [claim for claim, *_ in checks])
    print(summary(card))
    pages = {
        path_of(norm, runs, ".html"): card_page(card),
        path_of(norm, runs, ".md"): summary(card),
    }
    for path, page in pages.items():
        write_whole(path, page.encode())  # its folder has the trial's own file
        print(path)
    return 1 if trial.failed else 0
