"""Test a norm against the contract of a norm, a line a check; the exit code is 1 if one fails.

The norm is one of the suite's or your own, norm=my_norms:MyNorm.
"""

from __future__ import annotations

from collections.abc import Callable

from adanorm.cli.command import Arguments, Usage
from adanorm.config.compose import compose_experiment
from adanorm.norms import MakeNorm, norm_factory
from adanorm.norms.check import CHECKS

USAGE = Usage(settings="of a run", examples=("norm=adanorm", "norm=my_norms:MyNorm +norm.params.power=0.7"))


def main(arguments: Arguments) -> int:
    """Check the norm of the command line; the code is 1 if it breaks the contract."""
    norm = compose_experiment(arguments.settings).norm
    make_norm = norm_factory(norm)
    broken = 0
    for check in CHECKS:
        problem = _problem(check, make_norm)
        broken += problem is not None
        assert check.__doc__
        print(f"{'FAIL' if problem else 'ok':<5}{check.__doc__}")
        if problem:
            print(f"     {problem}")
    print(f"{norm.name}: {len(CHECKS) - broken} of {len(CHECKS)} checks hold")
    return 1 if broken else 0


def _problem(check: Callable[[MakeNorm], None], make_norm: MakeNorm) -> str | None:
    try:
        check(make_norm)
    except Exception as error:  # whatever somebody's norm raises is what the check reports
        return " ".join(f"{type(error).__name__}: {error}".split())[:400]
    return None
