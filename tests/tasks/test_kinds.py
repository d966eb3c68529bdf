"""Kinds of task are imported when a run chooses them."""

import subprocess
import sys
from pathlib import Path

OTHER_KINDS = ("translation", "char_lm", "parsing", "regression")
OTHER_ROOMS = ("adanorm.data.translation", "adanorm.data.treebanks", "adanorm.data.byte_streams")
RUN = """
import sys
from adanorm.cli.command import dispatch
dispatch(["run", "task=mnist", "scale=smoke", "norm=none", "runs=runs", "device=cpu"])
print("loaded", *sys.modules)
"""


def test_a_run_of_mnist_loads_no_other_kind_of_task(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    _, _, modules = done.stdout.rpartition("loaded ")
    loaded = {*modules.split()}
    assert "adanorm.tasks.classification" in loaded
    assert not loaded & {f"adanorm.tasks.{kind}" for kind in OTHER_KINDS}
    assert not [name for name in loaded if name.startswith((*OTHER_ROOMS, "fairseq"))]
