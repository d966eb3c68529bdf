"""What scale=auto means on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import availability, editions_of, is_at_hand

LONGEST_CPU_HOURS = 8.0


def resolve_auto(overrides: Sequence[str]) -> list[str]:
    """Return the overrides with scale=auto replaced by paper or mini, and say which and why.

    `paper` where this machine finishes a run in hours and can have the data, else `mini`.
    Raises ValueError where the data of neither can be had.
    """
    if "scale=auto" not in overrides:
        return list(overrides)
    edition = _edition_at_hand(overrides)
    scale, reason = _choose(overrides, edition)
    print(f"scale {scale}: {reason}", flush=True)
    resolved = [f"scale={scale}" if override == "scale=auto" else override for override in overrides]
    if scale != "paper" or not edition:
        return resolved
    print(f"{edition[0]}: that edition of the data lies here, the default one does not", flush=True)
    return [*resolved, *edition]


def _edition_at_hand(overrides: Sequence[str]) -> list[str]:
    """Return the preset of another edition of the corpus that lies here where the default one does not."""
    # Every seed and norm of a sweep has the data of the first.
    first = [o.partition(",")[0] if o.startswith(("seed=", "norm=")) else o for o in overrides]
    if any(override.startswith(("preset=", "data.", "-")) or "," in override for override in first):
        return []
    run = compose_experiment([o for o in first if o != "scale=auto"] + ["scale=paper"])
    entry = SOURCES.get(run.data.source)
    if entry is None or is_at_hand(entry, run.data):
        return []
    for other in editions_of(entry):
        if other.preset and is_at_hand(other, run.data):
            return [f"preset={other.preset}"]
    return []


def experiment_of(settings: Sequence[str]) -> Experiment:
    """Return the one run that a command line names; scale=auto is chosen for this machine.

    Raises ValueError, in one line, for what it cannot be.
    """
    return compose_experiment(resolve_auto(settings))


def _choose(overrides: Sequence[str], edition: Sequence[str]) -> tuple[str, str]:
    others = [o for o in overrides if "=" in o and not o.startswith("-") and o != "scale=auto"]
    # A sweep's first task decides: the scales of one table must not differ.
    others = [override.split(",")[0] if override.startswith(("task=", "norm=", "seed=")) else override
              for override in others]  # fmt: skip
    paper = compose_experiment([*others, *edition, "scale=paper"])
    missing = _missing(paper)
    if missing is None and (on_cuda(paper) or _hours(paper) <= LONGEST_CPU_HOURS):
        return "paper", f"a run of {paper.task.name} takes {_span(paper)}"
    mini = compose_experiment([*others, "scale=mini"])
    missing_mini = _missing(mini)
    if missing_mini is not None:
        folder = SOURCES[mini.data.source].folder
        raise ValueError(
            f"{paper.task.name}: {missing_mini}; put it into {folder}/ of a mirror folder and"
            " name that with ADANORM_MIRROR or data.mirror"
        )
    why = missing or f"at the paper's size a run of {paper.task.name} takes {_span(paper)}"
    return "mini", f"{why}; a run takes {_span(mini)}"


def _missing(run: Experiment) -> str | None:
    return run.data.lacks() or (None if run.own_data else availability(run.data.source, run.data))


def _hours(run: Experiment) -> float:
    return run.cost.cuda_hours if on_cuda(run) else run.cost.cpu_hours


def _span(run: Experiment) -> str:
    return f"about {in_words(_hours(run))} on {'one GPU' if on_cuda(run) else 'one CPU core'}"


def in_words(hours: float) -> str:
    """Return hours as minutes below two of them and as days from a hundred on."""
    if hours < 2:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.0f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


def on_cuda(run: Experiment) -> bool:
    """Return whether a run would be computed on a GPU here."""
    import torch

    return run.device != "cpu" and torch.cuda.is_available()
