"""What names a study on the command line: its name or file, its scale, its seeds and its records."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from adanorm.cli.command import Arguments, Key, folder_of, seed_list, whole_number
from adanorm.config.paths import choices
from adanorm.studies.study import Study, load_study

STUDY_KEYS = {
    "scale": Key("paper, mini or smoke (default: the study's own)"),
    "seeds": Key("such as 1,2,3 (default: the study's own)", also=("seed",)),
    "runs": Key("folder of the records and tables (default: results/)"),
    "workers": Key("runs at a time (default: as many as this machine suits)"),
}
study_names = partial(choices, "study")


def chosen_study(arguments: Arguments) -> tuple[str, Study]:
    """Return the study that a command line names, with its scale and seeds, and its table's name.

    Raises ValueError for an unknown study or scale and for seeds that are none.
    """
    given = arguments.keys
    study = load_study(arguments.names[0])
    if given["scale"] not in ("", *choices("scale")):
        raise ValueError(f"unknown scale {given['scale']!r}: choose from {', '.join(choices('scale'))}")
    # At another scale than the study's own, the table is another.
    name = Path(arguments.names[0]).stem
    scale = given["scale"] or study.scale
    name = name if scale == study.scale else f"{name}-{scale}"
    seeds = seed_list(given["seeds"]) if given["seeds"] else study.seeds
    return name, study.model_copy(update={"scale": scale, "seeds": seeds})


def workers_of(arguments: Arguments) -> int | None:
    """Return `workers=`, or None where it is left to the machine."""
    text = arguments.keys["workers"]
    return whole_number("workers", text) if text else None


def runs_of(arguments: Arguments) -> str | None:
    """Return the absolute path of `runs=`, or None for results/."""
    return folder_of(arguments.keys["runs"])
