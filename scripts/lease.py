"""Prepare a borrowed GPU machine before it is borrowed, and use it well: see docs/howto/gpus.md.

Here:     .venv/bin/python -m scripts.lease prepare runs=FILE    fills .whl and .lease
There:    python3 scripts/lease.py run output=FOLDER             measures, trains what fits

`run` needs no package index, no network and no records. It installs the carried wheels beside the
machine's own torch, checks graphs and norms, measures speed, and trains the runs of the list, the
first ones first, under NVIDIA's MPS. What it writes in FOLDER comes back: a line of JSON per
measurement, the runs' folders without weights (`adanorm keep` takes them), their logs. Called again
on the same machine, it goes on.

Keys of prepare: runs=FILE (lines of `adanorm run` arguments), measures=FILE (lines of
scripts.gpu_measure arguments; a line `# none` measures nothing). Keys of run: output=FOLDER,
minutes=9, device=cuda, measures=on|off, processes=N (runs at once; default: a core each),
work=FOLDER (for unfinished runs; default: one per list of runs in the system's temporary folder).
The exit code is 1 if a run failed.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adanorm.config.experiment import Experiment

ROOT = Path(__file__).resolve().parent.parent
LEASE, WHEELS = ROOT / ".lease", ROOT / ".whl"
DATA, CACHE, RUNS, MEASURES = (
    LEASE / "data",
    LEASE / "cache",
    LEASE / "runs.txt",
    LEASE / "measures.txt",
)
MOST_MEGABYTES = 40  # of the tree that is sent
LEAST_SECONDS, MOST_SECONDS = 10.0, 90.0  # of a measurement

# What the suite needs beside torch 2.11 and what comes with it: numpy, scipy, numba, sacrebleu.
PACKAGES = (
    "ve-fairseq==0.12.3", "hydra-core==1.3.8", "omegaconf", "pydantic", "pydantic-core",
    "typing-inspection", "typing-extensions", "annotated-types", "sacremoses", "subword-nmt",
    "mock", "bitarray", "cffi", "hydra-joblib-launcher",
)  # fmt: skip
SOURCES = ("antlr4-python3-runtime==4.9.3",)  # no wheel is published
PLATFORMS = (
    "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64",
    "manylinux2014_x86_64", "manylinux_2_24_x86_64", "manylinux_2_12_x86_64",
    "manylinux2010_x86_64", "manylinux1_x86_64",
)  # fmt: skip
# Not sent: nothing there reads them.
RECORDS = ("results/runs", "results/report", "results/figures")

# Telling ones first: the time may end before the last.
PLANNED_MEASURES = """\
graphs rt device={device}
graphs mnist device={device}
graphs de-en device={device}
graphs ptb device={device}
graphs enwik8 device={device}
equality images device={device}
equality sentences device={device}
equality translation device={device}
equality bytes device={device}
speed de-en scale=small
speed en-de precision=bf16
speed de-en precision=bf16
speed enwik8 precision=bf16
speed en-vi precision=bf16
speed en-de precision=tf32
speed de-en
speed en-de precision=bf16 graphs=off
speed de-en scale=small graphs=off
speed enwik8 precision=tf32
speed mnist
speed rt
speed ptb
"""


def prepare(runs: Path, measures: Path | None) -> None:
    """Fill .whl and .lease for the runs of a list: packages, mirrored data, prepared corpora, lists."""
    lines = _lines(runs)
    experiments = _composed(lines)
    planned = measures.read_text() if measures else PLANNED_MEASURES
    listed = runs.read_bytes()
    for folder in (LEASE, WHEELS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    RUNS.write_bytes(listed)
    MEASURES.write_text(planned)
    _prepare_data(lines, experiments)
    _download_wheels()
    sent = sum(
        path.stat().st_size
        for folder in (LEASE, WHEELS)
        for path in folder.rglob("*")
        if path.is_file()
    )
    tree = _tracked_bytes()
    print(
        f"{len(lines)} runs, .whl and .lease {sent / 1e6:.1f} MB, tracked files {tree / 1e6:.1f} MB"
    )
    if (sent + tree) / 1e6 > MOST_MEGABYTES:
        print(f"more than {MOST_MEGABYTES} MB: leave the records out with\n  {' '.join(SPARSE)}")


SPARSE = (
    "git",
    "sparse-checkout",
    "set",
    "--no-cone",
    "'/*'",
    *(f"'!/{folder}/'" for folder in RECORDS),
)


def _tracked_bytes() -> int:
    """Return the size of the tracked files that are in the working tree."""
    from adanorm.records.environment import variables_for_git

    names = subprocess.run(
        ["git", "ls-files", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        env=variables_for_git(),
    ).stdout
    paths = [ROOT / name for name in names.decode().split("\0") if name]
    return sum(path.stat().st_size for path in paths if path.is_file())


def _composed(lines: Sequence[Sequence[str]]) -> "list[Experiment]":
    """Return the runs of a list.

    Raises ValueError for a list without runs, or with a run that does not compose.
    """
    from adanorm.config.compose import compose_experiment

    if not lines:
        raise ValueError("the list of runs is empty")
    return [compose_experiment(line) for line in lines]


def _prepare_data(lines: Sequence[Sequence[str]], runs: "Sequence[Experiment]") -> None:
    """Copy the mirrored files of the runs' data, and prepare their corpora from the copies."""
    from adanorm import tasks
    from adanorm.config.compose import compose_experiment
    from adanorm.data.fetch import mirrors_of

    DATA.mkdir()
    for run in runs:
        source = getattr(run.data, "source", None)
        for mirror in mirrors_of(run.data):
            folder = Path(mirror) / str(source)
            if folder.is_dir() and not (DATA / folder.name).exists():
                shutil.copytree(folder, DATA / folder.name)
    os.environ["ADANORM_MIRROR"] = str(DATA)
    experiments = {}
    for line in lines:
        experiment = compose_experiment([*line, f"data.cache={CACHE}"])
        experiments[experiment.data.model_dump_json()] = experiment
    for experiment in experiments.values():
        tasks.build(experiment)
    for path in DATA.rglob("*"):  # a mirror may be read-only, its copy is replaced next time
        path.chmod(0o755 if path.is_dir() else 0o644)


