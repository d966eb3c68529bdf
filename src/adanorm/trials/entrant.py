"""Which norm is on trial: what its code and parameters are, whatever their names and comments.

Nothing of the norm's code is run here. It is read as Python reads it, so that records of code that
is not on this machine can be told apart too.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

from adanorm.config.digests import digest_of
from adanorm.config.paths import choices
from adanorm.trials.rules import REFERENCE, Rules, TwoValues

Parameter: TypeAlias = tuple[str, TwoValues]  # its name and the two values to try
Name: TypeAlias = tuple[str, str]  # a module, and a name in it
FIRST, STEP = 1_000_000, 10_000_000  # of fresh seeds, far from those that anybody writes by hand


class Entrant(NamedTuple):
    """A norm by the digest of its code and parameters; `parameter` is the one that it tries."""

    name: str
    digest: str
    parameter: Parameter | None
    path: str | None  # of a norm from outside
    params: tuple[tuple[str, Any], ...]  # those that make it another norm

    @property
    def tries(self) -> str:
        """The name of the parameter that it tries; empty without one."""
        return self.parameter[0] if self.parameter else ""

    @property
    def is_reference(self) -> bool:
        """Whether it is the norm that others are compared with."""
        return self.name == REFERENCE and self.path is None and not self.params

    def seeds(self, count: int) -> list[int]:
        """Return its first fresh seeds, rising. They follow from the digest: no one chooses."""
        seeds = []
        for index in range(count):
            drawn = sha256(f"{self.digest} {index}".encode()).hexdigest()
            seeds.append(FIRST + index * STEP + int(drawn, 16) % STEP)
        return seeds


def is_of_suite(norm: Mapping[str, Any]) -> bool:
    """Return whether a run's section `norm` names a norm of the suite."""
    return norm["name"] in choices("norm") and not norm.get("path")


def entrant_of(
    norm: Mapping[str, Any], code: Mapping[str, bytes], committed: Mapping[str, Any], rules: Rules
) -> Entrant:
    """Return the norm of a run's section `norm`, with its source files by relative path.

    Two names of one code are one norm: names of files, of the class, and comments do not count.
    Nor do the parameter that it tries and, of the suite's norms, those `committed` for the bed.
    Raises ValueError if the code cannot be read.
    """
    name, path = str(norm["name"]), norm.get("path")
    params = {**norm["params"]}
    if is_of_suite(norm):
        facts = {"suite": name}
        parameter = next(iter(rules.parameters.get(name, {}).items()), None)
        for key, value in committed.items():
            if params.get(key) == value:
                del params[key]
    else:
        text, parameter = _definition(tuple(code.items()), str(path or name))
        facts = {"code": text}
    if parameter is not None:
        params.pop(parameter[0], None)
    digest = digest_of({**facts, "params": params})
    return Entrant(name, digest, parameter, path, tuple(sorted(params.items())))


class Alias(NamedTuple):
    """A statement that gives a class another name, and does nothing else."""

    name: Name
    target: Name
    statement: ast.stmt


@cache
def _definition(code: tuple[tuple[str, bytes], ...], path: str) -> tuple[str, Parameter | None]:
    """Return the digest of a class's code, and the parameter that the class names."""
    texts: list[str] = []
    trees: dict[str, ast.Module] = {}
    aliases: dict[Name, Alias] = {}
    for file, content in code:
        if not file.endswith(".py"):
            texts.append(sha256(content).hexdigest())
            continue
        *package, _ = file.split("/")
        module = _module(file)
        trees[module] = _tree(file, content)
        for statement in trees[module].body:
            alias = _alias(statement, module, package)
            if alias is not None:
                aliases[alias.name] = alias
    module, _, name = path.partition(":")
    module, name = _class_of((module, name), aliases, trees)
    parameter = _parameter(trees[module], name) if module in trees else None
    for alias in aliases.values():
        if _class_of(alias.name, aliases, trees) == (module, name):
            trees[alias.name[0]].body.remove(alias.statement)
    for tree in trees.values():
        _remove_texts(tree)
        if tree.body:
            # Every use of the class's name is `name='X'` or `id='X'` in the text of a tree.
            texts.append(ast.dump(tree).replace(f"'{name}'", "'Norm'"))
    return digest_of({"code": sorted(texts)}), parameter


def _module(file: str) -> str:
    path = file.removesuffix(".py").removesuffix("/__init__")
    return path.replace("/", ".")


def _tree(file: str, content: bytes) -> ast.Module:
    try:
        return ast.parse(content)
    except SyntaxError as error:
        raise ValueError(f"{file}: {error}") from None


def _alias(statement: ast.stmt, module: str, package: Sequence[str]) -> Alias | None:
    """Return the alias in a statement.

    It is `X = Class`, `class X(Class): pass` or `from module import Class as X`.
    """
    source = module
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=target)):
            pass
        case ast.ClassDef(name=name, bases=[ast.Name(id=target)], keywords=[], decorator_list=[]):
            if not all(isinstance(part, ast.Pass) or _is_text(part) for part in statement.body):
                return None
        case ast.ImportFrom(module=str(source), names=[imported], level=level):
            name = imported.asname or imported.name
            target = imported.name
            if level:
                parents = package[: len(package) + 1 - level]
                source = ".".join([*parents, source])
        case _:
            return None
    return Alias((module, name), (source, target), statement)


def _class_of(name: Name, aliases: Mapping[Name, Alias], modules: Collection[str]) -> Name:
    """Return the class that a name stands for."""
    for _ in aliases:  # an alias may stand for an alias
        alias = aliases.get(name)
        if alias is not None and alias.target[0] in modules:
            name = alias.target
    return name


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _remove_texts(tree: ast.Module) -> None:
    """Remove the docstrings of a module; comments are in no tree."""
    for node in ast.walk(tree):
        body: Any = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            body.pop(0)


def _parameter(tree: ast.Module, name: str) -> Parameter | None:
    """Return the parameter in the class's attribute `tries`, such as {"power": (0.25, 0.5)}."""
    for statement in _statements_of(tree, name):
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="tries")], value=value)
                | ast.AnnAssign(target=ast.Name(id="tries"), value=ast.expr() as value)
            ):
                return _parameter_in(value, name)
    return None


def _statements_of(tree: ast.Module, name: str) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from node.body


def _parameter_in(value: ast.expr, name: str) -> Parameter:
    with suppress(ValueError, TypeError, AttributeError):
        ((parameter, values),) = ast.literal_eval(value).items()
        first, second = map(float, values)
        return parameter, (first, second)
    example = '{"power": (0.25, 0.5)}'
    raise ValueError(f"{name}.tries: name one parameter and two values, such as {example}")
