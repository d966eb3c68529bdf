"""Get a task's data: `python -m adanorm.get task=rt`."""

from __future__ import annotations

import sys

from adanorm import compose
from adanorm.scale import resolve_auto


def main() -> None:
    """Download, verify and prepare what a run would need, and print sizes and checksums."""
    experiment = compose.experiment(resolve_auto(compose.prepare(sys.argv[1:])))
    from adanorm import tasks

    task = tasks.build(experiment)
    sizes = ", ".join(f"{split} {size:,}" for split, size in task.sizes.items())
    print(f"{experiment.task.name} {experiment.scale}: {sizes}")
    for name, checksum in task.checksums.items():
        print(f"  {name}  sha256 {checksum}")


if __name__ == "__main__":
    compose.door(main)
