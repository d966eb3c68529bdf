"""Which norm is on trial: what its code and parameters are, whatever their names and comments.

Nothing of the norm's code is run here. It is read as Python reads it, so that records of code that
is not on this machine can be told apart too.
"""

import ast
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from adanorm.config.digests import digest_of
from adanorm.config.paths import choices
from adanorm.trials.rules import Rules, Two

FIRST, STEP = 1_000_000, 10_000_000  # of fresh seeds, far from those that anybody writes by hand


class Entrant(NamedTuple):
    """A norm by the digest of its code and parameters; `parameter` is the one that it tries."""

    name: str
    digest: str
    parameter: tuple[str, Two] | None
    path: str | None  # of a norm from outside
    params: tuple[tuple[str, Any], ...]  # those that make it another norm

    def seeds(self, count: int) -> list[int]:
        """Return its first fresh seeds, rising. They follow from the digest: no one chooses."""
        seeds = []
        for index in range(count):
            number = int(sha256(f"{self.digest} {index}".encode()).hexdigest(), 16)
            seeds.append(FIRST + index * STEP + number % STEP)
        return seeds


def entrant_of(
    norm: Mapping[str, Any], code: Mapping[str, bytes], committed: Mapping[str, Any], rules: Rules
) -> Entrant:
    """Return the norm of a run's section `norm`, with its source files by relative path.

    Two names of one code are one norm: names of files, of the class, and comments do not count.
    Nor do the parameter that it tries and those that are as `committed` for the bed. Raises
    ValueError if the code cannot be read.
    """
    name = str(norm["name"])
    params = {key: value for key, value in norm["params"].items() if committed.get(key) != value}
    if name in choices("norm") and not norm.get("path"):
        parameters = rules.parameters.get(name, {})
        parameter = next(iter(parameters.items()), None)
        facts: dict[str, Any] = {"suite": name}
    else:
        path = str(norm.get("path") or name)
        text, parameter = _definition(tuple(code.items()), path)
        facts = {"code": text}
    if parameter is not None:
        params.pop(parameter[0], None)
    digest = digest_of({**facts, "params": params})
    return Entrant(name, digest, parameter, norm.get("path"), tuple(sorted(params.items())))


@cache
def _definition(
    code: tuple[tuple[str, bytes], ...], path: str
) -> tuple[str, tuple[str, Two] | None]:
    """Return the digest of a class's code, and the parameter that the class names."""
    module, _, name = path.partition(":")
    stem = module.replace(".", "/")
    text, parameter = [], None
    for file, content in code:
        if not file.endswith(".py"):
            text.append(sha256(content).hexdigest())
            continue
        try:
            tree = ast.parse(content)
        except SyntaxError as error:
            raise ValueError(f"{file}: {error}") from None
        if file in (f"{stem}.py", f"{stem}/__init__.py"):
            name = _without_aliases(tree, name)
            parameter = _named_parameter(tree, name)
        text.append(_text(tree, name))
    # Every use of the class's name is `name='X'` or `id='X'` in the text of a tree.
    renamed = [part.replace(f"'{name}'", "'Norm'") for part in text]
    return digest_of({"code": sorted(renamed)}), parameter


def _without_aliases(tree: ast.Module, name: str) -> str:
    """Return the name of the class that `name` stands for: that of X after `name = X`."""
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Name) and ast.unparse(node) == f"{name} = {value.id}":
            return _without_aliases(tree, value.id)
    return name


def _text(tree: ast.Module, name: str) -> str:
    """Return a module as text, without comments, docstrings and other names of the class."""
    tree.body = [node for node in tree.body if not ast.unparse(node).endswith(f" = {name}")]
    for node in ast.walk(tree):
        body: Any = getattr(node, "body", None)
        is_text = isinstance(body, list) and body and isinstance(body[0], ast.Expr)
        if is_text and isinstance(body[0].value, ast.Constant):
            body.pop(0)
    return ast.dump(tree)


def _named_parameter(tree: ast.Module, name: str) -> tuple[str, Two] | None:
    """Return the parameter in the class's attribute `tries`, such as {"power": (0.25, 0.5)}."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.ClassDef) and node.name == name):
            continue
        for statement in node.body:
            if ast.unparse(statement).startswith("tries ="):
                return _parameter_in(statement, name)
    return None


def _parameter_in(statement: Any, name: str) -> tuple[str, Two]:
    with suppress(ValueError, TypeError):
        ((parameter, values),) = ast.literal_eval(statement.value).items()
        first, second = map(float, values)
        return parameter, (first, second)
    example = '{"power": (0.25, 0.5)}'
    raise ValueError(f"{name}.tries: name one parameter and two values, such as {example}")
