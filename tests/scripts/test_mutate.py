"""The campaign of mutations, without its tests: what it changes, and that it is code."""

from __future__ import annotations

import ast

import pytest

from adanorm.config.paths import PROJECT
from scripts.mutate import ROOMS, main, mutants


def test_every_mutant_is_other_code_in_one_place() -> None:
    found = list(mutants("metrics"))
    assert len(found) > 50
    for mutant in found[::12]:
        before, after = ast.parse((PROJECT / mutant.path).read_text()), mutant.tree()
        pairs = zip(
            ast.dump(before, indent=0).split("\n"), ast.dump(after, indent=0).split("\n"), strict=False
        )
        assert any(one != other for one, other in pairs), mutant


def test_every_room_has_code_and_tests() -> None:
    for room, tests in ROOMS.items():
        assert any((PROJECT / "src" / "adanorm" / room).glob("*.py"))
        assert all((PROJECT / path).exists() for path in tests)


def test_an_unknown_room_is_refused() -> None:
    with pytest.raises(ValueError, match="rooms=norm: choose from norms, metrics"):
        main(["rooms=norm"])
