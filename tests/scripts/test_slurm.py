"""Scripts in bash: those for SLURM, with a program that prints for srun, and regenerate."""

import os
import subprocess
from pathlib import Path

import pytest

from adanorm.config.paths import PROJECT

FILES = ("run", "study")
JOB = {
    "SLURM_JOB_ID": "71234",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_GPUS_ON_NODE": "4",
    "SLURM_JOB_NODELIST": "node[07-08]",
    "SLURM_RESTART_COUNT": "1",
}


def submitted(
    name: str, folder: Path, *arguments: str, srun: str
) -> subprocess.CompletedProcess[str]:
    """Run a file as a job of two nodes; programs in this folder stand in for SLURM's."""
    for program, text in (
        ("srun", srun),
        (
            "scontrol",
            'if [[ $1 == show ]]; then printf "node07\\nnode08\\n"; else echo "$@" >requeued; fi',
        ),
    ):
        (folder / program).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / program).chmod(0o755)
    return subprocess.run(
        ["bash", str(PROJECT / "scripts" / "slurm" / f"{name}.sbatch"), *arguments],
        env={**os.environ, **JOB, "SLURM_SUBMIT_DIR": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_job_says_how_to_submit_it_and_can_be_requeued(name: str) -> None:
    head, _, settings = (
        (PROJECT / "scripts" / "slurm" / f"{name}.sbatch").read_text().partition("#SBATCH")
    )
    assert f"scripts/slurm/{name}.sbatch" in head
    assert "\n#SBATCH --requeue\n" in settings


@pytest.mark.parametrize("name", FILES)
def test_a_job_without_arguments_is_refused_and_a_failed_one_has_its_code(
    name: str, tmp_path: Path
) -> None:
    refused = submitted(name, tmp_path, srun="true")
    assert (refused.returncode, refused.stderr[:13]) == (2, "error: name a")
    assert (
        submitted(
            name,
            tmp_path,
            "table4",
            srun="exit 3",
        ).returncode
        == 3
    )


def test_the_processes_of_all_nodes_meet_at_the_first_node(tmp_path: Path) -> None:
    words = submitted(
        "run", tmp_path, "task=rt", "norm=adanorm", srun='printf "%s\\n" "$@"'
    ).stdout.split()
    assert {"--nnodes=2", "--nproc-per-node=4", "--rdzv-backend=c10d"} < {*words}
    assert "--rdzv-endpoint=node07:31234" in words
    assert "--rdzv-id=71234-1" in words
    assert words[-5:] == ["-m", "adanorm", "run", "task=rt", "norm=adanorm"]


# The job works on until it is requeued, and requeuing must not wait for its end.
WARNED = """kill -USR1 "$PPID"
for _ in {1..200}; do [[ -e requeued ]] && exit 0; sleep 0.1; done
touch too-late"""


@pytest.mark.parametrize("name", FILES)
def test_a_job_near_its_time_limit_goes_back_into_the_queue(name: str, tmp_path: Path) -> None:
    done = submitted(name, tmp_path, "table4", srun=WARNED)
    assert done.returncode == 0
    assert (tmp_path / "requeued").read_text() == "requeue 71234\n"
    assert not (tmp_path / "too-late").exists()


def test_regenerate_is_bash_with_a_help_and_refuses_an_argument_before_any_work() -> None:
    script = PROJECT / "scripts" / "regenerate"
    subprocess.run(["bash", "-n", script], check=True)
    helped, refused = (
        subprocess.run(
            [script, word],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        for word in ("--help", "tables")
    )
    assert (helped.returncode, refused.returncode) == (0, 2)
    assert helped.stdout.startswith("Write every table, figure and page from the records")
    assert refused.stderr == "error: scripts/regenerate takes no argument, not 'tables'\n"
