"""Send curves, test scores and configuration of finished runs to a tracker, as training would.

Name a run as for `export`, a table's cell as for `trace`. The logs go to
OUTPUT/<task>/<norm>/<name>.
"""

import shutil
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
    examples=(
        "rt/adanorm/paper-seed1-09951176 logger=wandb",
        "table4/AdaNorm/RT logger=tensorboard",
    ),
)


def main(arguments: Arguments) -> None:
    """Log the runs that the command line names."""
    keys = arguments.keys
    check_known(
        "logger",
        [keys["logger"]],
        ("wandb", "tensorboard"),
    )
    settings = {
        "name": keys["logger"],
        "project": keys["logger.project"],
        "mode": keys["logger.mode"],
    }
    loggers.check(logger := LoggerConfig.checked(settings, "logger."))
    base = Path(keys["output"]).expanduser().resolve()
    runs = {
        base.joinpath(*run[0].folder.parts[-3:], logger.name): run
        for run in named_runs(arguments.names)
    }
    if existing := next((folder for folder in runs if folder.exists()), None):
        raise ValueError(f"{existing}: already exists; name another folder with output=")
    for folder, (record, result) in runs.items():
        try:
            loggers.send(record, result, logger, folder.parent)
        except BaseException:  # the next try finds no part of this one
            shutil.rmtree(folder, ignore_errors=True)
            raise
