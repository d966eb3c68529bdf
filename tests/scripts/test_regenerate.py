"""The script that writes all results from the records anew."""

from __future__ import annotations

import subprocess

from adanorm.config.paths import PROJECT

SCRIPT = PROJECT / "scripts" / "regenerate"


def said(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_it_is_bash() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)


def test_help_says_what_it_does() -> None:
    done = said("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Write every table, figure and page from the records")


def test_an_argument_is_refused_before_any_work() -> None:
    done = said("tables")
    assert done.returncode == 2
    assert done.stderr == "error: scripts/regenerate takes no argument, not 'tables'\n"
