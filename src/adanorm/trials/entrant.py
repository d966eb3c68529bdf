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

from adanorm.config.paths import choices
from adanorm.files import digest_of
from adanorm.trials.rules import Rules, Two

FIRST, STEP = 1_000_000, 10_000_000  # of fresh seeds, far from those that anybody writes by hand
TRIES = "tries"  # the attribute of a class that names its parameter and two values of it
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Entrant(NamedTuple):
    """A norm by the digest of its code and parameters; `parameter` is the one that it tries."""

    name: str
    digest: str
    parameter: tuple[str, Two] | None
    path: str | None  # of a norm from outside
    params: tuple[tuple[str, Any], ...]  # those that make it another norm

    def seeds(self, count: int) -> list[int]:
        """Return its first fresh seeds, rising. They follow from the digest: nobody chooses them."""
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
    """Return the digest of a class with all that it uses, and the parameter that it names."""
    module, _, name = path.partition(":")
    stem = module.replace(".", "/")
    try:
        trees = {file: ast.parse(content) for file, content in code if file.endswith(".py")}
    except SyntaxError as error:
        raise ValueError(f"{path}: {error}") from None
    file = next((name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in trees), "")
    if not file:
        return digest_of({name: sha256(content).hexdigest() for name, content in code}), None
    tree = trees.pop(file)
    name = _without_aliases(tree, name)
    texts = [_text(node, name) for node in _used(tree, name)]
    texts += [ast.dump(_without_docstrings(other)) for other in trees.values()]
    return digest_of({"code": texts}), _named_parameter(tree, name)


def _without_aliases(tree: ast.Module, name: str) -> str:
    """Return the name of the class that `name` stands for: that of X after `name = X`."""
    for node in reversed(tree.body):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Name) and name in _names_given_by(node):
            return _without_aliases(tree, value.id)
    return name


def _used(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Return a module's statements that a class needs: what it names, and what that names.

    Any other statement than a definition, an import, or a value with a name may change the class.
    """
    by_name: dict[str, ast.stmt] = {}
    used: list[ast.stmt] = []
    for node in tree.body:
        names = _names_given_by(node)
        by_name |= dict.fromkeys(names, node)
        if not names and not _is_docstring(node):
            used.append(node)
    queue = [name]
    while queue:
        statement = by_name.get(queue.pop())
        if statement is not None and statement not in used:
            used.append(statement)
            queue += [part.id for part in ast.walk(statement) if isinstance(part, ast.Name)]
    # A class comes first: its place in the file says nothing.
    return sorted(used, key=lambda node: (not isinstance(node, ast.ClassDef), node.lineno))


def _names_given_by(node: ast.stmt) -> list[str]:
    if isinstance(node, DEFINITIONS):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text(node: ast.stmt, name: str) -> str:
    """Return a statement as text without docstrings, in which the class has the name Norm."""
    text = ast.dump(_without_docstrings(node))
    return text.replace(f"name={name!r}", "name='Norm'").replace(f"id={name!r}", "id='Norm'")


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, (*DEFINITIONS, ast.Module)) and _is_docstring(node.body[0:1]):
            node.body = node.body[1:]
    return tree


def _is_docstring(node: Any) -> bool:
    if isinstance(node, list):
        return bool(node) and _is_docstring(node[0])
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _named_parameter(tree: ast.Module, name: str) -> tuple[str, Two] | None:
    """Return the parameter in the class's attribute `tries`, such as {"power": (0.25, 0.5)}."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    for node in classes[-1].body if classes else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == TRIES:
            with suppress(ValueError, TypeError):
                ((parameter, values),) = ast.literal_eval(node.value).items()
                first, second = map(float, values)
                if first != second:
                    return parameter, (first, second)
            example = '{"power": (0.25, 0.5)}'
            raise ValueError(f"{name}.tries: name one parameter and two values, {example}")
    return None
