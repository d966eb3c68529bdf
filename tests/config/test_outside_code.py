"""Code of another package is identified by its source, wherever in the package it lies."""

import os
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adanorm.config.compose import compose_experiment
from adanorm.config.outside_norms import MOST_FILES, source_of

CLASS = "class Own:\n    scale = 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python imports from, its modules read again after every test."""
    monkeypatch.syspath_prepend(str(tmp_path))
    source_of.cache_clear()
    yield tmp_path
    source_of.cache_clear()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/').replace('/init', '/__init__')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def digest(norm: str = "own.norms:Own") -> str:
    source_of.cache_clear()  # as a new process would
    return compose_experiment(["task=rt", "scale=smoke", f"norm={norm}"]).digest


def test_a_norm_whose_code_is_edited_makes_another_run(folder: Path) -> None:
    write(
        folder,
        own__init="",
        own__norms="from .kernels import fast\n" + CLASS,
        own__kernels="fast = 1\n",
    )
    write(folder, own__unused="raise RuntimeError\n")
    before = digest()
    assert digest() == before
    write(folder, own__unused="raise ValueError\n")
    assert digest() == before, "a module that the norm does not import changes nothing"
    write(folder, own__kernels="fast = 2\n")
    after = digest()
    assert after != before
    write(folder, own__norms="from .kernels import fast\n" + CLASS.replace("1", "2"))
    assert digest() not in (before, after)
    assert not {"own", "own.norms", "own.kernels"} & {*sys.modules}, "nothing was run"


def test_every_spelling_of_an_import_is_followed_within_the_package(folder: Path) -> None:
    imports = "import a.one\nfrom a import two\nfrom .three import x\nfrom . import four\nimport json, b\n"
    names = ("one", "two", "three", "four", "five", "seven")
    write(
        folder,
        **{f"a__{name}": "x = 1\n" for name in names},
        b="x = 1\n",
        a__init="from .five import x\n",
    )
    write(folder, a__norms=imports + "def later():\n    from .deep.six import y\n")
    write(folder, a__deep__init="", a__deep__six="from ..seven import x\n")
    expected = {
        f"a/{name}.py" for name in (*names, "norms", "__init__", "deep/__init__", "deep/six")
    }
    assert {*source_of("a.norms")[1]} == expected


def test_modules_in_no_package_count_with_what_lies_beside_them(folder: Path) -> None:
    imports = "import json\nfrom beside import other\n"  # an attribute of that name, not a module
    write(
        folder,
        lone=imports + CLASS,
        beside="other = 1\n",
        other="x = 2\n",
    )
    assert source_of("lone")[1] == {
        name: (folder / name).read_bytes() for name in ("beside.py", "lone.py")
    }


def test_a_package_needs_no_init_file(folder: Path) -> None:
    unrun = "from bare.kernels import x\nraise RuntimeError\n"
    write(folder, bare__deep__norms=unrun, bare__kernels="x = 1\n")
    assert {*source_of("bare.deep.norms")[1]} == {"bare/deep/norms.py", "bare/kernels.py"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.norms:Own", "no module named 'nowhere.norms'"),
        ("broken.nowhere:Own", "no module named 'broken.nowhere'"),
        ("builtins:print", "module 'builtins' has no source file"),
        ("broken:Own", "invalid syntax"),
        ("my norms:Own", "write it as package.module:Class"),
        ("norms.py:Own:x", "write it as package.module:Class"),
    ],
)
def test_a_path_to_no_module_is_refused_in_one_line(folder: Path, path: str, message: str) -> None:
    write(folder, broken="class :\n")
    with pytest.raises(ValueError, match=r"norm\.path=") as refused:
        assert compose_experiment([f"++norm.path='{path}'"]).digest
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_norm_that_imports_a_whole_library_is_refused(folder: Path) -> None:
    write(
        folder,
        vast__init="",
        vast__norms="".join(f"from . import m{n}\n" for n in range(MOST_FILES)),
    )
    write(folder, **{f"vast__m{n}": "" for n in range(MOST_FILES)})
    with pytest.raises(
        ValueError, match="imports over 500 modules of vast: put the norm into its own"
    ):
        source_of("vast.norms")


LATER = """class Own:
    def __init__(self):
        from .parts import scale
        self.scale = scale
"""
BY_NAME = "import importlib\nscale = importlib.import_module('own.' + 'parts').scale"
LAYOUTS = {  # the file that is edited, and the text of the norm's module
    "the module": ("own/norms.py", CLASS),
    "the package": ("own/__init__.py", CLASS),
    "a module in none": ("lone.py", CLASS),
    "a submodule": (
        "own/deep/parts.py",
        "from .deep.parts import scale\nclass Own:\n    scale = scale\n",
    ),
    "imported later": ("own/parts.py", LATER),
    "a name made up": ("own/parts.py", f"{BY_NAME}\nclass Own:\n    scale = scale\n"),
}


MODULES = {
    "own/__init__.py": "own",
    "lone.py": "lone",
}  # the norm's module, where it is not own.norms


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_code_that_runs_is_the_code_that_was_hashed(folder: Path, layout: str) -> None:
    """Neither old bytecode of a source of the same size and second runs, nor an edit made after hashing."""
    edited, text = LAYOUTS[layout]
    module = MODULES.get(edited, "own.norms")
    write(
        folder,
        own__init="",
        own__deep__init="",
        own__deep__parts="scale = 1\n",
        own__parts="scale = 1\n",
    )
    write(folder, **{"own__init" if module == "own" else module.replace(".", "__"): text})
    path = folder / edited
    text = path.read_text()
    os.utime(path, (1, 1))
    py_compile.compile(str(path))
    path.write_text(text.replace("scale = 1", "scale = 2"))
    os.utime(path, (1, 1))
    norm = compose_experiment(["task=rt", "scale=smoke", f"norm={module}:Own"]).norm
    assert layout == "a name made up" or b"scale = 2" in norm.code[edited]
    if layout != "a name made up":
        path.write_text(text.replace("scale = 1", "scale = 3"))
    try:
        assert norm.choice.outside().scale == 2
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("own", "lone")]:
            del sys.modules[name]
