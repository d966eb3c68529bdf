"""Train and score one run: `python -m adanorm.run task=rt norm=adanorm seed=2`."""

from __future__ import annotations

import os
import sys

from adanorm import compose
from adanorm.config import CONF, Experiment, parse


def main() -> int:
    """Run the command line; Hydra's own flags (-m, --cfg, --help) work as they do elsewhere."""
    arguments = compose.prepare(sys.argv[1:])
    if "scale=auto" in arguments:
        from adanorm.scale import resolve_auto

        arguments = resolve_auto(arguments)
    if not any(argument.startswith("-") for argument in arguments):
        execute(compose.experiment(arguments))
        return 0
    import hydra
    from omegaconf import DictConfig

    @hydra.main(config_path=str(CONF), config_name="run", version_base="1.3")
    def job(config: DictConfig) -> float | None:
        return execute(parse(config))

    sys.argv[1:] = arguments
    job()
    return 0


def execute(experiment: Experiment) -> float | None:
    """Return the best validation score of a run, made now unless it has been made before.

    None where the run diverged. Raises ValueError, before any work, for what the user can mend;
    whatever breaks in training is recorded as `failed` and raised.
    """
    from adanorm.records import reader
    from adanorm.records.folder import shown
    from adanorm.reporting import cells

    folder = experiment.folder()
    if not reader.is_made(folder):
        from adanorm.execution import make

        make(experiment)
    else:
        print(f"made before: {shown(folder)} (runs=FOLDER makes it anew, in a folder of your own)")
    if os.environ.get("RANK", "0") == "0":
        print(cells.beside_the_paper(experiment), flush=True)
    result = reader.result(folder)
    assert result is not None, "a run that was made has a result"
    score: float | None = (result["valid"] or {}).get(experiment.task.criterion)
    return score


if __name__ == "__main__":
    compose.door(main)
