"""Is one norm's translation better? `python -m adanorm.compare task=de-en norm=layernorm,adanorm`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from adanorm import compose, metrics
from adanorm.config import Experiment
from adanorm.data import parallel
from adanorm.data_sections import Parallel
from adanorm.records import reader
from adanorm.records.folder import shown
from adanorm.scale import resolve_auto

DESCRIPTION = """Compare the test translations of finished runs by sacrebleu's paired bootstrap.

  python -m adanorm.compare task=de-en norm=layernorm,adanorm scale=mini [KEY=VALUE ...]
                            [metric=bleu|sacrebleu|compound_bleu] [samples=1000]

Each norm's run is compared with the first norm's. The p-value says what the choice of
test sentences explains, not what the seed does: give seed=2 to look at another pair."""


def main() -> None:
    """Print BLEU and p-values of the runs named on the command line."""
    if {"--help", "-h"} & {*sys.argv[1:]} or not sys.argv[1:]:
        print(DESCRIPTION)
        return
    kind, samples, norms, overrides = _arguments(sys.argv[1:])
    overrides = resolve_auto(compose.prepare(overrides))
    runs = [compose.experiment([*overrides, f"norm={norm}"]) for norm in norms]
    for line in compare(runs, kind=kind, samples=samples):
        print(line)


def _arguments(arguments: Sequence[str]) -> tuple[str, int, list[str], list[str]]:
    own, overrides = compose.own_keys(arguments, {"metric": "bleu", "samples": "1000", "norm": ""})
    if own["metric"] not in metrics.KINDS:
        raise ValueError(f"unknown metric {own['metric']!r}: choose from {', '.join(metrics.KINDS)}")
    if not own["samples"].isdecimal() or int(own["samples"]) < 1:
        raise ValueError(f"samples={own['samples']}: must be a whole number above 0")
    norms = own["norm"].split(",")
    if len(norms) < 2:
        raise ValueError("name two norms or more, such as norm=layernorm,adanorm")
    return own["metric"], int(own["samples"]), norms, overrides


def compare(runs: Sequence[Experiment], *, kind: str, samples: int) -> list[str]:
    """Return a line a run: its BLEU with the bootstrap's 95 % interval, and p against the first.

    Raises ValueError for a run that is no translation or has not been made.
    """
    first = runs[0]
    if not isinstance(first.data, Parallel):
        raise ValueError(f"task={first.task.name} has no translations to compare")
    for run in runs:
        if (reader.result(run.folder()) or {}).get("status") != "done":
            raise ValueError(f"{shown(run.folder())}: no finished run; make it with `python -m adanorm.run`")
    corpus = parallel.load(first.data)
    references: list[str] = []
    systems: dict[str, list[str]] = {}
    for run in runs:
        words, text = corpus.beside_references("test", reader.outputs(run.folder()))
        systems[run.norm.name], references = metrics.sides(kind, words, text)
    found = metrics.paired_bootstrap(
        kind, systems, references, samples=samples, lowercase=first.data.lowercase
    )
    name = f"{first.task.name} {first.scale} seed {first.seed}"
    return [f"{name}, {kind} {metrics.KINDS[kind]}, {samples} bootstrap samples", *found]


if __name__ == "__main__":
    compose.door(main)
