"""The front door, as a person uses it: real processes, real files."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from adanorm.cli.command import COMMANDS, dispatch
from adanorm.config.compose import compose_experiment
from adanorm.config.data_sections import SPLITS
from adanorm.config.paths import choices
from adanorm.records import reader
from adanorm.records.lines import RECORD
from adanorm.runs.execute import execute
from adanorm.training.distributed import LOST
from tests import commands
from tests.conftest import Command
from tests.data.sections import write_splits
from tests.defined import corners
from tests.faults import command as faults
from tests.faults.command import WRITES, Ended
from tests.reporting.records import contents_of, files_in, put
from tests.studies.test_launch import wait_until
from tests.verdicts import not_none


def only_folder(runs: Path) -> Path:
    (lock,) = runs.glob("*/*/*/run.lock")
    return lock.parent


def rows(folder: Path) -> list[dict[str, Any]]:
    evaluations = reader.record(folder).rows()
    return [{key: value for key, value in row.items() if key != "seconds"} for row in evaluations]


def result_of(folder: Path) -> dict[str, Any]:
    return not_none(reader.record(folder).values)


def test_a_run_leaves_its_record_and_is_not_made_twice(tmp_path: Path, command: Command) -> None:
    arguments = ("task=mnist", "norm=adanorm", "scale=smoke", f"runs={tmp_path}")
    first = command("run", *arguments)
    assert first.returncode == 0, first.stderr
    folder = only_folder(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"run.lock", RECORD, "weights.safetensors"}
    assert contents_of(folder).keys() - {"changes.patch"} == {
        "config.yaml", "environment.json", "metrics.jsonl", "predictions.txt.gz",
        "test_counts.json", "test_metrics.jsonl",
    }  # fmt: skip
    result = result_of(folder)
    assert list(result)[:6] == ["schema", "status", "task", "norm", "scale", "seed"]
    assert result["status"] == "done"
    assert result["norm_sites"] == ["norms.0", "norms.1"]
    assert result["norm_parameters"] == 0
    assert len(reader.record(folder).outputs()) == 128
    assert f"test accuracy {result['test']['accuracy']:.2f}" in first.stdout
    assert "not compared with the paper's number: smoke scale" in first.stdout
    assert "data: synthetic, not the paper's" in first.stdout
    before = (folder / RECORD).stat().st_mtime_ns
    second = command("run", *arguments)
    assert second.stdout.startswith("already completed")
    assert (folder / RECORD).stat().st_mtime_ns == before


@pytest.mark.needs("numba")
@pytest.mark.parametrize("task", ["mnist", "rt"])
def test_the_backend_of_the_norms_changes_a_curve_by_rounding_alone(
    tmp_path: Path, task: str
) -> None:
    curves, backends = [], []
    for backend in ("eager", "fused"):
        chosen = (f"task={task}", "norm=adanorm", "scale=smoke", f"norm.backend={backend}")
        run = compose_experiment([*chosen, f"runs={tmp_path / backend}"])
        execute(run)
        curves.append([row["train_loss"] for row in rows(run.folder())])
        backends.append(reader.record(run.folder()).environment["norm_backend"])
    assert curves[1] == pytest.approx(curves[0], rel=1e-4)
    assert backends[0] == "eager: as asked"
    assert backends[1].startswith("fused: numba")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("training.lrr=1", "unknown key 'training.lrr': did you mean training.lr"),
        ("norm=", "norm=: names no norm; choose from adanorm"),
        ("norm=adanorm ~norm", "~norm: names no norm; choose from adanorm"),
        (
            "task=rt data.path=x",
            "unknown key 'data.path': did you mean data.cache, data.test, data.valid",
        ),
        ("norm.placement=first", "placement 'first': choose all, final"),
        ("norm=adanorm norm.params.k=1.5", "k=1.5: must be at least 0 and below 1"),
        (
            "norm=adanorm norm.placement=[x.*]",
            "'x.*' matches no site: the sites are norms.0, norms.1",
        ),
        ("data.path=nowhere", "data.path=nowhere: there is neither train-images-idx3-ubyte.gz"),
        ("data.source=cifar", "data.source='cifar': images come from mnist"),
        # in any run of a sweep
        ("-m task=rt seed=1,abc", "seed='abc': input should be a valid integer"),
        ("-m task=rt seed=9 training.lr=0.1,-1", "training.lr=-1: input should be greater than 0"),
        ("-m task=rt seed=1,1", "a run that the sweep has twice"),
        ("-m task=rt norm=groupnorm norm.params.groups=2,0", "norm groupnorm: "),
        (
            "-m norm=tests.broken_norm:Leaves,layernorm",
            "sweep norms of the suite and norms of your own",
        ),
        ("-m norm=tests.broken_norm:Leaves,tests.broken_norm:Gone", "has no attribute 'Gone'"),
    ],
)
def test_a_mistake_is_one_line_with_code_2_and_leaves_nothing(
    tmp_path: Path, command: Command, line: str, message: str
) -> None:
    done = command(
        "run",
        *line.split(),
        "scale=smoke",
        f"runs={tmp_path / 'runs'}",
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stdout.count("\n") <= 1, "a line before the imports"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("run task=rt scale=smoke runs=TMP", 2, "error: norm Leaves: SystemExit"),
        ("trial runs=TMP", 1, "0 of 12 checks hold; no trial"),
    ],
)
def test_a_norm_that_calls_sys_exit_is_no_success(
    tmp_path: Path, command: Command, line: str, code: int, message: str
) -> None:
    done = command(*line.replace("TMP", str(tmp_path)).split(), "norm=tests.broken_norm:Leaves")
    assert done.returncode == code, done.stdout
    assert message in done.stdout + done.stderr


def test_a_sweep_makes_every_run_and_ends_with_a_table_of_their_differences(
    tmp_path: Path, command: Command
) -> None:
    done = command(
        "run", "task=gaussian", "-m", "norm=adanorm", "norm.params.k=0,0.3", "seed=1,2", "scale=smoke",
        f"runs={tmp_path / 'runs'}", f"hydra.sweep.dir={tmp_path / 'sweep'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "runs").glob("gaussian/adanorm/smoke-seed*/record.jsonl"))) == 4
    names = [f"norm.params.k={k} seed={seed}" for k in ("0", "0.3") for seed in (1, 2)]
    *_, blank, first, second, third, fourth = done.stdout.splitlines()
    assert blank == ""
    for name, line in zip(names, (first, second, third, fourth), strict=True):
        assert line.startswith(f"{name:<24}  test loss ")
        assert f"\n{name}\n" in done.stdout


def test_a_record_has_the_first_of_the_best_updates_and_a_late_process_does_not_make_it_again(
    tmp_path: Path,
) -> None:
    settings = ("training.lr=0.003", "training.max_epochs=7")
    run = compose_experiment(["task=rt", "norm=none", "scale=smoke", f"runs={tmp_path}", *settings])
    execute(run)
    result, curve = result_of(run.folder()), rows(run.folder())
    best = max(curve, key=lambda row: row["valid_accuracy"])
    assert result["best_step"] == best["update"] < result["steps"] == curve[-1]["update"]
    assert result["valid"]["accuracy"] == best["valid_accuracy"]
    times = {
        path: path.stat().st_mtime_ns for path in run.folder().iterdir() if path.name != "run.lock"
    }
    execute(run)  # as a process does that looked for the result before it was written
    assert {path: path.stat().st_mtime_ns for path in times} == times


def test_a_full_disk_is_one_line_and_the_run_goes_on_later_to_the_same_bits(
    tmp_path: Path, command: Command
) -> None:
    often = ["task=mnist", "norm=adanorm", "scale=smoke", "checkpoint_minutes=1e-9"]
    whole = compose_experiment([*often, f"runs={tmp_path / 'whole'}"])
    execute(whole)
    # As soon as there are best weights, a checkpoint no longer fits.
    arguments = [*often, f"runs={tmp_path / 'full'}"]
    full = faults.run(["run", *arguments], tmp_path, largest_file=45 << 10)
    folder = only_folder(tmp_path / "full")
    assert full.stderr == f"error: {folder / 'checkpoint.pt'}: File too large\n"
    assert full.code == 2
    names_left = {path.name for path in folder.iterdir()}
    assert "checkpoint-before.pt" in names_left
    assert not {"checkpoint.pt", "checkpoint.pt.tmp", RECORD} & names_left
    assert command("run", *arguments).returncode == 0
    assert rows(folder) == rows(whole.folder())
    assert reader.record(folder).outputs() == reader.record(whole.folder()).outputs()
    name = "weights.safetensors"
    assert (folder / name).read_bytes() == (whole.folder() / name).read_bytes()


def run_to_be_killed(folder: Path, task: str, moment: str = "", times: int = 1) -> Ended:
    """Make a run of a few updates, each with a checkpoint; kill it just before its n-th write of a kind."""
    length = {"mnist": ["training.max_epochs=4"], "enwik8": ["training.max_updates=20"]}
    settings = [
        f"task={task}",
        "norm=layernorm",
        "scale=smoke",
        "checkpoint_minutes=1e-9",
        f"runs={folder}",
    ]
    run = ["run", *settings, *length.get(task, [])]
    return faults.run(run, folder, kill_before=[moment, times])


# One task is killed at moments of every kind; the others within training, between epochs and at the
# end.
SAMPLE = ("rename checkpoint.pt", "open metrics.jsonl", "rename record.jsonl")


@pytest.mark.parametrize(
    "task",
    [
        "mnist",
        "de-en",
        *(pytest.param(task, marks=pytest.mark.nightly) for task in ("enwik8", "ptb")),
    ],
)
def test_a_run_killed_at_any_moment_continues_at_the_next_start(tmp_path: Path, task: str) -> None:
    whole, broken = folders = tmp_path / "whole", tmp_path / "broken"
    assert run_to_be_killed(whole, task).code == 0
    moments = Counter((whole / WRITES).read_text().splitlines())
    before_the_end = list(moments)[: list(moments).index("rename record.jsonl") + 1]
    assert {*SAMPLE} < {*before_the_end}
    for moment in before_the_end if task == "mnist" else SAMPLE:
        killed = run_to_be_killed(
            broken,
            task,
            moment,
            5 if moments[moment] > 10 else 1,
        )
        assert killed.code == -signal.SIGKILL, f"{moment}: {killed.stderr}"
        assert not list(broken.glob("*/*/*/record.jsonl"))
        for folder in broken.glob("*/*/*"):
            (folder / "checkpoint.pt.tmp").write_bytes(
                b"what a kill within a checkpoint's writing leaves"
            )
    ended = run_to_be_killed(broken, task)
    assert ended.code == 0, ended.stderr
    records = []
    for folder in map(only_folder, folders):
        result = result_of(folder)
        # All is compared except what contains seconds.
        del (
            result["seconds"],
            result["cpu_seconds"],
            result["checksum"],
            result["files"]["metrics.jsonl"],
        )
        outputs = contents_of(folder).get("predictions.txt.gz")
        records.append((rows(folder), result, outputs))
    assert records[0] == records[1]
    assert (outputs is None) == task.startswith("enwik8")


def two(*arguments: str, errors: Path, **settings: Any) -> list[commands.Process]:
    """Start two processes of a run, as torchrun would, and return them; the first writes the record."""
    with socket.create_server(("localhost", 0)) as free:
        address = {
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(free.getsockname()[1]),
            "WORLD_SIZE": "2",
        }
    environments = [
        {**os.environ, **address, "RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")
    ]
    with errors.open("w") as file:
        return [
            commands.start(
                *arguments,
                environment=environment,
                errors=file,
                **settings,
            )
            for environment in environments
        ]


@pytest.mark.usefixtures("_quick_start")
@pytest.mark.parametrize(  # training/test_distributed.py tests the updates of every task
    ("task", "norm"),
    [
        ("mnist", "adanorm"),
        ("rt", "batchnorm"),
        *(
            pytest.param(*names, marks=pytest.mark.nightly)
            for names in (("de-en", "adanorm"), ("enwik8-gru", "adanorm"), ("ptb", "powernorm"))
        ),
    ],
)
def test_two_processes_train_as_one(tmp_path: Path, command: Command, task: str, norm: str) -> None:
    """Each process takes half of every batch: the order and, to rounding, the losses of one."""
    arguments = [f"task={task}", f"norm={norm}", "scale=smoke", "training.max_epochs=3"]
    # With batches of 30 images the last one has 16; translation has no dropout at smoke scale.
    # A process takes accumulated batches whole, except an odd last one and where memory is carried.
    arguments += {
        "rt": ["model.dropout=0"],
        "ptb": ["model.dropout=0"],
        "mnist": ["data.batch_size=30"],
        "de-en": ["training.accumulate=2", "data.batch_tokens=192"],
        "enwik8-gru": ["training.max_updates=12", "training.evaluate_every=4"],
    }.get(task, [])
    done = command("run", *arguments, f"runs={tmp_path / 'one'}")
    assert done.returncode == 0, done.stderr
    arguments.append(f"runs={tmp_path / 'two'}")
    if task == "mnist":
        torchrun = (
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            "-m",
            "adanorm",
            "run",
        )
        done = commands.run(*torchrun, *arguments, "device=cpu")
        assert done.returncode == 0, done.stderr
    else:
        both = two(
            "adanorm",
            "run",
            *arguments,
            errors=tmp_path / "errors",
        )
        assert [process.wait(200) for process in both] == [0, 0], (tmp_path / "errors").read_text()
    first, second = (rows(only_folder(tmp_path / name)) for name in ("one", "two"))
    assert len(first) == 3
    for row, row_of_two in zip(first, second, strict=True):
        assert row_of_two == pytest.approx(row, rel=5e-4)
    assert reader.record(only_folder(tmp_path / "two")).environment["processes"] == 2


NOISY = """
import torch
from torch import nn

