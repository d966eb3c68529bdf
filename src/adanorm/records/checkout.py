"""The code that computed a run: its commit, and what it differs from it by."""

from __future__ import annotations

import os
import subprocess

from adanorm.config.paths import IS_CHECKOUT, PROJECT

CODE = ("src", "conf", "pyproject.toml", "constraints.txt")  # what a run's numbers depend on


def commit() -> str | None:
    """Return the commit of this checkout; None where it is none, or without git."""
    return _git("rev-parse", "HEAD")


def is_dirty() -> bool:
    """Return whether the code differs from its commit."""
    return bool(_git("status", "--porcelain", "--", *CODE))


def changes() -> bytes:
    """Return what the code differs from its commit by, new files too, as a patch for `git apply`."""
    listed = (_git("ls-files", "--others", "--exclude-standard", "-z", "--", *CODE) or "").split("\0")
    new = [
        _output("diff", "--no-ext-diff", "--no-index", "--binary", "--", os.devnull, name)
        for name in listed
        if name
    ]
    return b"".join([_output("diff", "--no-ext-diff", "--binary", "HEAD", "--", *CODE), *new])


def _output(*arguments: str) -> bytes:
    """Return what git prints of a difference; it exits with 1 where two files differ."""
    settings = ("-c", "core.quotePath=false", "-c", "diff.noprefix=false", "-c", "color.ui=false")
    return subprocess.run(
        ["git", *settings, *arguments], cwd=PROJECT, capture_output=True, check=False
    ).stdout


def _git(*arguments: str) -> str | None:
    if not IS_CHECKOUT:
        return None
    try:
        return subprocess.run(
            ["git", "-C", str(PROJECT), *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive, or no git
        return None
