"""The source of what comes from another package: it is identified by its code, not by its name."""

from __future__ import annotations

import ast
import importlib
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path

MOST_FILES = 500  # of a library the version is what identifies it; its whole source is no norm's


@cache
def source_of(module: str) -> dict[str, bytes]:
    """Return the files of a module and of all that it imports from its own package, by relative path.

    A module in no package counts with those in its folder that it imports. The imports are read, not
    run: what is imported by a name made up at run time is not seen. Read once a process, as Python
    does. Raises ValueError where the module does not exist or has no file, or its package has too many.
    """
    importlib.invalidate_caches()  # the folder may have been listed before the file was written
    found: dict[str, bytes] = {}
    top = _spec(module.partition(".")[0])
    if top is None or _spec(module) is None:
        raise ValueError(f"no module named {module!r}")
    root = _folder(top)
    if root is None:
        raise ValueError(f"module {module!r} has no source file")
    is_package = top.submodule_search_locations is not None
    within = f"{top.name}." if is_package or root in _installed() else ""
    left, seen = [module], set[str]()
    while left:
        name = left.pop()
        if name in seen or not f"{name}.".startswith(within):
            continue
        seen.add(name)
        spec = _spec(name)
        if spec is None or _folder(_spec(name.partition(".")[0])) != root:
            continue  # a class or a function of a module, or another package
        left += [name.rpartition(".")[0]] if "." in name else []  # importing a.b runs a
        if spec.has_location and spec.origin is not None:
            path, is_folder = Path(spec.origin), spec.submodule_search_locations is not None
            *around, last = name.split(".")
            if len(found) == MOST_FILES:
                raise ValueError(
                    f"it imports over {MOST_FILES} modules of {top.name}: put the norm into its own"
                )
            content = path.read_bytes()
            found["/".join([*around, *([last] if is_folder else []), path.name])] = content
            left += _imports(content, path, name, is_package=is_folder)
    return dict(sorted(found.items()))


def _spec(name: str) -> ModuleSpec | None:
    """Return where a module lies, without importing it or the packages around it; None where nowhere."""
    parts, places = name.split("."), None
    spec: ModuleSpec | None = None
    for count in range(1, len(parts) + 1):
        if count > 1 and places is None:
            return None
        whole = ".".join(parts[:count])
        try:
            spec = _found(whole, places)
        except KeyError:  # a package without __init__.py in one that is not imported: there is nothing to run
            importlib.import_module(".".join(parts[: count - 1]))
            spec = _found(whole, places)
        if spec is None:
            return None
        held = spec.submodule_search_locations
        # What a package without __init__.py has instead of a list asks for its parent, not yet imported.
        places = None if held is None else list(getattr(held, "_path", held))
    return spec


def _found(name: str, places: list[str] | None) -> ModuleSpec | None:
    finders = (finder.find_spec for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((found for find in finders if (found := find(name, places)) is not None), None)


def _folder(spec: ModuleSpec | None) -> Path | None:
    """Return the folder that a top-level module or package lies in, None where it has no file."""
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        held = spec.submodule_search_locations
        return Path(next(iter(getattr(held, "_path", held)))).resolve().parent
    return Path(spec.origin).resolve().parent if spec.has_location and spec.origin else None


def _installed() -> set[Path]:
    """Return the folders of what is installed, where modules that lie side by side are not of one hand."""
    return {Path(path).resolve() for path in sysconfig.get_paths().values()}


def _imports(content: bytes, path: Path, name: str, *, is_package: bool) -> Iterator[str]:
    """Yield the names that a module imports, some of which may be of no module."""
    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = name.split(".") if is_package else name.split(".")[:-1]
            base = around[: len(around) - node.level + 1] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])])
            yield whole
            yield from (f"{whole}.{alias.name}" for alias in node.names if alias.name != "*")