class Noisy(nn.LayerNorm):
    def forward(self, x):
        z = super().forward(x)
        return z + torch.randn_like(x) if self.training else z
"""


@pytest.mark.parametrize(
    ("norm", "reason"),
    [
        (
            "batchnorm-noisy",
            "NoisyBatchNorm is over the batch, and not over several processes' shares of it",
        ),
        ("noisy_norm:Noisy", "norm Noisy: draws noise, which would be another with several"),
    ],
)
def test_two_processes_refuse_a_norm_that_they_would_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, norm: str, reason: str
) -> None:
    (tmp_path / "noisy_norm.py").write_text(NOISY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = ("adanorm", "run", "task=mnist", f"norm={norm}", "scale=smoke", f"runs={tmp_path}")
    both = two(*run, errors=tmp_path / "errors")
    assert all(process.wait(200) for process in both)
    errors = (tmp_path / "errors").read_text()
    assert reason in errors
    assert "Traceback" not in errors
    assert not [*tmp_path.rglob("*.json*")]


def test_a_lost_process_ends_the_others_with_one_line_and_the_next_start_resumes(
    tmp_path: Path,
) -> None:
    settings = ("task=gaussian", "norm=adanorm", "scale=smoke", "training.max_epochs=2000")
    arguments = ("adanorm", "run", *settings, f"runs={tmp_path}")
    folder, errors = compose_experiment(arguments[2:]).folder(), tmp_path / "errors"
    main, second = two(*arguments, errors=errors)
    wait_until(lambda: main.poll() is not None or (folder / "checkpoint.pt").exists())
    second.kill()
    assert main.wait(60) == 2
    assert errors.read_text() == f"error: {LOST}\n"
    assert not (folder / RECORD).exists()
    done = torch.load(folder / "checkpoint.pt", weights_only=True)["state"]["epoch"]
    log, epochs = tmp_path / "log", list[str]()
    with log.open("w") as output:
        both = two(*arguments, output=output, errors=errors)
    while len(epochs) < 3:  # the last line may be incomplete
        assert [process.poll() for process in both] == [None, None], errors.read_text()
        time.sleep(0.02)
        epochs = re.findall(r"^ +(\d+) +\d+ ", log.read_text(), re.MULTILINE)
    for process in both:
        process.kill()
    assert [int(epoch) for epoch in epochs[:2]] == [done + 1, done + 2]


WAITS = """
from pathlib import Path
from threading import Event

