"""The process of the command line: interrupted early, without characters, among files named as packages."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adanorm.__main__ import print_whatever_comes
from adanorm.config.paths import install_command

INTERRUPTED_IMPORT = """
import os, runpy, signal, sys

def interrupt(event, arguments):
    if event == "import" and arguments[0] == "adanorm.cli.command":
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # as on a terminal
sys.addaudithook(interrupt)
runpy.run_module("adanorm", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-c", INTERRUPTED_IMPORT], 130, "interrupted: the next start resumes from the last checkpoint\n"),
        (["-m", "adanorm"], 141, ""),
        (["-c", "import os, runpy; os.close(1); runpy.run_module('adanorm', run_name='__main__')"], 0, ""),
    ],
    ids=["interrupted while modules are loaded", "the reader has gone", "the output is closed"],
)
def test_what_ends_a_command_early_is_no_traceback(arguments: list[str], code: int, said: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    start = [sys.executable, *arguments]
    done = subprocess.run(start, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    ("encoding", "text", "written"),
    [
        ("ascii", "74 ± 2 ü", b"74 ? 2 ?"),
        ("latin-1", "± \u2248", b"\xb1 ?"),
        ("utf-8", "± /tmp/\udcfc", b"\xc2\xb1 /tmp/\xfc"),  # a file's name that is not UTF-8
    ],
)
def test_what_a_stream_cannot_encode_does_not_end_a_command(encoding: str, text: str, written: bytes) -> None:
    taken = io.BytesIO()
    stream = io.TextIOWrapper(taken, encoding=encoding)
    print_whatever_comes(stream)
    stream.write(text)
    stream.flush()
    assert taken.getvalue() == written


PACKAGES = ("typing", "pathlib", "tqdm", "yaml", "numpy", "torch", "hydra", "pydantic", "pandas", "IPython")
STUDY = "title: t\nrows: [adanorm, layernorm]\ncolumns: [gaussian]\nscale: smoke\nseeds: [1]\n"


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "status table4",
        "run task=gaussian norm=adanorm scale=smoke runs=runs",
        "study own.yaml workers=2 runs=runs",
        "run task=gaussian scale=smoke runs=runs gpus=2 device=cpu",
    ],
)
def test_a_file_of_the_current_folder_is_imported_by_no_command(line: str, tmp_path: Path) -> None:
    for package in (*PACKAGES, "ipywidgets", "joblib"):
        (tmp_path / f"{package}.py").write_text(f"open('EXECUTED', 'a').write('{package} ')\n")
    (tmp_path / "own.yaml").write_text(STUDY)
    start = [sys.executable, "-m", "adanorm", *line.split()]
    done = subprocess.run(start, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    executed = tmp_path / "EXECUTED"
    assert not executed.exists(), executed.read_text()


def test_what_installs_the_suite_is_a_command_of_this_python_and_a_folder_that_is_there() -> None:
    for extra in ("suite", "cluster"):
        python, *install, requirement = install_command(extra).split()
        assert (python, install) == (sys.executable, ["-m", "pip", "install"])
        folder, _, name = requirement.strip("'").partition("[")
        assert (Path(folder) / "pyproject.toml").is_file()
        assert f"\n{name.removesuffix(']')} = [" in (Path(folder) / "pyproject.toml").read_text()
