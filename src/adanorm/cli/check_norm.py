"""Test a norm against the contract of a norm, a line a check; the exit code is 1 if one fails.

The norm is one of the suite's or your own, norm=my_norms:MyNorm.
"""

from __future__ import annotations

from adanorm.cli.command import Arguments, Usage
from adanorm.config.compose import compose_experiment
from adanorm.norms import norm_factory
from adanorm.scorecards.contract import check_contract

USAGE = Usage(settings="of a run", examples=("norm=adanorm", "norm=my_norms:MyNorm +norm.params.power=0.7"))


def main(arguments: Arguments) -> int:
    """Check the norm of the command line; the code is 1 if it breaks the contract."""
    norm = compose_experiment(arguments.settings).norm
    if norm.placement != "all":
        raise ValueError(
            f"norm.placement={norm.placement}: the norm is checked alone, in no model; leave it out"
        )
    held = []
    for claim, problem in check_contract(norm_factory(norm)):
        held.append(problem is None)
        print(f"{'FAIL' if problem else 'ok':<5}{claim}")
        if problem:
            print(f"     {problem}")
    print(f"{norm.name}: {sum(held)} of {len(held)} checks hold")
    return 0 if all(held) else 1
