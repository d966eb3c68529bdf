"""Norms of other packages, named by entry point or as package.module:Class.

Their source identifies them.
"""

import ast
import importlib.machinery
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

GROUP = "adanorm.norms"
MOST_FILES = 500  # a module that imports more is a library, which its version identifies


def outside_norms() -> list[str]:
    """Return the sorted names of norms that installed packages offer as entry points."""
    return sorted(point.name for point in entry_points(group=GROUP))


def find_outside(name: str, path: str | None) -> Any:
    """Return the class at `path` (package.module:Class), or of the entry point `name`, or None.

    Raises ValueError if the class cannot be imported.
    """
    location = _module_and_class(name, path)
    if location is None:
        return None
    from adanorm.norms.process_settings import settings_kept  # imports torch

    module, attribute = location
    try:
        root, files = source_of(module)
        for file, content in files.items():
            _OutsideFinder.hashed[os.path.realpath(root / file)] = content
            _OutsideFinder.tops.add(file.partition("/")[0].removesuffix(".py"))
        if _OutsideFinder not in sys.meta_path:
            sys.meta_path.insert(0, _OutsideFinder)
        with settings_kept("importing it", "the environment"):  # libraries set variables
            return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:  # importing foreign code may raise anything
        is_plain = isinstance(error, ImportError | AttributeError | ValueError | OSError)
        reason = str(error) if is_plain else f"{type(error).__name__}: {error}"
        raise ValueError(f"norm.path='{module}:{attribute}': {reason}") from error


class _FromSource(importlib.machinery.SourceFileLoader):
    """Compiles a module from the bytes that were hashed, and ignores cached bytecode.

    Python trusts bytecode if the source has the same size and the same second of change. A module
    whose name is made up at run time is not hashed; it is compiled from its source too.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code."""
        content = _OutsideFinder.hashed.get(os.path.realpath(self.path))
        if content is None:
            content = self.get_data(self.path)
        return self.source_to_code(content, self.path)


class _OutsideFinder:
    """Finds the modules of outside norms as Python does, but has _FromSource load them."""

    hashed: ClassVar[dict[str, bytes]] = {}  # by path
    tops: ClassVar[set[str]] = set()  # top-level packages and modules

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        """Return the spec of a module within `tops`, None for any other module."""
        if name.partition(".")[0] not in cls.tops:
            return None
        for finder in sys.meta_path:
            spec = None if finder is cls else finder.find_spec(name, path)
            if spec is not None:
                if isinstance(spec.loader, importlib.machinery.SourceFileLoader):
                    spec.loader = _FromSource(name, spec.loader.path)
                return spec
        return None


def outside_code(name: str, path: str | None) -> dict[str, bytes]:
    """Return the contents of a norm's source files by relative path, {} for the suite's.

    Imports nothing.
    """
    location = _module_and_class(name, path)
    if location is None:
        return {}
    try:
        return source_of(location[0])[1]
    except (OSError, ValueError) as error:
        raise ValueError(f"norm.path='{':'.join(location)}': {error}") from None


def _module_and_class(name: str, path: str | None) -> tuple[str, str] | None:
    """Return module and class of a norm that the suite does not have, None for an unknown one."""
    if path is None:
        for point in entry_points(group=GROUP, name=name):
            return point.module, point.attr
        return None
    if "" not in sys.path:
        # The norm may be a file of the current folder; last, it shadows no package.
        sys.path.append("")
    module, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), attribute]):
        raise ValueError(f"norm.path={path!r}: write it as package.module:Class")
    return module, attribute


@cache
def source_of(module: str) -> tuple[Path, dict[str, bytes]]:
    """Return the folder of a module's package, and the sources of the module and its imports.

    Only imports from its own package count; for a module in no package, those from its folder.
    Imports are read from the source, not run: one by a name made up at run time is missed. Files
    are read once per process, as Python does. Raises ValueError if the module is not found, has no
    file, or imports too many.
    """
    importlib.invalidate_caches()  # Python may have listed the folder before the file was written
    top = module.partition(".")[0]
    root, is_package = _place_of(top)
    is_there = root is not None and (
        _file_of(root, module) is not None or root.joinpath(*module.split(".")).is_dir()
    )
    if root is None or not is_there:
        raise ValueError(
            f"no module named {module!r} in the current folder, in PYTHONPATH, or installed"
        )
    # Installed modules that lie side by side may be of different authors.
    is_installed = root in {Path(path).resolve() for path in sysconfig.get_paths().values()}
    prefix = f"{top}." if is_package or is_installed else ""
    files: dict[str, bytes] = {}
    queue, seen = [module], set[str]()
    while queue:
        name = queue.pop()
        if name in seen or not f"{name}.".startswith(prefix):
            continue
        seen.add(name)
        if "." in name:
            queue.append(name.rpartition(".")[0])  # importing a.b runs a
        path = _file_of(root, name)
        if path is None:
            continue
        if len(files) == MOST_FILES:
            raise ValueError(
                f"it imports over {MOST_FILES} modules of {top}: put the norm into its own"
            )
        content = path.read_bytes()
        files[path.relative_to(root).as_posix()] = content
        queue += _imports(path, name, content)
    return root, dict(sorted(files.items()))


def _place_of(top: str) -> tuple[Path | None, bool]:
    """Return the folder that holds a top-level module, or None, and whether it is a package."""
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None, False
    folders = [*(spec.submodule_search_locations or ())]
    if folders:
        return Path(folders[0]).resolve().parent, True
    if not spec.has_location or not spec.origin:
        raise ValueError(f"module {top!r} has no source file")
    return Path(spec.origin).resolve().parent, False


def _file_of(root: Path, name: str) -> Path | None:
    """Return the file under `root` that importing a module runs, or None if there is none."""
    path = root.joinpath(*name.split("."))
    compiled = path.parent.glob(f"{path.name}.*.so")
    for file in (path / "__init__.py", *compiled, path.with_name(f"{path.name}.py")):
        if file.is_file():
            return file
    return None


def _imports(path: Path, name: str, content: bytes) -> Iterator[str]:
    """Yield the names that a module with this content imports; some may not be modules."""
    if path.suffix != ".py":
        return
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None
    package = name.split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            parts = package[: len(package) - node.level + 1] if node.level else []
            if node.module:
                parts.append(node.module)
            module = ".".join(parts)
            yield module
            for alias in node.names:
                if alias.name != "*":
                    yield f"{module}.{alias.name}"
