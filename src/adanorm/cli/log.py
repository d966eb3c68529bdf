"""Send finished runs to a tracker, as during training: curves, test scores, configuration.

A run is named as for `open`, a table's cell as for `trace`. The logs lie in OUTPUT/<task>/<norm>/<name>.
"""

from pathlib import Path

from adanorm.cli.command import Arguments, Key, Usage
from adanorm.cli.record_arguments import NAMES, named_runs
from adanorm.config.errors import check_known
from adanorm.config.sections import LoggerConfig
from adanorm.records import loggers

USAGE = Usage(
    name=NAMES,
    keys={
        "logger": Key("wandb or tensorboard"),
        "logger.project": Key("for wandb", "adanorm"),
        "logger.mode": Key("for wandb: offline or online", "offline"),
        "output": Key("folder that the logs go to", "outputs"),
    },
    examples=("rt/adanorm/paper-seed1-09951176 logger=wandb", "table4/AdaNorm/RT logger=tensorboard"),
)


def main(arguments: Arguments) -> None:
    """Log the runs that the command line names."""
    given = arguments.keys
    check_known("logger", [given["logger"]], ("wandb", "tensorboard"))
    of = {"name": given["logger"], "project": given["logger.project"], "mode": given["logger.mode"]}
    loggers.check(logger := LoggerConfig.checked(of, "logger."))
    into = Path(given["output"]).resolve()
    runs = {into.joinpath(*run[0].folder.parts[-3:], logger.name): run for run in named_runs(arguments.names)}
    if there := next((folder for folder in runs if folder.exists()), None):
        raise ValueError(f"{there}: is there already; name another folder with output=")
    for folder, (record, result) in runs.items():
        loggers.send(record, result, logger, folder.parent)
