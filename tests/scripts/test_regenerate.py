"""The script that writes all results from the records anew."""

from __future__ import annotations

import subprocess

from adanorm.config.paths import PROJECT

SCRIPT = PROJECT / "scripts" / "regenerate"


def test_it_is_bash_with_a_help_and_refuses_an_argument_before_any_work() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    helped, refused = (
        subprocess.run([SCRIPT, word], capture_output=True, text=True, check=False, timeout=60)
        for word in ("--help", "tables")
    )
    assert (helped.returncode, refused.returncode) == (0, 2)
    assert helped.stdout.startswith("Write every table, figure and page from the records")
    assert refused.stderr == "error: scripts/regenerate takes no argument, not 'tables'\n"
