"""Where the project and its configuration lie, in a checkout or installed."""

import json
import os
import sys
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
IS_CHECKOUT = (PACKAGE.parents[1] / "conf" / "run.yaml").is_file()
# What comes with the code: beside it in a checkout, within it where it was installed from a wheel.
SHIPPED = PACKAGE.parents[1] if IS_CHECKOUT else PACKAGE / "shipped"
# Where records, tables and downloads lie: the checkout, or the folder that a command is started in.
PROJECT = PACKAGE.parents[1] if IS_CHECKOUT else Path.cwd()
CONF = SHIPPED / "conf"
RUNS = PROJECT / "results" / "runs"
ANALYSES = PROJECT / "results" / "analyses"
CONTRIBUTED = "-contributed"
DRY_RUNS = PROJECT / "outputs" / "dry-runs"


def install_command(extra: str, python: str = sys.executable) -> str:
    """Return the command by which a Python installs an extra from where the package came: no index has it."""
    if IS_CHECKOUT:
        return f"{python} -m pip install -e '{PROJECT}[{extra}]'"
    origin = json.loads(distribution("adanorm").read_text("direct_url.json") or '{"url": "FOLDER"}')
    scheme = "git+" if "vcs_info" in origin else ""
    return f"{python} -m pip install 'adanorm[{extra}] @ {scheme}{origin['url']}'"


def runs_folder(runs: str | None) -> Path:
    """Return the folder of the runs' records, <task>/<norm>/...: `runs`, or the repository's."""
    return Path(runs) if runs else RUNS


def analyses_folder(runs: str | None) -> Path:
    """Return the folder of the analyses' records: `analyses` in that of the runs, or the repository's own."""
    folder = runs_folder(runs)
    return ANALYSES if folder.resolve() == RUNS.resolve() else folder / "analyses"


def contributed_folder(runs: Path) -> Path:
    """Return the folder of contributions to a folder of runs, such as results/runs-contributed."""
    return runs.parent / f"{runs.name}{CONTRIBUTED}"


def choices(group: str) -> list[str]:
    """Return the names that a configuration group offers, such as the tasks, sorted; listed once."""
    return [*_names_in(CONF / group)]


@cache
def _names_in(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(name.removesuffix(".yaml") for name in os.listdir(folder) if name.endswith(".yaml")))
