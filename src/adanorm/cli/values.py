"""What the values of a command's keys may be."""

from __future__ import annotations

import os

from adanorm.config.paths import RUNS


def whole_number(key: str, text: str, *, at_least: int = 1, at_most: int = 2**31 - 1) -> int:
    """Return the number that a key's value is; raises ValueError where it is none or out of bounds."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= 20
    if not is_number or int(text) < at_least:
        raise ValueError(f"{key}={text}: must be a whole number of at least {at_least}")
    if int(text) > at_most:
        raise ValueError(f"{key}={text}: must be at most {at_most}")
    return int(text)


def name_list(key: str, text: str) -> list[str]:
    """Return the names of a key's value, `a,b`; raises ValueError where one is there twice."""
    names = text.split(",")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{key}={text}: {twice} is named twice")
    return names


def seed_list(text: str) -> list[int]:
    """Return the seeds of `seeds=1,2,3`; raises ValueError where they are not numbers or one is twice."""
    if not all(seed.isascii() and seed.isdecimal() for seed in text.split(",")):
        raise ValueError(f"seeds={text}: write whole numbers, such as seeds=1,2,3")
    seeds = [str(whole_number("seeds", seed, at_least=0)) for seed in text.split(",")]
    return [int(seed) for seed in name_list("seeds", ",".join(seeds))]


def folder_of(text: str) -> str | None:
    """Return the absolute path of `runs=FOLDER`, None where it is empty or the repository's own."""
    if "${" in text:
        raise ValueError(f"runs={text}: a folder's name cannot hold ${{, which stands for another setting")
    path = os.path.abspath(text) if text else None
    return None if path is None or os.path.realpath(path) == os.path.realpath(RUNS) else path


def true_or_false(key: str, text: str) -> bool:
    """Return what a key's value says; raises ValueError where it is neither true nor false."""
    if text not in ("true", "false"):
        raise ValueError(f"{key}={text}: choose true or false")
    return text == "true"
