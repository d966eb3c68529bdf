"""Processes that start in milliseconds: each is a fork of one that has imported what commands import.

`python -m tests.commands`, which conftest.py starts once for all workers, imports nothing before
its first order. Then it imports the libraries, and a fork of it also the suite; each listens on a
socket of its own. A fork behaves like `python -m MODULE`: it has its own arguments, environment,
folder, files, signals and exit code, in a session of its own. All forks share one hash seed.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

PROJECT = Path(__file__).parents[1]
FOLDER = "ADANORM_TESTS_PROCESSES"  # names the sockets' folder to pytest's workers
LIBRARIES = (
    "torch", "torch._dynamo", "numba", "hydra", "pydantic", "scipy.stats", "sacrebleu", "sklearn",
    "matplotlib.figure", "sacremoses", "requests", "subword_nmt.apply_bpe", "joblib",
    "wandb", "torch.utils.tensorboard",
)  # fmt: skip
SUITE = ("adanorm.cli.study", "adanorm.cli.compare", "adanorm.cli.analyze", "adanorm.runs.execute")
LARGEST = 1 << 20  # bytes of an order


class Process:
    """A forked process, to be used as a subprocess.Popen is."""

    def __init__(self, connection: socket.socket, arguments: Sequence[str]) -> None:
        self._connection = connection
        self.args = arguments
        self.pid = int(connection.recv(32))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code as soon as there is one; raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                code = self._connection.recv(32)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._connection.close()
            self.returncode = int(code or -signal.SIGKILL)  # empty: the server has gone
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the process and all that is in its group."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)


def start(
    *arguments: str,
    output: IO[Any] | int = subprocess.DEVNULL,
    errors: IO[Any] | int = subprocess.DEVNULL,
    cwd: Path = PROJECT,
    environment: Mapping[str, str] | None = None,
    imported: str = "suite",
) -> Process:
    """Start and return `python -m <arguments>`: a fork that has imported the suite, or only libraries."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(Path(os.environ[FOLDER]) / imported))
    variables = dict(os.environ if environment is None else environment)
    order = {"arguments": arguments, "cwd": str(cwd), "environment": variables}
    with open(os.devnull, "r+") as nothing:
        files = [
            nothing if file == subprocess.DEVNULL else file for file in (nothing, output, errors)
        ]
        numbers = [file if isinstance(file, int) else file.fileno() for file in files]
        socket.send_fds(connection, [json.dumps(order).encode()], numbers)
        return Process(connection, arguments)


