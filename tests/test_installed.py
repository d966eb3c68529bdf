"""The package from a wheel: it has its configuration and works from any folder; and without fairseq."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from adanorm.config.compose import cached_experiment
from adanorm.config.paths import PROJECT
from adanorm.data.translation import fairseq_library
from adanorm.runs.execute import prepare

pytest.importorskip("hatchling", reason="no hatchling here, which builds the package")

RUN = """
from adanorm.cli.command import dispatch
from adanorm.config.paths import CONF, IS_CHECKOUT
assert not IS_CHECKOUT and CONF.parts[-3:] == ("adanorm", "shipped", "conf")
assert dispatch(["run", "task=gaussian", "norm=adanorm", "scale=smoke"]) == 0
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the contents of a wheel."""
    folder = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(
        command,
        cwd=PROJECT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_a_wheel_runs_from_any_folder_and_writes_there_alone(built: Path, tmp_path: Path) -> None:
    before = {path for path in built.rglob("*") if "__pycache__" not in path.parts}
    environment = {**os.environ, "PYTHONPATH": str(built)}
    run = [sys.executable, "-c", RUN]
    done = subprocess.run(
        run, check=False, cwd=tmp_path, env=environment, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert len(list(tmp_path.glob("results/runs/gaussian/adanorm/smoke-*/record.jsonl"))) == 1
    assert {path for path in built.rglob("*") if "__pycache__" not in path.parts} == before


def test_a_wheel_holds_the_package_and_what_it_reads(built: Path) -> None:
    package = PROJECT / "src" / "adanorm"
    files = [
        path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    for path in files:
        assert (built / "adanorm" / path.relative_to(package)).read_bytes() == path.read_bytes()
    shipped = built / "adanorm" / "shipped"
    for folder in ("conf", "results/published-curves"):
        for path in (PROJECT / folder).rglob("*.*"):
            assert (shipped / path.relative_to(PROJECT)).read_bytes() == path.read_bytes()
    contents = {
        p for p in (built / "adanorm").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    assert len(contents - {*shipped.rglob("*")}) == len(files), "and nothing else"


def test_without_fairseq_translation_says_so_and_the_others_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fairseq", None)
    for name in [name for name in sys.modules if name.startswith("fairseq.")]:
        monkeypatch.delitem(sys.modules, name)
    fairseq_library.fairseq.cache_clear()
    try:
        with pytest.raises(
            ValueError, match="translation needs fairseq, which is not installed here"
        ):
            prepare(cached_experiment(["task=de-en", "norm=adanorm", "scale=smoke"]))
        assert prepare(cached_experiment(["task=mnist", "norm=adanorm", "scale=smoke"])).sites
    finally:
        fairseq_library.fairseq.cache_clear()
