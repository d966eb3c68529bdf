"""Which scale scale=auto means on this machine."""

import itertools
import shlex
from collections.abc import Sequence

from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import swept
from adanorm.config.paths import choices
from adanorm.config.titles import in_words
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import availability, editions_of, is_shipped, missing_files
from adanorm.records import reader
from adanorm.runs.duration import on_cuda

SMALLER = ("open", "small", "mini")  # scales that need less than the paper's, the best first


def experiment_of(settings: Sequence[str], *, needs_data: bool = False) -> Experiment:
    """Return the one run that a command line names, with scale=auto resolved for this machine.

    Raises ValueError for impossible settings.
    """
    return compose_experiment(resolve_auto(settings, needs_data=needs_data))


def resolve_auto(overrides: Sequence[str], *, needs_data: bool = False) -> list[str]:
    """Return the overrides with scale=auto replaced, where it stands, by a scale; print it and why.

    The scale is `paper` if this machine finishes a run within hours and can have the data; if not,
    the best of SMALLER at which the runs are on record, which needs no data; if none is, `mini`.
    Where the data of `mini` cannot be had either, it is read of what comes with the package, whose
    preset is added. In a sweep the first run decides, since the scales of one table must not
    differ. With `needs_data` no record counts. Raises ValueError if the data of neither scale can
    be had.
    """
    if "scale=auto" not in overrides:
        return list(overrides)
    place = overrides.index("scale=auto")
    before, after = overrides[:place], overrides[place + 1 :]
    chosen = _chosen([*before, *after], needs_data=needs_data)
    return [*before, *chosen, *after]


def _chosen(kept: Sequence[str], *, needs_data: bool) -> list[str]:
    """Return what scale=auto stands for beside other overrides: a scale and perhaps a preset."""
    # Neither flags nor their values, such as --cfg job.
    settings = [entry for entry in kept if entry.startswith("~") or "=" in entry]
    first = _runs_of(settings)[0]
    paper = compose_experiment([*first, "scale=paper"])
    is_affordable = on_cuda(paper) or not paper.cost.needs_gpu
    recorded = []
    if not needs_data:
        if reader.is_complete(paper.folder()):
            print("scale paper: its record is here", flush=True)
            return ["scale=paper"]
        recorded = [scale for scale in SMALLER if _is_on_record(settings, scale)]
    # No other edition of the data is chosen if the command line names its data, or sweeps over
    # tasks.
    own_data = any(entry.startswith(("preset=", "data.")) for entry in kept if not _is_place(entry))
    is_sweep = any("," in entry and entry[:5] not in ("seed=", "norm=") for entry in kept)
    is_shown = recorded and not is_affordable  # no data are needed
    edition = [] if own_data or is_sweep or is_shown else _edition_at_hand(paper)
    if edition:
        paper = compose_experiment([*first, *edition, "scale=paper"])
    missing = None if is_shown else lacking_data(paper)
    if missing is None and is_affordable:
        print(f"scale paper: a run of {paper.task.name} takes {_span(paper)}", flush=True)
        if edition:
            print(
                f"{edition[0]}: that edition of the data lies here, the default one does not",
                flush=True,
            )
        return ["scale=paper", *edition]
    reason = missing or f"at the paper's size a run of {paper.task.name} takes {_span(paper)}"
    if recorded:
        print(f"scale {recorded[0]}: {reason}; its record is here", flush=True)
        line: Sequence[str] = first
        if {"-m", "--multirun"} & {*kept}:
            line = ["-m", *settings]
        _show_repeats(line, first, recorded)
        return [f"scale={recorded[0]}"]
    mini = compose_experiment([*first, "scale=mini"])
    lack = lacking_data(mini)
    shipped = [] if lack is None or own_data or is_sweep else _edition_at_hand(mini)
    if lack is not None and not shipped:
        raise ValueError(f"{paper.task.name}: {lack}; {_remedy(mini.data.source)}")
    remark = f"a run takes {_span(mini)}"
    entry = SOURCES.get(mini.data.source)
    if entry and is_shipped(entry):
        remark = f"{mini.data.source} comes with the package, {remark}"
    if shipped:
        edition_run = compose_experiment([*first, *shipped, "scale=mini"])
        remark = f"{lack}: {shipped[0]} takes what comes with the package, {_span(edition_run)}"
    print(f"scale mini: {reason}; {remark}", flush=True)
    return ["scale=mini", *shipped]


