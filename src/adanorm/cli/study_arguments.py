"""Arguments that choose a study: name or file, tasks, scale, seeds, folder of records."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from adanorm.cli.command import Arguments, Key, name_list, seed_list
from adanorm.config.errors import check_known, whole_number
from adanorm.config.paths import CONF, choices
from adanorm.config.sections import PRECISIONS
from adanorm.config.values import digest_of
from adanorm.studies.study import Study, load_study

STUDY_KEYS = {
    "task": Key("one or more of its columns, such as rt,sst5 (default: all)", also=("tasks",)),
    "scale": Key("paper, open, small, mini or smoke (default: the study's own)"),
    "precision": Key("tf32 or bf16: runs and a table of their own (default: the study's)"),
    "seeds": Key("such as 1,2,3 (default: the study's own)", also=("seed",)),
    "runs": Key("folder of the records and tables (default: results/)"),
    "workers": Key("runs at a time (default: as many as this machine suits)"),
}
MOST = 60  # the most characters of seeds in a file's name
study_names = partial(choices, "study")


def chosen_study(arguments: Arguments) -> tuple[str, Study, str]:
    """Return the name, the study and the name of its table for a command line.

    With other tasks, scale, precision, seeds or file the table has another name, so that no
    committed one is replaced. With fewer tasks or another precision the study has no rule, as a
    rule is for all its runs. Raises ValueError for an unknown study, scale, precision or task, for
    invalid seeds, and for a rule without a margin.
    """
    keys = arguments.keys
    study = load_study(arguments.names[0])
    file = Path(arguments.names[0])
    is_outside = file.suffix == ".yaml" and file.resolve().parent != CONF / "study"
    outside = "own" if is_outside else ""

    scale = keys["scale"] or study.scale
    check_known("scale", [scale], choices("scale"))
    other_scale = scale if scale != study.scale else ""

    other_tasks = ""
    tasks = name_list("task", keys["task"]) if keys["task"] else study.columns
    if sorted(tasks) != sorted(study.columns):
        study = _of_tasks(study, tasks)
        other_tasks = "-".join(study.columns)

    other_precision = ""
    precision = keys["precision"] or "fp32"
    check_known("precision", [precision], PRECISIONS)
    if precision != "fp32":
        overrides = (*study.overrides, f"precision={precision}")
        study = study.model_copy(update={"overrides": overrides, "rule": None})
        other_precision = precision

    other_seeds = ""
    seeds = seed_list(keys["seeds"]) if keys["seeds"] else study.seeds
    if sorted(seeds) != sorted(study.seeds):
        study = study.model_copy(update={"seeds": seeds})
        other_seeds = _seeds_in_name(seeds)

    if study.rule is not None:
        from adanorm.verdicts.rule import check_margins  # imports numpy

        check_margins(study)
    changes = (other_scale, other_tasks, other_precision, other_seeds)
    table = _name(file.stem, outside, *changes)
    if file.stem not in choices("study"):
        outside = ""
    name = _name(file.stem, outside, other_scale, other_precision)
    return name, study.model_copy(update={"scale": scale}), table


def _name(*parts: str) -> str:
    return "-".join(filter(None, parts))


def _seeds_in_name(seeds: Sequence[int]) -> str:
    """Return the seeds as they stand in a file's name: a digest of them where they are many."""
    text = "-".join(map(str, seeds))
    if len(text) > MOST:
        text = digest_of({"seeds": seeds})
    return f"seeds-{text}"


def _of_tasks(study: Study, tasks: list[str]) -> Study:
    """Return the study with the named tasks alone, and only the rows with runs on these."""
    columns = study.columns
    if unknown := [task for task in tasks if task not in columns]:
        raise ValueError(
            f"task={unknown[0]}: not a column of the study: choose from {', '.join(columns)}"
        )
    rows = {label: row for label, row in study.rows.items() if {*tasks} & {*(row.only or tasks)}}
    changes = {
        "columns": [task for task in columns if task in tasks],
        "rows": rows,
        "column_overrides": {
            task: changes for task, changes in study.column_overrides.items() if task in tasks
        },
        "improvements": tuple(pair for pair in study.improvements if rows.keys() >= {*pair}),
        "rule": None,
    }
    return study.model_copy(update=changes)


def workers_of(arguments: Arguments) -> int | None:
    """Return the number in `workers=`, or None to leave it to the machine."""
    text = arguments.keys["workers"]
    return whole_number("workers", text, at_most=1024) if text else None
