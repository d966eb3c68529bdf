"""Run a recorded experiment again and say whether this machine reproduces the record.

The answer is one of these: reproduced to the bit; reproduced within rounding; another run, but
within the spread of the seeds on record (with the p-value); open, with fewer than two seeds on
record; or not reproduced (exit code 1). Then it lists how the two environments differ: processor,
instructions, libraries, threads, versions. Without seed= the first seed on record is repeated.
runs= names the folder of the records.
"""

import textwrap

from adanorm.cli.command import WIDTH, Arguments, Key, Usage
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.metrics.table import METRICS, mean_text
from adanorm.records import reader
from adanorm.verdicts.repetition import differences, repetition

USAGE = Usage(
    keys={"into": Key("folder of the repeated run; a second start resumes it", "repeated")},
    settings="of a run",
    examples=("task=mnist scale=mini", "task=rt norm=layernorm seed=2"),
)


def main(arguments: Arguments) -> int:
    """Repeat the run that the command line names, and say how it compares with its record."""
    recorded = _recorded(arguments.settings)
    before = reader.record(recorded.folder())
    computed = {key: before.environment.get(key) for key in ("precision", "threads")}
    computed["norm.backend"] = before.norm_backend
    keys = {*map(_key, arguments.settings)}
    pinned = [
        f"{key}={value}" for key, value in computed.items() if value is not None and key not in keys
    ]
    settings = [setting for setting in arguments.settings if _key(setting) not in ("seed", "runs")]
    target = [f"seed={recorded.seed}", f"runs={arguments.keys['into']}"]
    repeated = compose_experiment([*settings, *pinned, *target])
    if repeated.folder().resolve() == recorded.folder().resolve():
        raise ValueError(
            f"into={arguments.keys['into']}: is where the record is; name another folder"
        )
    from adanorm.runs.execute import execute

    execute(repeated)
    return _say(recorded, repeated)


def _key(setting: str) -> str:
    return setting.partition("=")[0].lstrip("+")


def _recorded(settings: list[str]) -> Experiment:
    """Return the run on record that settings name; raises ValueError if there is none."""
    query = compose_experiment(settings)
    candidates = [query] if "seed" in map(_key, settings) else reader.runs_on_record(query)
    if run := next((run for run in candidates if reader.is_complete(run.folder())), None):
        return run
    name = f"{query.task.name} {query.norm.name} at scale {query.scale}"
    of_series = [
        query.model_copy(update={"seed": seed}) for seed in (1, *(end + 1 for end in reader.SERIES))
    ]
    if seeds := [str(run.seed) for one in of_series for run in reader.runs_on_record(one)]:
        raise ValueError(
            f"no record of {name} with seed={query.seed}: on record are {', '.join(seeds)}"
        )
    scales = {name.partition("-")[0] for name in reader.names(query.folder().parent)}
    others = (
        f"; of scale {', '.join(sorted(scales))} there are some" if scales - {query.scale} else ""
    )
    raise ValueError(
        f"no record of {name} under these settings{others}; `adanorm list` shows all on record"
    )


def _say(recorded: Experiment, repeated: Experiment) -> int:
    before, after = (reader.record(run.folder()) for run in (recorded, repeated))
    repeat = repetition(before, after)
    metric = METRICS[recorded.task.metric]
    name = f"{recorded.task.name} {recorded.norm.name} {recorded.scale}, seed {recorded.seed}"
    scores = (repeat.recorded, repeat.repeated)
    texts = [
        "no score" if score is None else f"{score:.{metric.decimals(score) + 2}f}"
        for score in scores
    ]
    lines = [f"{name}: test {metric.label} {texts[0]} on record, {texts[1]} here"]
    if len(repeat.seeds) > 1:
        mean = mean_text(repeat.seeds, metric.decimals(repeat.seeds[0]))
        lines.append(f"seeds on record: {len(repeat.seeds)}, {mean}")
    p = "" if repeat.p is None else f", p = {repeat.p:.3f} among the seeds on record"
    verdicts = {
        "within the seeds' spread": f"not the same run, but within the seeds' spread{p}",
        "open": "not the same run, and one seed on record: whether it is within their spread is open",
        "differs": f"not reproduced{p}",
    }
    lines.append(verdicts.get(repeat.agreement, f"reproduced {repeat.agreement}"))
    unlike = differences(before.environment, after.environment)
    lines += ["computed differently:", *unlike] if unlike else ["computed alike"]
    for line in lines:
        print(
            textwrap.fill(
                line, WIDTH, initial_indent="  " * (line in unlike), subsequent_indent="    "
            )
        )
    return int(repeat.agreement == "differs")
