"""The checks of a norm's contract, each with what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from adanorm.norms import MakeNorm
from adanorm.norms.check import CHECKS


class Check(NamedTuple):
    """What is claimed of a norm, and why it does not hold; None where it does."""

    claim: str
    problem: str | None


def check_contract(make_norm: MakeNorm) -> Iterator[Check]:
    """Yield every check of the contract as it is made."""
    for check in CHECKS:
        assert check.__doc__
        claim = " ".join(check.__doc__.partition("\n\n")[0].split())  # its first paragraph, in one line
        yield Check(claim, _problem(check, make_norm))


def _problem(check: Callable[[MakeNorm], None], make_norm: MakeNorm) -> str | None:
    try:
        check(make_norm)
    except Exception as error:  # whatever somebody's norm raises is what the check reports
        return " ".join(f"{type(error).__name__}: {error}".split())[:400]
    return None