def _download_wheels() -> None:
    """Download wheels for Python 3.12 on x86-64 Linux; build those that are published as source."""
    pip = [sys.executable, "-m", "pip"]
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    binary = [
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        "3.12",
        "--implementation",
        "cp",
    ]
    constraints = ["-c", str(ROOT / "constraints.txt")]
    target = ["-d", str(WHEELS)]
    subprocess.run(
        [*pip, "download", "-q", *binary, *platforms, *constraints, *target, *PACKAGES], check=True
    )
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(WHEELS), *SOURCES], check=True)


def _lines(path: Path) -> list[list[str]]:
    """Return the words of each line of a list, without empty lines and comments."""
    lines = [line.partition("#")[0].split() for line in path.read_text().splitlines()]
    return [words for words in lines if words]


class Machine:
    """The borrowed machine: what runs there, until when, and where its results go."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._end = time.monotonic() + 60 * float(keys["minutes"])
        self._device = keys["device"]
        self._output, self._work = Path(keys["output"]), Path(keys["work"])
        self._output.mkdir(parents=True, exist_ok=True)
        self._work.mkdir(parents=True, exist_ok=True)
        self._processes = int(keys["processes"]) or os.cpu_count() or 1
        paths = [str(self._work / "site"), str(ROOT / "src"), str(ROOT)]
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "ADANORM_MIRROR": str(DATA),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def seconds_left(self) -> float:
        """Return the seconds until the results must be packed."""
        return self._end - time.monotonic()

    def install(self) -> None:
        """Install the carried wheels beside what the machine has."""
        wheels = sorted(map(str, WHEELS.glob("*.whl")))
        site = self._work / "site"
        if not wheels or site.exists() or self._device == "cpu":
            return
        unfinished = site.with_name("site-unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["-q", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
        pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(unfinished)]
        subprocess.run([*pip, *wheels], check=True)
        unfinished.rename(site)

    def measure(self) -> None:
        """Make the planned measurements and write a line of JSON for each.

        Checks run side by side; then each measurement of speed has the machine to itself.
        """
        checks, speeds = [], []
        for words in _lines(MEASURES):
            line = [word.format(device=self._device) for word in words]
            if line[0] == "speed":
                speeds.append([*line, f"device={self._device}", f"data.cache={CACHE}"])
            else:
                checks.append(line)
        self._measure(checks)
        for line in speeds:
            self._measure([line])

    def _measure(self, lines: Sequence[Sequence[str]]) -> None:
        """Make some measurements at the same time, each in a process of its own."""
        started = time.monotonic()
        seconds = min(MOST_SECONDS, self.seconds_left())
        if seconds < LEAST_SECONDS:
            return
        processes = []
        for line in lines:
            command = [sys.executable, "-m", "scripts.gpu_measure", *line]
            path = self._work / f"measure-{'-'.join(line).replace('/', '_')}.log"
            with path.open("w") as log:
                process = subprocess.Popen(
                    command, cwd=ROOT, env=self._environment, stdout=log, stderr=log
                )
            processes.append((line, process, path))
        for line, process, path in processes:
            try:
                process.wait(max(0.1, started + seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            taken = round(time.monotonic() - started, 1)
            facts = {"measure": line, "seconds": taken, "code": process.returncode}
            self._note(facts | _facts(path.read_text(errors="replace")))

    def _note(self, facts: dict[str, object]) -> None:
        """Write a measurement's line of JSON, and print it without the long list of kernels."""
        with (self._output / "measured.jsonl").open("a") as file:
            file.write(json.dumps(facts) + "\n")
        short = {key: value for key, value in facts.items() if key != "longest"}
        print(json.dumps(short), flush=True)

    def train(self) -> int:
        """Train the runs of the list, `processes` at once and in order, until the time ends.

        Returns how many failed, and prints what the first of them said last.
        """
        waiting = _lines(RUNS)
        running: dict[subprocess.Popen[bytes], Path] = {}
        ended = 0
        failed: list[Path] = []  # their logs
        with _Mps(self._work / "mps", self._environment, is_used=self._device == "cuda"):
            while (waiting or running) and self.seconds_left() > 0:
                while waiting and len(running) < self._processes:
                    process, log = self._start(waiting.pop(0))
                    running[process] = log
                time.sleep(0.5)
                for process in list(running):
                    if process.poll() is None:
                        continue
                    log = running.pop(process)
                    if process.returncode == 0:
                        ended += 1
                    else:
                        failed.append(log)
            for process in running:
                process.send_signal(signal.SIGINT)  # it leaves its last checkpoint
            deadline = time.monotonic() + 10  # of all together: the results are still to be packed
            for process in running:
                try:
                    process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
        counts = f"{ended} ended, {len(failed)} failed, {len(running)} cut"
        print(f"runs: {counts}, {len(waiting)} not begun")
        if failed:
            printed = failed[0].read_text(errors="replace").strip().splitlines() or ["nothing"]
            print(f"{failed[0]} ends with: {printed[-1]}", file=sys.stderr)
        return len(failed)

    def _start(self, words: Sequence[str]) -> "tuple[subprocess.Popen[bytes], Path]":
        """Start a run; return its process and the path of its log."""
        name = "-".join(word.partition("=")[2] for word in words).replace("/", "_")
        settings = [f"data.cache={CACHE}", f"runs={self._work / 'runs'}", f"device={self._device}"]
        command = [sys.executable, "-m", "adanorm", "run", *words, *settings]
        path = self._work / f"{name}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )
        return process, path

    def pack(self) -> None:
        """Write the runs' folders, without weights, and their logs into the output."""
        with tarfile.open(self._output / "runs.tar.gz", "w:gz") as archive:
            for path in sorted((self._work / "runs").rglob("*")):
                if path.is_file() and path.suffix not in (".pt", ".safetensors", ".lock"):
                    archive.add(path, path.relative_to(self._work))
        with tarfile.open(self._output / "logs.tar.gz", "w:gz") as archive:
            for path in sorted(self._work.glob("*.log")):
                archive.add(path, path.name)


