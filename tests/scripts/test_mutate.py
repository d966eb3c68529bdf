"""The campaign of mutations: what it changes, that it is code, and which tests notice it in a small suite."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT
from scripts.mutant_tests import is_noticed_at_import, outcomes
from scripts.mutate import ROOMS, Mutant, main, mutants


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


MODULE = "START = 1\n\n\ndef twice(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2 if x else 0\n"
MODULE += "\n\ndef third(x):\n    return x / 3\n"
TESTS = """
from inspect import getsource

from adanorm.small import START, half, third, twice

def test_twice():
    assert twice(3) == 6

def test_half():
    assert half(4) == 2
    assert START == 1
    assert getsource(third).startswith("def third(")  # as Triton takes what it runs
"""


class Changed(Mutant):
    """A mutant of the module of a small suite, whose whole code is its change."""

    def tree(self) -> ast.Module:
        return ast.parse(self.change)


def changed(line: int, before: str, after: str) -> Mutant:
    return Changed("small", Path("src/adanorm/small.py"), line, 0, MODULE.replace(before, after))


def test_a_mutant_is_noticed_where_a_test_of_its_line_fails(tmp_path: Path) -> None:
    for name, text in (("src/adanorm/small.py", MODULE), ("tests/test_small.py", TESTS)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "src" / "adanorm" / "__init__.py").touch()
    tried = [
        changed(5, "2 * x", "3 * x"),
        changed(9, "else 0", "else 1"),
        changed(1, "= 1", "= 2"),
        changed(9, "x / 2", "exit()"),
        changed(13, "x / 3", "x / 4"),
    ]
    tests = ["tests/test_small.py"]
    found = [*outcomes(tried, tmp_path, tests, 60)]
    assert found == ["noticed", "survived", "at import", "noticed", "not run"]
    assert is_noticed_at_import(tried[2], tmp_path, tests, 60)
    assert not is_noticed_at_import(tried[1], tmp_path, tests, 60)
    assert (tmp_path / "src/adanorm/small.py").read_text() == MODULE
    (tmp_path / "src/adanorm/small.py").write_text(MODULE.replace("2 * x", "4 * x"))
    with pytest.raises(ValueError, match=r"tests/test_small.py::test_twice fails without any change"):
        [*outcomes(tried, tmp_path, tests, 60)]
