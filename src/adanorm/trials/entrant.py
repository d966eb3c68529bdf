"""Which norm is on trial: what its code and parameters are, whatever their names and comments.

Nothing of the norm's code is run here. It is read as Python reads it, so that records of code that
is not on this machine can be told apart too.
"""

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from adanorm.config.paths import choices
from adanorm.config.titles import title
from adanorm.config.values import digest_of
from adanorm.trials.rules import REFERENCE, Rules, TwoValues

Parameter = tuple[str, TwoValues]  # its name and the two values to try
Name = tuple[str, str]  # a module, and a name in it
# Code with one of these words may compute by its own names and docstrings.
READS_ITSELF = ("'__name__'", "'__qualname__'", "'__doc__'", "'__file__'", "'inspect'")
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
    def title(self) -> str:
        """Its title, with the parameters that make it another norm."""
        params = ", ".join(f"{key}={value}" for key, value in self.params)
        return f"{title(self.name)} ({params})" if params else title(self.name)

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

    Two names of one code are one norm: names of files, of the class, and comments do not count,
    unless the code may read them. Nor do the parameter that it tries, and those that are as without
    them: as `committed` for the bed, or as the constructor of a norm from outside has them.

    Raises ValueError if the code cannot be read.
    """
    name, path = str(norm["name"]), norm.get("path")
    params = {**norm["params"]}
    if is_of_suite(norm):
        facts = {"suite": name}
        parameter = next(iter(rules.parameters.get(name, {}).items()), None)
    else:
        definition, parameter, committed = _definition(tuple(code.items()), str(path or name))
        facts = {"code": definition}
    for key, value in committed.items():
        if key in params and params[key] == value:
            del params[key]
    if parameter is not None:
        params.pop(parameter[0], None)
    digest = digest_of({**facts, "params": params})
    return Entrant(name, digest, parameter, path, tuple(sorted(params.items())))


class Alias(NamedTuple):
    """A name that a statement gives to a class of another name, doing nothing else."""

    name: Name
    target: Name
    statement: ast.stmt


@cache
def _definition(
    code: tuple[tuple[str, bytes], ...], path: str
) -> tuple[str, Parameter | None, dict[str, Any]]:
    """Return the digest of a class's code, the parameter that it names, and literal defaults.

    The digest is the same whatever the names of files and of the class; the defaults are those of
    its constructor.
    """
    texts = []
    trees = {}
    packages = {}
    for file, content in code:
        if file.endswith(".py"):
            module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            trees[module] = _tree(file, content)
            packages[module] = file.split("/")[:-1]
        else:
            texts.append(sha256(content).hexdigest())
    try:
        whole = " ".join(map(_text, trees.values()))
        is_plain = not any(word in whole for word in READS_ITSELF)
        aliases = _aliases(trees, packages)
        module, _, name = path.partition(":")
        module, name = _class_of((module, name), aliases, trees)
        tree = trees.get(module, ast.Module([], []))
        parameter = _parameter(tree, name)
        defaults = _defaults(tree, name)
        if is_plain:
            for alias in aliases.values():
                if _class_of(alias.name, aliases, trees) == (module, name):
                    _remove(trees[alias.name[0]], alias)
            for tree in trees.values():
                _remove_texts(tree)
        texts += [_text(tree) for tree in trees.values() if tree.body]
        if is_plain:
            # Every use of the class's name is `name='X'` or `id='X'` in the text of a tree.
            texts = [text.replace(f"'{name}'", "'Norm'") for text in texts]
    except RecursionError:
        raise ValueError(f"{path}: its code is nested too deeply") from None
    return digest_of({"code": sorted(texts)}), parameter, defaults


def _tree(file: str, content: bytes) -> ast.Module:
    """Return the syntax tree of a file, without what runs only if the file itself is run."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{file}: {error}") from None
    tree.body = [statement for statement in tree.body if not _is_main(statement)]
    return tree


