"""Download, verify and prepare what a run would need, and print sizes and checksums."""

from adanorm.cli.command import Arguments, Key, Usage, true_or_false
from adanorm.config.compose import compose_experiment
from adanorm.data.catalogue import SOURCES
from adanorm.data.fetch import ask_all, editions_of
from adanorm.runs.auto_scale import experiment_of

USAGE = Usage(
    keys={
        "check": Key(
            "true: ask if each address answers (the task's, or all); download nothing", "false"
        )
    },
    settings="of a run",
    examples=("task=rt", "task=de-en scale=mini", "check=true", "task=en-de check=true"),
)


def main(arguments: Arguments) -> int:
    """Get the data of the task that the command line names, or check their addresses."""
    if true_or_false("check", arguments.keys["check"]):
        return _check(arguments.settings)
    experiment = experiment_of(arguments.settings, needs_data=True)
    from adanorm import tasks

    task = tasks.build(experiment)
    sizes = ", ".join(f"{split} {size:,}" for split, size in task.sizes.items())
    print(f"{experiment.task.name} {experiment.scale}: {sizes}")
    for name, checksum in task.checksums.items():
        print(f"  {name}\n    sha256 {checksum}")
    return 0


def _check(settings: list[str]) -> int:
    """Print which addresses answer; return 1 if a file has no address that answers, else 0."""
    sources = list(SOURCES.values())
    if settings:
        source = compose_experiment(
            [setting for setting in settings if setting != "scale=auto"]
        ).data.source
        if source not in SOURCES:
            print(f"data.source={source}: nothing is downloaded for it")
            return 0
        entry = SOURCES[source]
        same_content = [entry.instead] if entry.instead else []
        named = [SOURCES[name] for name in (*entry.includes, *same_content)]
        sources = [entry, *named, *editions_of(entry)]
    answers = ask_all(sources)
    for path, problems in answers.items():
        print(path)
        for address, problem in problems.items():
            print(f"  ok    {address}" if problem is None else f"  FAIL  {address}: {problem}")
    if missing := [
        path for path, problems in answers.items() if problems and None not in problems.values()
    ]:
        print("no address answers for these: put them into a mirror folder (ADANORM_MIRROR) as")
        print("\n".join(f"  {path}" for path in missing))
    return int(bool(missing))
