"""The notebook for a borrowed GPU, executed as its user would."""

import re
import signal
from pathlib import Path

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.paths import PROJECT
from adanorm.records.contribution import read_contribution
from adanorm.records.environment import commit
from tests.faults import command as faults


def executed(path: Path) -> str:
    """Return what the cells of a notebook print, executed in its folder from the first to the last."""
    nbformat = pytest.importorskip("nbformat", reason="no nbformat here, which reads notebooks")
    nbclient = pytest.importorskip("nbclient", reason="no nbclient here, which executes them")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(
        notebook, timeout=250, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    return "".join(output["text"] for cell in notebook.cells for output in cell.get("outputs", ()))


@pytest.mark.timeout(600)  # a dozen processes that import torch
@pytest.mark.skipif(
    commit() is None, reason="a notebook clones a commit, and here is no git checkout"
)
def test_a_notebook_resumes_an_interrupted_run_and_writes_one_file_to_send(tmp_path: Path) -> None:
    path, run = tmp_path / "a.ipynb", ["task=gaussian", "norm=adanorm"]
    runs = f"runs={tmp_path}/adanorm-gaussian-adanorm"
    killed = ["run", *run, "scale=smoke", f"{runs}-smoke"]
    ended = faults.run(killed, tmp_path, kill_before=["rename checkpoint.pt", 2])
    assert ended.code == -signal.SIGKILL, "after one of its two epochs"
    make = ["notebook", *run, f"repo={PROJECT}", f"output={path}"]
    assert dispatch([*make, "scale=smoke", "seeds=1,2"]) == 0
    printed = executed(path)
    assert re.findall(r"^ +([12]) +(?:8|16) ", printed, re.MULTILINE) == ["2", "1", "2"]
    assert "nothing to send" in printed
    assert dispatch(["run", *run, "scale=mini", f"{runs}-mini"]) == 0
    assert dispatch([*make, "scale=mini"]) == 0
    assert "already completed" in executed(path)
    assert len(read_contribution(tmp_path / "adanorm-gaussian-adanorm-mini.jsonl.gz")[1]) == 1
