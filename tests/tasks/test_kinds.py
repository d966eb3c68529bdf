"""Kinds of task are imported when a run chooses them."""

from pathlib import Path

from tests import commands

OTHER_KINDS = ("translation", "char_lm", "parsing", "regression")
OTHER_ROOMS = ("adanorm.data.translation", "adanorm.data.treebanks", "adanorm.data.byte_streams")
RUN = """
import sys
from adanorm.cli.command import dispatch
dispatch(["run", "task=mnist", "scale=smoke", "norm=none", "runs=runs", "device=cpu"])
print("loaded", *sys.modules)
"""


def test_a_run_of_mnist_loads_no_other_kind_of_task(tmp_path: Path) -> None:
    (tmp_path / "run_of_mnist.py").write_text(RUN)
    done = commands.run("run_of_mnist", cwd=tmp_path, imported="libraries")
    assert done.returncode == 0, done.stderr
    _, _, modules = done.stdout.rpartition("loaded ")
    loaded = {*modules.split()}
    assert "adanorm.tasks.classification" in loaded
    assert not loaded & {f"adanorm.tasks.{kind}" for kind in OTHER_KINDS}
    assert not [name for name in loaded if name.startswith((*OTHER_ROOMS, "fairseq"))]
