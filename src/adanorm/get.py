"""Get a task's data: `python -m adanorm.get task=rt`."""

from __future__ import annotations

import sys

from adanorm import compose
from adanorm.data import images, text
from adanorm.scale import resolve_auto
from adanorm.sections import Images


def main() -> None:
    """Download and verify what a run would need, read it, and print sizes and checksums."""
    experiment = compose.experiment(resolve_auto(compose.prepare(sys.argv[1:])))
    data = experiment.data
    splits = images.load(data) if isinstance(data, Images) else text.load(data)
    sizes = ", ".join(f"{name} {len(splits[name]):,}" for name in ("train", "valid", "test"))
    print(f"{experiment.task.name} {experiment.scale}: {sizes}; {len(splits.labels)} labels")
    for name, checksum in splits.checksums.items():
        print(f"  {name}  sha256 {checksum}")


if __name__ == "__main__":
    compose.door(main)