def run(*arguments: str, timeout: float = 300, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run `python -m <arguments>` and return its exit code and what it printed."""
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        process = start(
            *arguments,
            output=output,
            errors=errors,
            **settings,
        )
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(
            arguments,
            code,
            output.read(),
            errors.read(),
        )


@contextmanager
def server() -> Iterator[None]:
    """Run the servers that fork processes during a block."""
    with TemporaryDirectory(prefix="adanorm-") as folder, ExitStack() as stack:
        doors = [
            stack.enter_context(listening(Path(folder, name))) for name in ("libraries", "suite")
        ]
        numbers = [door.fileno() for door in doors]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.commands", *map(str, numbers)], cwd=PROJECT, pass_fds=numbers,
            env={**os.environ, "OMP_NUM_THREADS": "1", "TRITON_INTERPRET": "0"},
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        os.environ[FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[FOLDER]
            process.communicate()  # it ends when its input ends


def become(arguments: list[str], cwd: str, environment: dict[str, str], files: list[int]) -> None:
    """Become the ordered process, to its end."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    # The server's streams may be files, which can seek; these may be pipes, which cannot.
    lines = 1 if environment.get("PYTHONUNBUFFERED") else -1
    sys.stdout = open(  # noqa: SIM115
        1,
        "w",
        lines,
        encoding=sys.stdout.encoding,
        closefd=False,
    )
    sys.stderr = open(  # noqa: SIM115
        2, "w", 1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False
    )
    sys.path[:0] = [cwd, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # drawn anew, as at its import
    for name in ("tests", "tests.commands"):  # a copy of the repository has its own
        sys.modules.pop(name, None)
    sys.argv = arguments
    _code.append(1)
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        _code.append(0)
    except SystemExit as end:
        if not isinstance(end.code, str):
            _code.append(end.code or 0)
        raise


_code: list[int] = []  # the last one is the exit code of this process


def leave() -> None:
    """End this process without taking down what was imported, which takes a second."""
    if _code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_code[-1])


def listening(path: Path) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.bind(str(path))
    door.listen(64)
    return door


def serve(door: socket.socket, owner: int) -> None:
    """Fork a process for each order at a door, until the owner's end of a pipe is closed.

    A process that nobody waits for any more is killed. This function returns in the forks alone, at
    their end.
    """
    gc.freeze()  # what is imported stays: a collection need not look at it
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # a fork need not undo what libraries made here
    running: dict[int, tuple[int, socket.socket]] = {}  # process and connection by pidfd
    while True:
        connections = [connection.fileno() for _, connection in running.values()]
        ready = select.select([door.fileno(), owner, *running, *connections], [], [])[0]
        for alive, (pid, connection) in [*running.items()]:
            if not {alive, connection.fileno(), owner}.isdisjoint(ready):
                end(pid, connection, kill=alive not in ready)
                os.close(alive)
                del running[alive]
        if owner in ready:
            with suppress(ChildProcessError):
                os.wait()  # for the suite's server, whose parent is that of the libraries
            os._exit(0)
        if door.fileno() not in ready:
            continue
        connection, _ = door.accept()
        message, files, _, _ = socket.recv_fds(connection, LARGEST, 3)
        assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the other threads"
        if (pid := os.fork()) == 0:
            os.setsid()
            # Background jobs of a shell would ignore the signal.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            connection.send(str(os.getpid()).encode())
            os.close(owner)
            for other in (door, connection, *(other for _, other in running.values())):
                other.close()
            for alive in running:
                os.close(alive)
            become(**json.loads(message), files=files)
            return
        for file in files:
            os.close(file)
        running[os.pidfd_open(pid)] = pid, connection


def end(pid: int, connection: socket.socket, *, kill: bool) -> None:
    """Send the exit code of a process that has ended, or that is killed with its group."""
    if kill:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        connection.send(str(code).encode())
    connection.close()


def main() -> None:
    """Listen at the two sockets of these numbers until standard input ends."""
    libraries, suite = (socket.socket(fileno=int(number)) for number in sys.argv[1:])
    owner = os.dup(0)
    if owner in select.select([owner, libraries.fileno(), suite.fileno()], [], [])[0]:
        return
    gc.set_threshold(100_000)  # in forks too: most end before there is anything to collect
    del sys.path[0]  # each order has its own
    atexit.register(leave)  # what is registered first is called last
    use_libraries()
    if os.fork():
        suite.close()
        serve(libraries, owner)
    else:
        libraries.close()
        use_suite()
        serve(suite, owner)


def use_libraries() -> None:
    """Import libraries and use some once: at their first use they look for plugins or compile types."""
    for module in LIBRARIES:
        with suppress(ModuleNotFoundError):
            importlib.import_module(module)
    from hydra.core.plugins import Plugins

    Plugins.instance()
    if sys.modules.get("numba"):
        sys.modules["numba"].njit("void()")(lambda: None)


def use_suite() -> None:
    """Import the suite, compose a configuration and load a kernel."""
    for module in SUITE:
        importlib.import_module(module)
    import torch

    from adanorm.config.compose import compose_experiment
    from adanorm.data.translation.fairseq_library import fairseq
    from adanorm.norms.registry import norm_factory

    with suppress(ValueError):  # not installed
        fairseq()
    for task in ("rt", "de-en", "enwik8", "ptb", "mnist"):  # what most tests run
        smoke = compose_experiment([f"task={task}", "norm=adanorm", "scale=smoke"])
    norm = norm_factory(smoke.norm.choice)(4, site="n")
    norm(torch.ones(2, 4, requires_grad=True)).sum().backward()


if __name__ == "__main__":
    main()