import torch

from adanorm.training.distributed import init_distributed

with init_distributed(torch.device("cpu")) as world:
    Path(f"{world.rank}.joined").touch()
    Event().wait()
"""


def test_a_process_that_waits_without_communication_ends_after_another_was_lost(
    tmp_path: Path,
) -> None:
    (tmp_path / "waits.py").write_text(WAITS, encoding="utf-8")
    main, second = two("waits", cwd=tmp_path, errors=tmp_path / "errors")
    wait_until(lambda: len([*tmp_path.glob("*.joined")]) == 2)
    main.kill()
    assert second.wait(60) == 2
    assert (tmp_path / "errors").read_text() == f"error: {LOST}\n"


# gloo stands in for NCCL; like NCCL, it is slow to leave a group whose other processes stay.
BREAKS = """
import atexit
from time import sleep

import torch
from torch import distributed

from adanorm.training.distributed import all_reduce, init_distributed

join = distributed.init_process_group
distributed.init_process_group = lambda _, **settings: join("gloo", **settings)
distributed.destroy_process_group = lambda: sleep(300)
atexit.register(sleep, 300)

with init_distributed(torch.device("cuda")) as world:
    if world.rank == 1:
        raise ValueError("broken here")
    all_reduce(torch.ones(1), world)
"""


def test_a_process_that_breaks_says_why_and_ends_without_waiting_for_the_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "breaks.py").write_text(BREAKS, encoding="utf-8")
    both = two("breaks", cwd=tmp_path, errors=tmp_path / "errors")
    assert all(process.wait(60) for process in both)
    assert "ValueError: broken here" in (tmp_path / "errors").read_text()


HOW = {
    "tensorboard": "look at it with: tensorboard --logdir",
    "wandb": "upload it with: wandb sync",
}


@pytest.mark.parametrize("logger", ["tensorboard", "wandb"])
def test_loggers_need_no_account_and_also_log_a_finished_run(
    tmp_path: Path, command: Command, logger: str
) -> None:
    runs, sent = tmp_path / "runs", tmp_path / "sent"
    done = command(
        "run", "task=mnist", "norm=none", "scale=smoke", f"logger={logger}", f"runs={runs}"
    )
    again = ("log", str(only_folder(runs)), f"logger={logger}", f"output={sent}")
    for ended, folder in (
        (done, only_folder(runs)),
        (command(*again), sent.joinpath("mnist", "none")),
    ):
        assert ended.returncode == 0, ended.stderr
        ((where, how),) = re.findall(rf"^{logger}.*: (.*)\n  (.*)$", ended.stdout, re.MULTILINE)
        assert (Path(where).is_relative_to(folder), how) == (True, f"{HOW[logger]} {where}")
        files = [path for path in folder.rglob("*") if path.is_file() and logger in path.parts]
        content = b"".join(path.read_bytes() for path in files)
        for word in (b"test_accuracy", b"valid_accuracy", b"warmup_updates"):
            assert word in content, "test scores, curves and the configuration"
    assert "already exists" in command(*again).stderr


@pytest.mark.parametrize("logger", ["tensorboard", "wandb"])
def test_the_folder_of_a_logger_is_not_taken_for_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logger: str
) -> None:
    (tmp_path / logger).mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == logger]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    run = compose_experiment(
        ["task=mnist", "scale=smoke", f"logger={logger}", f"runs={tmp_path / 'runs'}"]
    )
    with pytest.raises(ValueError, match=f"logger={logger}: the package {logger} is not installed"):
        execute(run)
    assert not (tmp_path / "runs").exists()


def test_a_run_of_few_updates_warns_and_names_the_setting_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["scale=smoke", f"runs={tmp_path}", "training.warmup_updates=8"]
    run = compose_experiment(["task=gaussian", *few, "training.max_updates=8"])
    execute(run)
    remedy = "type training.max_updates=32, or training.warmup_updates=0"
    line = (
        f"training.warmup_updates=8: 8 updates, 8 of them warm-up, are few to learn from; {remedy}"
    )
    assert result_of(run.folder())["warnings"] == [line]
    assert f"warning: {line}\n" in capsys.readouterr().err
    texts = {split: f"a\t{split} one two\nb\t{split} three four\n" * 4 for split in SPLITS}
    files = write_splits(tmp_path, texts)
    half = ["training.max_epochs=10", "model.dim=8", "data.train_fraction=0.5"]
    execute(compose_experiment(["task=rt", *few, *files, *half]))
    assert (
        "data.train_fraction=0.5 trains on no more, data.train_fraction=1 on all"
        in capsys.readouterr().out
    )
    execute(compose_experiment(["task=rt", *few, *files, "training.max_epochs=10", "model.dim=8"]))
    printed = capsys.readouterr()
    assert "trains on no more" not in printed.out
    assert "own data: 8 / 8 / 8 examples" in printed.out
    assert "1 update per epoch, 10 in all, 8 of them warm-up" in printed.out
    remedy = "type training.max_epochs=32 (32 updates), or training.warmup_updates=1"
    assert f"10 updates, 8 of them warm-up, are few to learn from; {remedy}" in printed.err


def test_a_run_that_diverges_is_a_result(tmp_path: Path, command: Command) -> None:
    done = command(
        "run", "task=mnist", "norm=none", "scale=smoke", "training.lr=1e30", f"runs={tmp_path}"
    )
    assert done.returncode == 0, done.stderr
    text = reader.record(only_folder(tmp_path)).text("result.json")
    assert '"status": "diverged"' in text
    assert '"test": null' in text
    assert "NaN" not in text
    assert "Diverge (1/1)" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_its_help_in_a_process_that_imported_only_libraries(name: str) -> None:
    done = commands.run(
        "adanorm",
        name,
        "--help",
        imported="libraries",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: adanorm {name}")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_commands_import_torch_only_when_they_use_it() -> None:
    code = "import sys; from adanorm.cli import list, run, study; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_task_norm_and_scale_makes_a_run_of_its_own() -> None:
    lines = [(task, norm, "smoke") for task, norm in corners()]
    of_tasks = [(task, scale) for task in choices("task") for scale in choices("scale")]
    has = [of for of in of_tasks if of[1] == "paper" or "_".join(of) in choices("task_scale")]
    lines += [(task, "adanorm", scale) for task, scale in has]
    runs = {
        of: compose_experiment([f"task={of[0]}", f"norm={of[1]}", f"scale={of[2]}"]) for of in lines
    }
    assert len({run.digest for run in runs.values()}) == len(runs)
    assert all((run.task.name, run.norm.name, run.scale) == line for line, run in runs.items())


RUN = ("task=gaussian", "norm=adanorm", "scale=smoke")


def test_verify_says_before_it_runs_that_other_numerics_agree_statistically_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"runs={tmp_path / 'records'}", f"into={tmp_path / 'repeated'}"]
    dispatch(["run", *RUN, folders[0]])
    folder = compose_experiment([*RUN, folders[0]]).folder()
    environment = json.loads(contents_of(folder)["environment.json"])
    code_here = environment["code"]
    environment |= {"numerics_version": 1, "code": 64 * "0"}
    put(folder, "environment.json", json.dumps(environment).encode())
    capsys.readouterr()
    dispatch(["verify", *RUN, *folders])
    lines = capsys.readouterr().out.splitlines()
    first, rest = " ".join(" ".join(lines[:2]).split()), " ".join(" ".join(lines[2:]).split())
    assert first.startswith("numerics version 1 on record, ")
    assert "only statistical agreement is possible" in first
    assert f"digest of the code: {12 * '0'} on record, {code_here[:12]} here" in rest


def test_verify_reproduces_a_run_of_this_machine_to_the_bit_and_never_over_its_record(
    tmp_path: Path, command: Command
) -> None:
    records, into = tmp_path / "records", tmp_path / "repeated"
    verify = ("verify", *RUN, f"++runs={records}")
    lacking = command(*verify, f"into={into}")
    assert (lacking.returncode, lacking.stderr.count("\n")) == (2, 1)
    assert "no record of gaussian adanorm at scale smoke" in lacking.stderr
    assert not into.exists()
    for seed in (2, 3):
        assert (
            command(
                "run",
                *RUN,
                f"seed={seed}",
                f"runs={records}",
            ).returncode
            == 0
        )
    before = files_in(records)
    for seed, named in (
        (2, ()),
        (3, ("++seed=3",)),
    ):  # the first seed on record, or the one that is named
        done = command(*verify, *named, f"into={into}")
        assert done.returncode == 0, done.stderr
        assert f"gaussian adanorm smoke, seed {seed}: test" in done.stdout
        assert "reproduced to the bit\ncomputed alike\n" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80
    onto = command(*verify, f"into={records}")
    assert (onto.returncode, onto.stderr.count("\n")) == (2, 1)
    assert "is where the record is" in onto.stderr
    assert files_in(records) == before
