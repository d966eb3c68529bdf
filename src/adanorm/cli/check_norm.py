"""Test whether a module keeps the contract of a norm, one line per check.

Exit code 1 if a check fails.

Name a norm of the suite, such as norm=adanorm, or your own, norm=my_norms:MyNorm. The last lines
name the tasks in which the norm is not defined.
"""

from adanorm.cli.command import Arguments, Usage, show
from adanorm.config.compose import cached_experiment, compose_experiment
from adanorm.config.paths import choices
from adanorm.norms import norm_factory
from adanorm.norms.check import CHECKS, check_norm

USAGE = Usage(
    name="[NORM]",
    settings="of a run",
    examples=("my_norms:MyNorm", "norm=my_norms:MyNorm +norm.params.power=0.7"),
)


def main(arguments: Arguments) -> int:
    """Check the norm of the command line; the code is 1 if it breaks the contract."""
    settings = [*(f"norm={name}" for name in arguments.names), *arguments.settings]
    if not any(setting.partition("=")[0] in ("norm", "norm.path") for setting in settings):
        raise ValueError("check-norm needs a norm: one of the suite's, or my_norms:MyNorm")
    norm = compose_experiment(settings).norm
    if norm.placement != "all":
        raise ValueError(
            f"norm.placement={norm.placement}: the norm is checked alone; leave it out"
        )
    choice = norm.choice
    problems = []
    for outcome in check_norm(choice):
        problems.append(outcome.problem)
        print(outcome)
        if outcome.note:
            print(f"     {outcome.note}")
    print(f"{norm.name}: {problems.count(None)} of {len(problems)} checks hold")
    if len(problems) < len(CHECKS):  # it ended the process, and would end this one
        return 1
    trial = norm_factory(choice).trial
    tasks: dict[str, list[str]] = {}  # by the reason why the norm is not defined there
    of_suite = [f"norm={norm.name}"] if norm.name in choices("norm") else []
    for task in choices("task"):
        sites = cached_experiment([f"task={task}", *of_suite]).model.sites()
        reason = sites.why_unsupported(trial)
        if reason:
            tasks.setdefault(reason, []).append(task)
    for reason, names in tasks.items():
        show(f"not defined in {', '.join(names)}: {reason}")
    return int(any(problems))