class _Mps:
    """NVIDIA's MPS for a block, if it is there: kernels of several processes run at once."""

    def __init__(self, folder: Path, environment: dict[str, str], *, is_used: bool) -> None:
        self._folder, self._environment = folder, environment
        self._control = shutil.which("nvidia-cuda-mps-control") if is_used else None

    def __enter__(self) -> None:
        if self._control:
            self._folder.mkdir(parents=True, exist_ok=True)
            names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
            self._environment.update(dict.fromkeys(names, str(self._folder)))
            subprocess.run([self._control, "-d"], env=self._environment, check=False)

    def __exit__(self, *_: object) -> None:
        if self._control:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [self._control], input=b"quit\n", env=self._environment, check=False, timeout=20
                )


def _facts(printed: str) -> dict[str, object]:
    """Return the JSON that a measurement printed last, or the end of what it printed instead."""
    lines = printed.strip().splitlines()
    for line in reversed(lines):
        if line.startswith("{"):
            facts: dict[str, object] = json.loads(line)
            notes = [note for note in lines if note.startswith("graphs=on:")]
            return facts | ({"notes": notes} if notes else {})
    return {"ok": False, "output": lines[-15:]}


def main(arguments: Sequence[str]) -> int:
    """Prepare, or run; returns the exit code. Raises ValueError or OSError for a mistake."""
    command, *rest = arguments or ["-h"]
    given = dict(word.partition("=")[::2] for word in rest)
    if command == "prepare" and given.keys() <= {"runs", "measures"} and "runs" in given:
        measures = given.get("measures")
        prepare(Path(given["runs"]), Path(measures) if measures else None)
        return 0
    if command != "run":
        print(__doc__)
        return 0
    if not (RUNS.is_file() and MEASURES.is_file()):
        raise ValueError("no list of runs in .lease: `prepare` fills it, on your own computer")
    digest = hashlib.sha256(RUNS.read_bytes()).hexdigest()
    defaults = {
        "minutes": "9",
        "device": "cuda",
        "processes": "0",
        "work": str(Path(tempfile.gettempdir(), f"lease-{digest[:8]}")),
        "measures": "on",
        "output": os.environ.get("OUT", "outputs/lease"),
    }
    unknown = given.keys() - defaults.keys()
    if unknown:
        raise ValueError(f"unknown key {min(unknown)!r}: choose from {', '.join(defaults)}")
    machine = Machine({**defaults, **given})
    machine.install()
    try:
        if given.get("measures", "on") == "on":
            machine.measure()
        return min(machine.train(), 1)
    finally:
        machine.pack()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (ValueError, OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