def _is_place(override: str) -> bool:
    """Return whether an override says where data lie, and not which they are."""
    return override.partition("=")[0] in ("data.cache", "data.mirror", "data.mirrors")


def tasks_without_network() -> list[str]:
    """Return the tasks that train at scale mini on what comes with the package, or on made-up data."""
    names = []
    sizes = choices("task_scale")
    for task in choices("task"):
        if f"{task}_mini" not in sizes:
            continue
        entry = SOURCES.get(compose_experiment([f"task={task}", "scale=mini"]).data.source)
        if entry is None or any(map(is_shipped, [entry, *editions_of(entry)])):
            names.append(task)
    return names


def _remedy(source: str) -> str:
    """Return where a source's files are to be had, and what to set; or what the package has."""
    entry = SOURCES[source]
    shipped = [other.preset for other in editions_of(entry) if is_shipped(other)]
    choice = f"; or take scale=mini preset={shipped[0]} from the package" if shipped else ""
    names = ", ".join(file.name for file in entry.files)
    folders = {address.rpartition("/")[0]: None for address in entry.files[0].addresses}
    origin = f" from {' or '.join(folders)}" if folders else ""
    return (
        f"get {names}{origin}, put it into {entry.folder}/ of a mirror folder and name that with"
        f" ADANORM_MIRROR or data.mirror{choice}"
    )


def _runs_of(settings: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the settings of each run of a sweep over tasks, norms and seeds."""
    choices_by_setting = []
    for entry in settings:
        key, _, value = entry.partition("=")
        is_swept = key in ("task", "norm", "seed")
        if is_swept and "(" in value:  # such as range(1,3)
            choices_by_setting.append(swept(entry))
        elif is_swept:
            choices_by_setting.append([f"{key}={choice}" for choice in value.split(",")])
        else:
            choices_by_setting.append([entry])
    return [*itertools.product(*choices_by_setting)]


def _is_on_record(settings: Sequence[str], scale: str) -> bool:
    """Return whether the runs of a command line are on record at a scale; at mini, the first."""
    runs = _runs_of(settings)
    for run in runs[:1] if scale == "mini" else runs:
        task = dict(entry.partition("=")[::2] for entry in run).get("task")
        if f"{task}_{scale}" not in choices("task_scale"):
            return False
        if not reader.is_complete(compose_experiment([*run, f"scale={scale}"]).folder()):
            return False
    return True


def _show_repeats(line: Sequence[str], first: Sequence[str], scales: Sequence[str]) -> None:
    """Print for each scale with a record the command that repeats it, and how long that takes.

    `line` is the command's, `first` its first run.
    """
    settings = [entry for entry in line if not entry.startswith("runs=")]
    for scale in scales:
        words = "to repeat it" if scale == scales[0] else f"scale {scale} is on record too"
        command = shlex.join(["adanorm", "run", *settings, f"scale={scale}", "runs=runs"])
        span = _span(compose_experiment([*first, f"scale={scale}"]))
        print(f"  {words}: {command} ({span})", flush=True)


def _edition_at_hand(run: Experiment) -> list[str]:
    """Return the preset of another edition of the corpus if that lies here, and the default not."""
    entry = SOURCES.get(run.data.source)
    if entry is None or not missing_files(entry, run.data):
        return []
    for other in editions_of(entry):
        is_here = is_shipped(other) or not missing_files(other, run.data)
        if other.preset and is_here:
            return [f"preset={other.preset}"]
    return []


def lacking_data(run: Experiment) -> str | None:
    """Return why a run's data cannot be had here, or None; downloads nothing."""
    return run.data.lacks() or (None if run.own_data else availability(run.data.source, run.data))


def _span(run: Experiment) -> str:
    hours, device = (run.gpu_hours, "GPU") if on_cuda(run) else (run.cost.cpu_hours, "CPU core")
    return f"about {in_words(hours)} on one {device}"
