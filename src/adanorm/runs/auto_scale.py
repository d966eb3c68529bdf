"""Which scale scale=auto means on this machine."""

from collections.abc import Sequence

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.titles import in_words
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import availability, editions_of, missing_files
from adanorm.records import reader
from adanorm.runs.duration import on_cuda


def experiment_of(settings: Sequence[str]) -> Experiment:
    """Return the one run that a command line names, with scale=auto resolved for this machine.

    Raises ValueError for impossible settings.
    """
    return compose_experiment(resolve_auto(settings))


def resolve_auto(overrides: Sequence[str]) -> list[str]:
    """Return the overrides with scale=auto replaced by paper or mini; print which and why.

    The scale is `paper` if this machine finishes a run within hours and can have the data; if not,
    `mini`. A scale at which the run is on record needs no data. In a sweep the first run decides,
    since the scales of one table must not differ. Raises ValueError if the data of neither scale
    can be had.
    """
    if "scale=auto" not in overrides:
        return list(overrides)
    others = [override for override in overrides if override != "scale=auto"]
    swept, settings = (
        ("task=", "norm=", "seed="),
        [entry for entry in others if not entry.startswith("-")],
    )
    first = [entry.partition(",")[0] if entry.startswith(swept) else entry for entry in settings]
    paper = compose_experiment([*first, "scale=paper"])
    is_affordable = on_cuda(paper) or not paper.cost.needs_gpu
    if reader.is_complete(paper.folder()):
        print("scale paper: its record is here", flush=True)
        return [*others, "scale=paper"]
    mini = compose_experiment([*first, "scale=mini"])
    has_mini_record = reader.is_complete(mini.folder())
    # No other edition of the data is chosen if the command line names its data, or sweeps over
    # tasks.
    own_data = any(entry.startswith(("preset=", "data.")) for entry in others)
    is_sweep = any("," in entry and entry[:5] not in ("seed=", "norm=") for entry in others)
    is_mini = has_mini_record and not is_affordable  # no data are needed
    edition = [] if own_data or is_sweep or is_mini else _edition_at_hand(paper)
    if edition:
        paper = compose_experiment([*first, *edition, "scale=paper"])
    missing = None if is_mini else _missing(paper)
    if missing is None and is_affordable:
        print(f"scale paper: a run of {paper.task.name} takes {_span(paper)}", flush=True)
        if edition:
            print(
                f"{edition[0]}: that edition of the data lies here, the default one does not",
                flush=True,
            )
        return [*others, "scale=paper", *edition]
    if not has_mini_record and (lack := _missing(mini)):
        folder = SOURCES[mini.data.source].folder
        raise ValueError(
            f"{paper.task.name}: {lack}; put it into {folder}/ of a mirror folder and"
            " name that with ADANORM_MIRROR or data.mirror"
        )
    remark = "its record is here" if has_mini_record else f"a run takes {_span(mini)}"
    too_long = f"at the paper's size a run of {paper.task.name} takes {_span(paper)}"
    print(f"scale mini: {missing or too_long}; {remark}", flush=True)
    return [*others, "scale=mini"]


def _edition_at_hand(run: Experiment) -> list[str]:
    """Return the preset of another edition of the corpus if that lies here, and the default not."""
    entry = SOURCES.get(run.data.source)
    if entry is None or not missing_files(entry, run.data):
        return []
    presets = (other.preset for other in editions_of(entry) if not missing_files(other, run.data))
    return next(([f"preset={preset}"] for preset in presets if preset), [])


def _missing(run: Experiment) -> str | None:
    return run.data.lacks() or (None if run.own_data else availability(run.data.source, run.data))


def _span(run: Experiment) -> str:
    hours, device = (
        (run.cost.cuda_hours, "GPU") if on_cuda(run) else (run.cost.cpu_hours, "CPU core")
    )
    return f"about {in_words(hours)} on one {device}"
