"""The process of a command line, interrupted or among odd files; and what it refuses before any work."""

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from adanorm.__main__ import print_whatever_comes
from adanorm.cli.command import dispatch, seed_list
from adanorm.config import paths
from adanorm.config.errors import mistake, whole_number
from adanorm.config.paths import install_command
from adanorm.files import write_files

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
    ("arguments", "code", "errors"),
    [
        (
            ["-c", INTERRUPTED_IMPORT],
            130,
            "interrupted: the next start continues from what has been saved\n",
        ),
        (["-m", "adanorm"], 141, ""),
        (
            [
                "-c",
                "import os, runpy; os.close(1); runpy.run_module('adanorm', run_name='__main__')",
            ],
            0,
            "",
        ),
    ],
    ids=["interrupted while modules are loaded", "the reader has gone", "the output is closed"],
)
def test_a_command_that_ends_early_prints_no_traceback(
    arguments: list[str], code: int, errors: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    start = [sys.executable, *arguments]
    done = subprocess.run(
        start, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, errors)


@pytest.mark.parametrize(
    ("encoding", "text", "encoded"),
    [
        ("ascii", "74 ± 2 ü", b"74 ? 2 ?"),
        ("latin-1", "± \u2248", b"\xb1 ?"),
        ("utf-8", "± /tmp/\udcfc", b"\xc2\xb1 /tmp/\xfc"),  # a file's name that is not UTF-8
    ],
)
def test_characters_beyond_an_encoding_do_not_end_a_command(
    encoding: str, text: str, encoded: bytes
) -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding)
    print_whatever_comes(stream)
    stream.write(text)
    stream.flush()
    assert buffer.getvalue() == encoded


