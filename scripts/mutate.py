"""Mutations of the code that numbers come from, and which of them no test notices: `scripts/mutate`.

In a copy of the repository one operator, number, word of logic or branch at a time becomes another, and the
tests that run its line are run until one fails. A survivor is printed with its line: a test is missing there,
or the change means nothing; so is one whose line no test runs. The exit code is 1 if there is any. Before the
first mutant all tests of the rooms are run once, which takes minutes; a mutant then takes less than a second
(scripts/mutant_tests.py).

Keys: seed=1, count=60 (mutants, drawn from all; 0: all of them), rooms=norms,metrics,... (some of them),
only=TEXT,... (modules with one in their path), limit=300 (seconds of a core for a mutant's tests).
"""

from __future__ import annotations

import ast
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from adanorm.cli.values import whole_number
from adanorm.config.paths import PROJECT
from scripts.command_line import ended_by_mistakes, parse_keys
from scripts.mutant_tests import is_noticed_at_import, outcomes

# The tests of a room's modules, besides the file of the module's own name.
ROOMS = {
    "norms": ("tests/norms",),
    "metrics": ("tests/metrics", "tests/tasks/test_parsing.py"),
    "training": ("tests/training", "tests/cli/test_bounds.py"),
    "reporting/verdicts": ("tests/reporting/verdicts",),
    "records": (
        "tests/records",
        "tests/reporting/test_cell.py",
        "tests/tasks/test_baselines.py",
        "tests/cli/test_compare.py",
    ),
    "config": (
        "tests/config",
        "tests/records/test_digests.py",
        "tests/cli/test_bounds.py",
        "tests/models/test_placements.py",
        "tests/studies/test_study.py",
    ),
}
DEFAULTS = {"seed": "1", "count": "60", "rooms": ",".join(ROOMS), "only": "", "limit": "300"}
PAIRS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.Div),
    (ast.And, ast.Or),
)
SWAPPED: dict[type[ast.AST], Any] = {one: other for pair in PAIRS for one, other in (pair, pair[::-1])}


class Mutant(NamedTuple):
    """A change of a module: where, the number of its node in the module's tree, what is changed."""

    room: str
    path: Path
    line: int
    node: int
    change: str

    def tree(self) -> ast.Module:
        """Return the module's code with the change."""
        tree = ast.parse((PROJECT / self.path).read_text())
        _apply([*ast.walk(tree)][self.node])
        return tree

    def text(self) -> str:
        """Return the changed module's text, whose functions begin at the lines where they were."""
        lines: list[str] = []
        for statement in self.tree().body:
            first = min(each.lineno for each in (statement, *getattr(statement, "decorator_list", ())))
            lines += [""] * (first - 1 - len(lines))
            lines += ast.unparse(statement).split("\n")
        return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """Try mutants and return the exit code; raises ValueError for arguments that it does not take."""
    if {"-h", "--help"} & {*arguments}:
        print(__doc__)
        return 0
    keys = parse_keys(arguments, DEFAULTS)
    seed, count, limit = (whole_number(key, keys[key], at_least=0) for key in ("seed", "count", "limit"))
    rooms = keys["rooms"].split(",")
    if unknown := next((room for room in rooms if room not in ROOMS), None):
        raise ValueError(f"rooms={unknown}: choose from {', '.join(ROOMS)}")
    texts = keys["only"].split(",")
    found = [m for room in rooms for m in mutants(room) if any(text in str(m.path) for text in texts)]
    chosen = Random(seed).sample(found, min(count, len(found))) if count else found
    print(f"{len(found)} mutants, {len(chosen)} of them tried", flush=True)
    for library in ("torch", "scipy.stats", "statsmodels.stats.power"):  # loaded once for all
        import_module(library)

    tried, survived, unseen = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        repository = _copied(Path(folder))
        tests = [*dict.fromkeys(test for room in rooms for test in ROOMS[room])]
        at_import = []
        for mutant, outcome in zip(chosen, outcomes(chosen, repository, tests, limit), strict=True):
            tried[_module(mutant)] += 1
            if outcome == "at import":
                at_import.append(mutant)
            elif outcome == "survived":
                survived[_module(mutant)] += _report(mutant)
            elif outcome == "not run":
                unseen[_module(mutant)] += _report(mutant, "NOT RUN")
        for mutant in at_import:
            if not is_noticed_at_import(mutant, repository, _own_first(mutant), limit):
                survived[_module(mutant)] += _report(mutant)
    print(f"{'':<40}{'tried':>7}{'noticed':>9}{'survived':>9}{'not run':>9}")
    rows = [(module, tried[module], survived[module], unseen[module]) for module in sorted(tried)]
    for module, count, left, out in [*rows, ("all", tried.total(), survived.total(), unseen.total())]:
        print(f"{module:<40}{count:>7}{count - left - out:>9}{left:>9}{out:>9}")
    return int(survived.total() + unseen.total() > 0)


def mutants(room: str) -> Iterator[Mutant]:
    """Yield every mutant of a room's modules."""
    for path in sorted((PROJECT / "src" / "adanorm" / room).rglob("*.py")):
        for number, node in enumerate(ast.walk(ast.parse(path.read_text()))):
            if change := _change(node):
                line = getattr(node, "lineno", 0)
                yield Mutant(
                    room, path.relative_to(PROJECT), line, number, f"{change} in `{ast.unparse(node)[:60]}`"
                )


def _change(node: ast.AST) -> str | None:
    """Return what may be changed in a node, in words; None where nothing may."""
    if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp):
        operator = type(node.ops[0] if isinstance(node, ast.Compare) else node.op)
        return f"{operator.__name__} to {SWAPPED[operator].__name__}" if operator in SWAPPED else None
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        return f"{node.value} to {_other(node.value)}"
    if isinstance(node, ast.If | ast.IfExp):
        return "the other branch"
    if isinstance(node, ast.Name) and node.id in ("min", "max"):
        return "min and max"
    return None


def _other(value: Any) -> Any:
    return not value if isinstance(value, bool) else value + 1


def _apply(node: ast.AST) -> None:
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPPED[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        node.op = SWAPPED[type(node.op)]()
    elif isinstance(node, ast.Constant):
        node.value = _other(node.value)
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Name):
        node.id = "max" if node.id == "min" else "min"


def _copied(folder: Path) -> Path:
    """Return a copy of the repository: the package's code is copied, all else linked to."""
    for path in PROJECT.iterdir():
        if path.name != "src":
            (folder / path.name).symlink_to(path)
    shutil.copytree(PROJECT / "src" / "adanorm", folder / "src" / "adanorm")
    return folder


def _module(mutant: Mutant) -> str:
    return str(mutant.path.relative_to("src/adanorm"))


def _report(survivor: Mutant, what: str = "SURVIVED") -> int:
    """Print a survivor and return 1."""
    print(f"{what} {survivor.path}:{survivor.line}: {survivor.change}", flush=True)
    return 1


def _own_first(mutant: Mutant) -> list[str]:
    """Return the tests of a mutant's room, those of its module's own name first."""
    own = f"tests/{mutant.room}/test_{mutant.path.stem}.py"
    return [*([own] if (PROJECT / own).exists() else []), *ROOMS[mutant.room]]


if __name__ == "__main__":
    with ended_by_mistakes():
        raise SystemExit(main(sys.argv[1:]))