def _is_main(statement: ast.stmt) -> bool:
    """Return whether a statement is `if __name__ == "__main__":` without an `else`."""
    match statement:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value="__main__")],
            ),
            orelse=[],
        ):
            return True
    return False


def _text(node: object) -> str:
    """Return a tree as text, the same under every version of Python: ast.dump's text is not."""
    if isinstance(node, list):
        return f"[{', '.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = []
    for key, value in ast.iter_fields(node):
        # Newer versions have further fields, which are empty in older code.
        if value is not None and value != [] and key != "kind":
            fields.append(f"{key}={_text(value)}")
    return f"{type(node).__name__}({', '.join(fields)})"


def _aliases(
    trees: Mapping[str, ast.Module], packages: Mapping[str, Sequence[str]]
) -> dict[Name, Alias]:
    """Return the aliases in modules, by name; a name that is bound twice is none."""
    aliases = {}
    for module, tree in trees.items():
        bound = Counter(_bound(tree))
        for statement in tree.body:
            for alias in _aliases_in(statement, module, packages[module]):
                if bound[alias.name[1]] == 1:
                    aliases[alias.name] = alias
    return aliases


def _bound(tree: ast.Module) -> Iterator[str]:
    """Yield each name as often as a module's code binds it."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.alias(name=name, asname=new):
                yield new or name


def _aliases_in(statement: ast.stmt, module: str, package: Sequence[str]) -> Iterator[Alias]:
    """Yield the aliases in a statement.

    It is `X = Class`, `class X(Class): pass` or `from module import Class as X`.
    """
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Name(id=target),
        ):
            yield Alias((module, name), (module, target), statement)
        case ast.ClassDef(
            name=name,
            bases=[ast.Name(id=target)],
            keywords=[],
            decorator_list=[],
        ) if all(map(_does_nothing, statement.body)):
            yield Alias((module, name), (module, target), statement)
        case ast.ImportFrom(
            module=str(source),
            names=names,
            level=level,
        ):
            if level:
                parents = package[: len(package) + 1 - level]
                source = ".".join([*parents, source])
            for imported in names:
                new = imported.asname or imported.name
                yield Alias((module, new), (source, imported.name), statement)


def _remove(tree: ast.Module, alias: Alias) -> None:
    """Remove an alias from its module."""
    statement = alias.statement
    if isinstance(statement, ast.ImportFrom) and len(statement.names) > 1:
        names = statement.names
        statement.names = [part for part in names if (part.asname or part.name) != alias.name[1]]
    else:
        tree.body.remove(statement)


def _class_of(name: Name, aliases: Mapping[Name, Alias], modules: Collection[str]) -> Name:
    """Return the class that a name stands for."""
    for _ in aliases:  # an alias may stand for an alias
        alias = aliases.get(name)
        if alias is not None and alias.target[0] in modules:
            name = alias.target
    return name


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass) or _is_text(statement)


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


def _defaults(tree: ast.Module, name: str) -> dict[str, Any]:
    """Return the defaults of a class's constructor that are literals."""
    defaults = {}
    for statement in _statements_of(tree, name):
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            arguments = statement.args
            names = [*arguments.posonlyargs, *arguments.args]
            pairs = [
                *zip(reversed(names), reversed(arguments.defaults), strict=False),
                *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
            ]
            for argument, default in pairs:
                with suppress(ValueError, TypeError):
                    if default is not None:  # of a parameter by name alone without one
                        defaults[argument.arg] = ast.literal_eval(default)
    return defaults


def _statements_of(tree: ast.Module, name: str) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            yield from node.body


def _parameter_in(value: ast.expr, name: str) -> Parameter:
    with suppress(ValueError, TypeError, AttributeError):
        ((parameter, values),) = ast.literal_eval(value).items()
        first, second = map(float, values)
        if first != second:
            return parameter, (first, second)
    example = '{"power": (0.25, 0.5)}'
    raise ValueError(f"{name}.tries: name one parameter and two values, such as {example}")