def test_a_removed_current_folder_is_named(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    start = ["sh", "-c", 'rmdir "$0" && exec "$1" -m adanorm list', str(gone), sys.executable]
    done = subprocess.run(
        start,
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    message = "error: the current folder has been removed: change to another\n"
    assert (done.returncode, done.stderr) == (2, message)


MODULES = (
    "typing",
    "pathlib",
    "tqdm",
    "yaml",
    "numpy",
    "pandas",
    "IPython",
    "ipywidgets",
    "joblib",
)
PACKAGES = ("json", "torch", "hydra", "omegaconf", "pydantic")
STUDY = "title: t\nrows: [adanorm]\ncolumns: [gaussian]\nscale: smoke\nseeds: [1]\n"


@pytest.mark.parametrize(
    "line",
    [
        "list",
        "study own.yaml workers=2 runs=runs",
        pytest.param(
            "run task=gaussian scale=smoke runs=runs gpus=2 device=cpu", marks=pytest.mark.nightly
        ),
    ],
)
def test_no_command_imports_a_file_of_the_current_folder(line: str, tmp_path: Path) -> None:
    for name in (*MODULES, *(f"{package}/__init__" for package in PACKAGES)):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"open('EXECUTED', 'a').write('{name} ')\n")
    (tmp_path / "own.yaml").write_text(STUDY)
    start = [sys.executable, "-m", "adanorm", *line.split()]
    done = subprocess.run(
        start,
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    executed = tmp_path / "EXECUTED"
    assert not executed.exists(), executed.read_text()


def test_an_empty_entry_of_pythonpath_imports_no_file_of_the_current_folder(tmp_path: Path) -> None:
    """`export PYTHONPATH=$PYTHONPATH:/mine` leaves an empty entry if the variable was empty."""
    for name in ("yaml", "tqdm"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the current folder')\n")
    start = [sys.executable, "-m", "adanorm", "list"]
    environment = {**os.environ, "PYTHONPATH": ":/mine"}
    done = subprocess.run(
        start,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_the_install_command_names_this_python_and_an_existing_folder() -> None:
    for extra in ("suite", "translation", "cluster", "tensorboard"):
        python, *install, requirement = install_command(extra).split()
        assert (python, install) == (sys.executable, ["-m", "pip", "install", "-e"])
        folder, _, name = requirement.strip("'").partition("[")
        assert (Path(folder) / "pyproject.toml").is_file()
        assert f"\n{name.removesuffix(']')} = [" in (Path(folder) / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://someone:secret@host/a@b.git", "https://host/a@b.git"),
        ("https://secret@host:80/a.git", "https://host:80/a.git"),
        ("ssh://git@host/a.git", "ssh://git@host/a.git"),
        ("file:///a@b", "file:///a@b"),
    ],
)
def test_the_install_command_has_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, shown: str
) -> None:
    origin = {"url": url, "vcs_info": {"vcs": "git", "commit_id": "a"}}
    info = {
        "METADATA": b"Name: adanorm\nVersion: 1\n",
        "direct_url.json": json.dumps(origin).encode(),
    }
    write_files(tmp_path / "adanorm-1.dist-info", info)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(paths, "IS_CHECKOUT", False)
    assert (
        install_command("suite", "python")
        == f"python -m pip install 'adanorm[suite] @ git+{shown}'"
    )


def test_numbers_of_keys_have_bounds() -> None:
    for text in ("0", "x", "1.5", "-1", "9" * 21, str(2**31)):
        with pytest.raises(ValueError, match=f"workers={text}: must be"):
            whole_number("workers", text)
    with pytest.raises(ValueError, match="seeds=99999999999: must be at most 2147483647"):
        seed_list("1,99999999999")
    assert whole_number("workers", "7") == 7


REFUSED = [
    ("report runs=/nowhere/x", "runs=/nowhere/x: no such folder"),
    (f"predict temperature=0.{46 * '0'}1", "must be a number from 0.001 to 1000"),
    ("predict temperature=٣", "temperature=٣: must be a number from 0.001 to 1000"),
    ("analyze gradients norm=", "norm=: needs a value"),
    ("study table4 runs=a${seed}", "runs=a${seed}: a folder's name cannot hold ${"),
    ("run -x", "unrecognized arguments: -x; `adanorm run --help` shows what it takes"),
    ("run -m task=mnist seed=1,2 --cfg job", "Only one of --run, --multirun, --cfg, --info and"),
    ("run --cfg", "argument --cfg/-c: expected one argument"),
    (
        "run task=rt scale=small",
        "scale=small: rt has no such scale: choose from mini, open, paper, smoke",
    ),
    (
        "analyze gradients scale=huge",
        "scale='huge': input should be 'paper', 'open', 'small', 'mini' or 'smoke'",
    ),
    ("verify task=mnist norm=adanorm seed=999", "seed=999: on record are 1, 2, 3, 41, 42"),
    ("run task=rt training.lr=1 +training.lr=2", "training.lr is given twice"),
    ("plan task=rt norm=none norm=adanorm", "norm is given twice"),
    ("run task=rt scale=smoke seed=1,2", "seed=1,2 takes one value: `adanorm run -m`"),
    ("analyze invariance task=rt", "task=: invariance trains nothing"),
    ("analyze invariance training.lr=99", "training.lr=99: invariance trains nothing"),
    ("check-norm", "check-norm needs a norm: one of the suite's, or my_norms:MyNorm"),
    ("check-norm norm=adanorm norm.placement=[nowhere.*]", "the norm is checked alone"),
    (
        "compare task=rt norm=layernorm,adanorm model.layers=8",
        "no completed run; `adanorm run` makes it",
    ),
    ("compare task=rt scale=smoke metric=bleu", "the test of rt yields accuracy, loss"),
    (
        "compare task=enwik8 norm=none,adanorm scale=smoke",
        "no completed run; `adanorm run` makes it",
    ),
    ("compare task=rt norm=adanorm", "name two or more norms"),
    ("compare task=rt scale=smoke", "no completed runs"),
    ("compare task=gaussian scale=smoke", "no claim names it"),
    ("compare task=rt norm=adanorm,adanorm", "norm=adanorm,adanorm: adanorm is named twice"),
    ("compare task=rt norm=none,adanorm seed=1,1,1", "seeds=1,1,1: 1 is named twice"),
    (
        "compare task=rt norm=none,adanorm ++norm.name=layernorm",
        "may not change the norm.name of a run",
    ),
    ("status task=rt", "task= needs the name of one study: choose from ablation-c"),
    ("status scale=mini", "scale= needs the name of one study"),
    ("status seeds=1", "seeds= needs the name of one study"),
    ("trace /AdaNorm/RT", "name a cell as STUDY/NORM/TASK"),
    ("trace own.yaml/RT", "name a cell as STUDY/NORM/TASK"),
    ("trace table9/adanorm/rt", "unknown study 'table9'"),
    ("trace table4/none/rt", "no row 'none' in this study: choose from layernorm, adanorm"),
    ("trace table4/adanorm/wsj", "no task 'wsj' in this study"),
    ("predict task=rt", "task=rt predicts no text: choose a translation task, a parser or a"),
    ("predict task=de-en scale=smoke runs=TMP input=/dev/null", "holds no weights.safetensors"),
    (
        "predict task=enwik8 scale=smoke runs=TMP",
        "holds no weights.safetensors: make the run here first",
    ),
    ("predict input=nowhere", "input=nowhere: no such file"),
    ("predict input=TMP", "no such file"),
    ("predict output=TMP", "no file can be written there"),
    ("predict output=TMP/nowhere/out", "no file can be written there"),
    ("analyze nothing", "unknown analysis 'nothing': choose from "),
    (
        "analyze gradients task=chess",
        "unknown task 'chess': choose from cifar10, de-en",
    ),
    ("analyze gradients norms=layernorm,fog", "unknown norm 'fog': choose from adanorm"),
    ("analyze gradients steps=3 every=5", "every=5: nothing is observed in steps=3"),
    ("analyze gradients steps=many", "steps='many'"),
    ("analyze gradients tolerance=-1", "tolerance=-1: must be above 0"),
    ("analyze gradients tolerance=x", "tolerance=x: must be a number"),
    ("analyze gradients tolerance=1_0e-3", "tolerance=1_0e-3: must be a number"),
    ("analyze landscape probes=1_0", "probes=1_0: must be a whole number"),
    ("run task=rt --cfg job training.lr=1_0", "training.lr=1_0: write numbers without _"),
    (
        "analyze gradients task=ptb norms=none,instancenorm",
        "norm instancenorm is not defined in ptb",
    ),
    ("analyze batch-size task=rt", "`adanorm study batch-size` runs the study"),
    ("analyze gradients faint", "'faint': write settings as key=value"),
    ("analyze gradients training.speed=3", "unknown key 'training.speed'"),
    ("analyze gradients seeds=x", "seeds.0='x'"),
    ("analyze gradients norms=layernorm,layernorm", "norms: 'layernorm' is named twice"),
    ("analyze gradients norms=]", "norms=[]]: cannot be read"),
    ("analyze gradients steps=", "steps=: needs a value"),
    ("analyze gradients ++norm=layernorm", "++norm=layernorm: may not change the norm of a run"),
    ("analyze landscape probes=300", "probes=300: more than steps=200"),
    ("analyze landscape probes=1", "probes=1: a range needs two"),
    ("analyze landscape smallest=9 largest=4", "smallest=9: must be below largest=4"),
    ("analyze landscape probes=2.5", "probes=2.5: must be a whole number"),
    ("study table1 seeds=1,b", "seeds=1,b: write whole numbers"),
    ("study table1 scale=huge", "unknown scale 'huge': choose from"),
    ("study table1 launcher=pbs", "unknown launcher 'pbs': choose from local, ray, slurm"),
    ("study table1 launcher.jobs=3", "unknown key 'launcher.jobs': conf/launcher/local.yaml has"),
    ("study table1 launcher.n_jobs=2", "launcher.n_jobs=2: write workers=N"),
    ("study table1 training.lr=1", "training.lr=1: changes the study's runs"),
    ("study table1 loger=wandb", "unknown key 'loger': did you mean logger"),
    ("study table1 ++seed=2", "++seed=2: may not change the seed of a run: the grid sets it"),
    ("study table1 workers=0", "workers=0: must be a whole number of at least 1"),
    ("study", "study needs STUDY: choose from"),
    (
        "study heirs task=rt,enwik8",
        "task=enwik8: not a column of the study: choose from rt, sst5, mnist",
    ),
    ("study heirs task=rt,rt", "task=rt,rt: rt is named twice"),
    ("study tabel4", "or name a .yaml file of your own; did you mean table4?"),
    ("tables table4 nope", "'nope': choose from "),
    ("figures norms-heirs nope", "unknown figure 'nope': choose from answer, "),
    ("trial", "trial needs a norm"),
    ("trial no_module:Norm", "no module named 'no_module' in the current folder"),
    ("trial nonorm", "unknown norm 'nonorm'"),
    ("trial layernorm", "is what a norm is compared with"),
    ("trial rmsnorm sgd", "trial takes one name"),
    ("trial rmsnorm norm=adanorm", "trial takes one norm, not rmsnorm and norm=adanorm"),
    ("trial rmsnorm budget=soon", "write a time above zero"),
    ("trial rmsnorm budget=0min", "write a time above zero"),
    ("trial rmsnorm optimizer=sgd", "unknown optimizer 'sgd'"),
    ("trial rmsnorm training.lr=1", "unknown key 'training.lr': the keys of trial are"),
    ("trial adanorm norm.params.C=1", "is what the trial tries"),
    ("trial rmsnorm norm.params.k=3", "has no such parameter"),
    ("trial rmsnorm beds=none.yaml", "no such file"),
    ("trial norm=rmsnorm bugdet=1h", "did you mean budget"),
    ("arena output=nowhere/arena.md", "no file can be written there"),
]


@pytest.mark.parametrize(("line", "message"), REFUSED)
def test_a_command_refuses_what_it_cannot_do_in_one_line_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = [f"runs={tmp_path}"] if line.startswith(("compare", "analyze")) else []
    with pytest.raises(ValueError, match=re.escape(message)) as refused:
        dispatch([*line.replace("TMP", str(tmp_path)).split(), *folder])
    error_line = mistake(refused.value)
    assert error_line is not None
    assert message in error_line
    assert "\n" not in error_line
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("command", ["merge", "study", "trace"])
def test_an_empty_name_counts_as_missing(command: str) -> None:
    with pytest.raises(ValueError, match=f"^{command} needs "):
        dispatch([command, ""])


def test_file_errors_and_lack_of_memory_are_one_line_and_a_bug_is_not() -> None:
    named = FileNotFoundError(errno.ENOENT, "No such file or directory", "no.zip")
    assert mistake(named) == "no.zip: No such file or directory"
    full = OSError(errno.ENOSPC, "No space left on device")  # of a stream, which has no name
    assert mistake(full) == "a stream or file: No space left on device"
    for lack in (lambda: torch.empty(1 << 50), lambda: np.empty(1 << 58)):
        with pytest.raises((RuntimeError, MemoryError)) as lacking:
            lack()
        line = mistake(lacking.value)
        assert line is not None
        assert line.startswith("out of memory: ")
        assert "\n" not in line
    for words in (
        "CUDA error: out of memory\nCUDA kernel",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when",
    ):
        assert str(mistake(RuntimeError(words))).startswith("out of memory: CUDA error: ")
    assert mistake(RuntimeError("a bug")) is None


def test_check_norm_says_where_a_norm_is_not_defined_and_why(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert dispatch(["check-norm", "batchnorm"]) == 0
    printed = capsys.readouterr().out
    assert "not defined in de-en, en-de, en-vi: its sites do not say" in printed
    assert max(map(len, printed.splitlines()[-2:])) <= 80
