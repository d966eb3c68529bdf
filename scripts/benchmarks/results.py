"""The file that a benchmark leaves."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import torch

from adanorm.config.paths import PROJECT
from adanorm.records.environment import describe


def write(name: str, rows: Sequence[dict[str, Any]], *, threads: int = 1) -> None:
    """Write rows to results/bench/<name>.csv, each with the machine, torch's version and the commit.

    What a row says itself, such as its device, stays.
    """
    place = describe(device=torch.device("cpu"), precision="fp32", processes=1, threads=threads)
    facts = {"device": place["device"], "torch": place["packages"]["torch"], "commit": place["commit"]}
    facts = {key: value for key, value in facts.items() if key not in rows[0]}
    path = PROJECT / "results" / "bench" / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        names = dict.fromkeys(key for row in rows for key in row)  # some rows may lack some
        writer = csv.DictWriter(file, [*names, *facts], lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, **facts} for row in rows)
