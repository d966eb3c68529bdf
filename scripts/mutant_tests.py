"""Whether a test notices a mutant: of a function, in a fork of the imported suite; else by importing it anew.

The tests of all rooms are collected once, and each is traced: which lines it runs, and how long it takes. A
mutant of a function is a fork in which that function has other code and the tests of its line are run, the
fastest first: tenths of a second. What is decided when a module is imported takes a process that imports it.
"""

from __future__ import annotations

import ast
import functools
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

if TYPE_CHECKING:
    from scripts.mutate import Mutant

Outcome = Literal["noticed", "survived", "not run", "at import"]
CACHED = 3  # tests of a line, or fewer: it may be behind a cache, and others need it too
SECONDS = 20.0  # of a core, of those others
# A busy machine is no reason to fail: a mutant's time is bounded by what it computes.
OPTIONS = ("-x", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=3000")


class Traced(NamedTuple):
    """A test by its number, the seconds of a core that it takes and the lines that it runs, by module."""

    number: int
    seconds: float
    lines: dict[str, list[int]]


def outcomes(
    mutants: Sequence[Mutant], repository: Path, tests: Sequence[str], limit: int
) -> Iterator[Outcome]:
    """Yield of each mutant whether a test notices it, that none runs its line, or that it is no function's.

    Raises ValueError, naming the test, where one fails without any change.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _become(repository)
            pytest.main([*OPTIONS, *tests], plugins=[_Suite(mutants, repository, limit, sink)])
        finally:
            os._exit(0)
    os.close(sink)
    try:
        with os.fdopen(source) as lines:
            for line in lines:
                found = json.loads(line)
                if found.startswith("tests/"):
                    raise ValueError(f"{found} fails without any change")
                yield found
    finally:
        os.waitpid(child, 0)


def is_noticed_at_import(mutant: Mutant, repository: Path, tests: Sequence[str], limit: int) -> bool:
    """Return whether a test fails on a mutant, or the tests do not end in time, in a process of its own."""
    with _written(mutant, repository):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _become(repository)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                code = int(pytest.main([*OPTIONS, *tests]))
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


@contextmanager
def _written(mutant: Mutant, repository: Path) -> Iterator[None]:
    """Have a mutant in its file: kernels are compiled anew where their files have changed.

    Triton reads them there, by the lines on which they began.
    """
    module = repository / mutant.path
    whole = module.read_bytes()
    module.write_text(mutant.text())
    try:
        yield
    finally:
        module.write_bytes(whole)


def _become(repository: Path) -> None:
    """Be a process that has not imported the suite, imports it from the copy, and prints nothing."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for name in [name for name in sys.modules if name.partition(".")[0] in ("adanorm", "tests", "scripts")]:
        del sys.modules[name]
    os.environ["GIT_OPTIONAL_LOCKS"] = "0"  # git's folder is linked to, and only read
    os.chdir(repository)
    sys.path[:0] = [str(repository / "src"), str(repository)]


class _Suite:
    """A plugin of pytest that tries mutants in place of running the tests."""

    def __init__(self, mutants: Sequence[Mutant], repository: Path, limit: int, sink: int) -> None:
        self._mutants, self._repository, self._limit, self._sink = mutants, repository, limit, sink

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Write the outcome of each mutant, a line of JSON; or the name of a test that fails without any."""
        self._session = session
        known = _in_fork(self._traced, limit=None)
        if not isinstance(known, list):
            self._say(str(known))
            return True
        tests = [Traced(*each) for each in known]
        for mutant in self._mutants:
            with suppress(ImportError):  # of a compiler that is not installed
                import_module(".".join(mutant.path.relative_to("src").with_suffix("").parts))
        gc.unfreeze()
        functions, caches = defaultdict(list), []
        for each in gc.get_objects():
            if type(each) is FunctionType:  # isinstance asks a proxy, whose object may be gone
                functions[each.__code__.co_filename].append(each)
            elif type(each) is functools._lru_cache_wrapper:
                caches += [each] if str(each.__module__).startswith("adanorm") else []
        gc.freeze()
        for mutant in self._mutants:
            changed = _changed(mutant, str(self._repository / mutant.path), functions)
            self._say(self._outcome(mutant, changed, caches, tests) if changed else "at import")
        return True

    def _say(self, outcome: str) -> None:
        os.write(self._sink, f"{json.dumps(outcome)}\n".encode())

    def _traced(self) -> list[Traced] | str:
        """Run all tests; return what each runs, or the name of the first that fails."""
        prefix, found = f"{self._repository / 'src' / 'adanorm'}/", []
        lines: set[tuple[str, int]] = set()

        def in_function(frame: FrameType, event: str, _: Any) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return in_function

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            ours = frame.f_code.co_filename.startswith(prefix)
            return in_function(frame, event, argument) if ours else None

        for number, item in enumerate(self._session.items):
            lines.clear()
            started = time.process_time()
            threading.settrace(trace)
            sys.settrace(trace)
            self._run([item])
            sys.settrace(None)
            threading.settrace(None)
            if self._session.testsfailed:
                return item.nodeid
            by_file = defaultdict(list)
            for file, line in lines:
                by_file[os.path.relpath(file, self._repository)].append(line)
            found.append(Traced(number, time.process_time() - started, by_file))
        return found

    def _outcome(
        self, mutant: Mutant, changed: Sequence[tuple[FunctionType, CodeType]], caches: Sequence[Any],
        tests: Sequence[Traced],
    ) -> Outcome:  # fmt: skip
        of_file = sorted(
            (test for test in tests if str(mutant.path) in test.lines), key=lambda test: test.seconds
        )
        compiled = "kernels" in mutant.path.parts  # whose lines no trace sees
        of_line = [test for test in of_file if compiled or mutant.line in test.lines[str(mutant.path)]]
        tried = [of_line]
        if len(of_line) <= CACHED:
            others, seconds = [], 0.0
            for test in (test for test in of_file if test not in of_line):
                seconds += test.seconds
                others += [test] if seconds < SECONDS else []
            tried.append(others)

        def passes(chosen: Sequence[Traced]) -> bool:
            for function, code in changed:
                function.__code__ = code
            for cache in caches:
                cache.cache_clear()
            self._run([self._session.items[test.number] for test in chosen])
            return not self._session.testsfailed

        with _written(mutant, self._repository):
            survived = all(
                _in_fork(functools.partial(passes, chosen), limit=self._limit) is True
                for chosen in tried
                if chosen
            )
        return "noticed" if not survived else "survived" if of_line else "not run"

    def _run(self, items: Sequence[pytest.Item]) -> None:
        """Run tests until one fails."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._session.testsfailed:
                return


def _changed(
    mutant: Mutant, file: str, functions: dict[str, list[FunctionType]]
) -> list[tuple[FunctionType, CodeType]]:
    """Return the functions that a mutant changes, each with its other code."""
    codes: dict[tuple[str, int], CodeType] = {}
    left: list[CodeType] = [
        compile(ast.fix_missing_locations(mutant.tree()), file, "exec", dont_inherit=True)
    ]
    while left:
        code = left.pop()
        codes[code.co_qualname, code.co_firstlineno] = code
        left += [each for each in code.co_consts if isinstance(each, CodeType)]
    pairs = ((f, codes.get((f.__code__.co_qualname, f.__code__.co_firstlineno))) for f in functions[file])
    return [(function, code) for function, code in pairs if code is not None and code != function.__code__]


def _in_fork(work: Callable[[], Any], *, limit: int | None) -> Any:
    """Return what work comes to in a fork, in JSON's types; None where it takes more seconds, or ends it."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            with os.fdopen(sink, "w") as file:
                file.write(f"{json.dumps(work())}\n")
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as file:
        line = file.readline()
    os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what its tests have started
    return json.loads(line) if line else None
