"""The notebook for a borrowed GPU, executed as whoever opens it would."""

from pathlib import Path

import pytest

from adanorm.cli.command import dispatch
from adanorm.config.paths import PROJECT
from adanorm.records.environment import commit

REFUSED = [
    ("task=rt norm=nowhere", "unknown norm 'nowhere': choose from"),
    ("task=de-en norm=batchnorm", "norm batchnorm is not defined in de-en"),
    ("task=rt seeds=1,1", "seeds=1,1: 1 is named twice"),
    ("task=rt scale=auto", "scale='auto': input should be"),
    ("task=rt runs=here", "runs=here: is on this machine"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_what_no_run_could_be_is_refused_before_anything_is_written(
    line: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        dispatch(["notebook", *line.split(), f"output={tmp_path / 'a.ipynb'}"])
    assert not [*tmp_path.iterdir()]


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


@pytest.mark.skipif(commit() is None, reason="no git checkout here, of which a notebook is")
def test_a_notebook_trains_and_started_again_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    make = ["notebook", "task=gaussian", "norm=adanorm", "scale=smoke", f"repo={PROJECT}", f"output={path}"]
    assert dispatch([*make, "seeds=2"]) == 0
    assert "gaussian adanorm smoke seed 2: test loss" in executed(path)
    assert dispatch([*make, "seeds=1,2"]) == 0
    printed = executed(path)
    assert "gaussian adanorm smoke seed 1: test loss" in printed
    assert printed.count("already completed") == 1
    assert "nothing to send" in printed
