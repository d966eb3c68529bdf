"""Folders of the project and its configuration, in a checkout or installed."""

import json
import re
import sys
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (PACKAGE.parents[1] / "conf" / "run.yaml").is_file()
# The folder of files that come with the code: the checkout, or a folder within an installed
# package.
SHIPPED = PACKAGE.parents[1] if IS_CHECKOUT else PACKAGE / "shipped"
# The folder of records, tables and downloads: the checkout, or the folder that a command is started
# in.
PROJECT = PACKAGE.parents[1] if IS_CHECKOUT else Path.cwd()
CONF = SHIPPED / "conf"
RUNS = PROJECT / "results" / "runs"
ANALYSES = PROJECT / "results" / "analyses"
CONTRIBUTED = "-contributed"
DRY_RUNS = PROJECT / "outputs" / "dry-runs"


def install_command(extra: str, python: str = sys.executable) -> str:
    """Return the command that installs an extra from the package's source: no index has it."""
    if IS_CHECKOUT:
        return f"{python} -m pip install -e '{PROJECT}[{extra}]'"
    from importlib.metadata import distribution  # takes longer than all else here

    origin = json.loads(distribution("adanorm").read_text("direct_url.json") or '{"url": "FOLDER"}')
    scheme = "git+" if "vcs_info" in origin else ""
    return f"{python} -m pip install 'adanorm[{extra}] @ {scheme}{without_password(origin['url'])}'"


def without_password(address: str) -> str:
    """Return an address without the name and password in front of its host; git@ stays."""
    return re.sub(r"(?<=://)(?!git@)[^/?#\s]*@", "", address)


def runs_folder(runs: str | Path | None) -> Path:
    """Return the folder of the runs' records: `runs`, or results/runs without it."""
    return Path(runs) if runs else RUNS


def analyses_folder(runs: str | Path | None) -> Path:
    """Return the folder of the analyses' records: results/analyses, or `runs`/analyses."""
    if not runs:
        return ANALYSES
    folder = Path(runs)
    return ANALYSES if folder.resolve() == RUNS.resolve() else folder / "analyses"


def contributed_folder(runs: Path) -> Path:
    """Return the folder of contributions to a folder of runs, such as results/runs-contributed."""
    return runs.parent / f"{runs.name}{CONTRIBUTED}"


def choices(group: str) -> list[str]:
    """Return the sorted names in a configuration group, such as the tasks.

    A group is listed only once.
    """
    return [*_names_in(CONF, group)]


@cache
def _names_in(folder: Path, group: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (folder / group).glob("*.yaml")))
