"""Run a recorded experiment again and say whether this machine reproduces the record.

The answer is one of these: reproduced to the bit; reproduced within rounding; another run, but
within the spread of the seeds on record (with the p-value); open, with fewer than two seeds on
record; or not reproduced (exit code 1). Then it lists how the two environments differ: processor,
instructions, libraries, threads, versions, code. Where the version of our numerics differs, it says
before the run that only statistical agreement is possible. Without seed= the first seed on
record is repeated. runs= names the folder of the records.
"""

import textwrap

from adanorm.cli.command import WIDTH, Arguments, Key, Usage, folder_of, show
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.paths import RUNS
from adanorm.config.sections import SERIES
from adanorm.config.titles import METRICS, mean_text
from adanorm.records import reader
from adanorm.verdicts.repetition import differences, repetition

USAGE = Usage(
    keys={"into": Key("folder of the repeated run; a second start resumes it", "repeated")},
    settings="of a run",
    examples=("task=mnist scale=mini", "task=rt norm=layernorm-simple seed=46"),
)


def main(arguments: Arguments) -> int:
    """Repeat the run that the command line names, and say how it compares with its record."""
    recorded = _recorded(arguments.settings)
    before = reader.record(recorded.folder())
    computed = {key: before.environment.get(key) for key in ("precision", "threads")}
    computed["norm.backend"] = before.norm_backend
    keys = {*map(_key, arguments.settings)}
    settings = [entry for entry in arguments.settings if _key(entry) not in ("seed", "runs")]
    for key, value in computed.items():
        if value is not None and key not in keys:
            settings.append(f"{key}={value}")
    into = folder_of(arguments.keys["into"]) or str(RUNS)
    repeated = compose_experiment([*settings, f"seed={recorded.seed}", f"runs={into}"])
    if repeated.folder().resolve() == recorded.folder().resolve():
        raise ValueError(f"into={into}: is where the record is; name another folder")
    from adanorm.runs.execute import execute

    _say_if_other_numerics(before, repeated)
    execute(repeated)
    return _report(
        recorded,
        before,
        reader.record(repeated.folder()),
    )


def _say_if_other_numerics(before: reader.Record, repeated: Experiment) -> None:
    """Print, before any work, that another version of our numerics cannot give the same bits."""
    from adanorm.records.environment import numerics_version
    from adanorm.runs.execute import choose_device

    recorded = before.environment.get("numerics_version", 1)
    here = numerics_version(
        repeated.norm.name,
        repeated.model.name,
        choose_device(repeated),
    )
    if recorded != here:
        show(
            f"numerics version {recorded} on record, {here} here: the runs cannot agree to the bit;"
            " only statistical agreement is possible, as between two seeds"
        )


def _key(setting: str) -> str:
    return setting.partition("=")[0].lstrip("+")


def _recorded(settings: list[str]) -> Experiment:
    """Return the run on record that settings name; raises ValueError if there is none."""
    query = compose_experiment(settings)
    candidates = [query]
    if "seed" not in map(_key, settings):
        candidates = reader.runs_on_record(query)
    for run in candidates:
        if reader.is_complete(run.folder()):
            return run
    name = f"{query.task.name} {query.norm.name} at scale {query.scale}"
    seeds = []
    for first_seed in (1, *(end + 1 for end in SERIES)):
        first = query.model_copy(update={"seed": first_seed})
        seeds += [str(run.seed) for run in reader.runs_on_record(first)]
    if seeds:
        known = ", ".join(seeds)
        raise ValueError(f"no record of {name} with seed={query.seed}: on record are {known}")
    scales = {entry.partition("-")[0] for entry in reader.names(query.folder().parent)}
    hint = ""
    if scales - {query.scale}:
        hint = f"; of scale {', '.join(sorted(scales))} there are some"
    raise ValueError(
        f"no record of {name} under these settings{hint}; `adanorm list` shows all on record"
    )


def _report(recorded: Experiment, before: reader.Record, after: reader.Record) -> int:
    """Print how the repeated run compares; return 1 if it is not reproduced, else 0."""
    repeat = repetition(before, after)
    metric = METRICS[recorded.task.metric]
    texts = []
    for score in (repeat.recorded, repeat.repeated):
        decimals = 0 if score is None else metric.decimals(score) + 2
        texts.append("no score" if score is None else f"{score:.{decimals}f}")
    name = f"{recorded.task.name} {recorded.norm.name} {recorded.scale}, seed {recorded.seed}"
    lines = [f"{name}: test {metric.label} {texts[0]} on record, {texts[1]} here"]
    if len(repeat.seeds) > 1:
        mean = mean_text(repeat.seeds, metric.decimals(repeat.seeds[0]))
        lines.append(f"seeds on record: {len(repeat.seeds)}, {mean}")
    p = "" if repeat.p is None else f", p = {repeat.p:.3f} among the seeds on record"
    is_open = "one seed on record: whether it is within their spread is open"
    if repeat.recorded is None:
        is_open = "neither has a score"
    answers = {
        "within the seeds' spread": f"not the same run, but within the seeds' spread{p}",
        "open": f"not the same run, and {is_open}",
        "differs": f"not reproduced{p}",
    }
    lines.append(answers.get(repeat.agreement, f"reproduced {repeat.agreement}"))
    unlike = differences(before.environment, after.environment)
    lines.append("computed differently:" if unlike else "computed alike")
    for line in lines:
        show(line, 4)
    for line in unlike:
        print(
            textwrap.fill(
                line,
                WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
            )
        )
    return int(repeat.agreement == "differs")
