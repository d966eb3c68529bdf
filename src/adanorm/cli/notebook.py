"""Write a notebook that trains a task with a norm on a borrowed GPU, such as a free one in the cloud.

The notebook clones and installs this commit, and estimates the hours. It keeps checkpoints in a
folder that survives the session, and resumes when it is started again. Its last cell runs `adanorm
contribute`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from adanorm.cli.command import Arguments, Key, Usage, seed_list
from adanorm.cli.text_arguments import check_output
from adanorm.config.compose import compose_experiment
from adanorm.config.experiment import Experiment
from adanorm.config.overrides import LOCATIONS
from adanorm.config.paths import PACKAGE, PROJECT, choices
from adanorm.config.titles import counted, title
from adanorm.files import as_json, write_files
from adanorm.records.environment import address, commit, is_dirty, is_published
from adanorm.records.folder import path_text

USAGE = Usage(
    keys={
        "seeds": Key("such as 1,2,3", "1", also=("seed",)),
        "repo": Key("address to clone (default: where this checkout was cloned from)"),
        "output": Key("file to write (default: in outputs/)"),
    },
    settings="of a run (scale is paper by default)",
    examples=(
        "task=de-en norm=adanorm seeds=1,2",
        "task=en-vi norm=layernorm repo=https://forge/adanorm",
    ),
)
CELLS = PACKAGE / "launch" / "notebook_cells.py"
# Colab starts with a GPU.
METADATA = {"accelerator": "GPU", "kernelspec": {"display_name": "Python 3", "name": "python3"}}


def main(arguments: Arguments) -> None:
    """Write the notebook, and say what may keep it from working elsewhere."""
    keys, settings = arguments.keys, arguments.settings
    if not any(setting.startswith("scale=") for setting in settings):
        settings = [*settings, "scale=paper"]
    seeds = seed_list(keys["seeds"])
    check_output(keys["output"])
    run = [_checked([*settings, f"seed={seed}"]) for seed in seeds][-1]
    from adanorm.runs.duration import needs_gpu

    if needs_gpu(run) and run.device == "auto":
        settings = [*settings, "device=cuda"]
    repo, sha = keys["repo"] or address() or str(PROJECT), commit()
    if sha is None:
        raise ValueError(
            "a notebook clones a commit of the suite: write it from a checkout with git"
        )
    if Path(repo).is_dir():
        repo = str(Path(repo).resolve())
    name = f"adanorm-{run.task.name}-{run.norm.name}-{run.scale}"
    constants = {"REPO": repo, "COMMIT": sha, "NAME": name, "RUN": settings, "SEEDS": seeds}
    seed_words = f"{'seeds' if seeds[1:] else 'seed'} {', '.join(map(str, seeds))}"
    words = {
        "title": f"{title(run.norm.name)} on {title(run.task.name)}, {seed_words}",
        "scale": run.scale,
    }
    cells = [*_cells(constants, words | {"runs": counted(len(seeds), "run")})]
    path = Path(keys["output"] or PROJECT / "outputs" / f"{name}.ipynb")
    notebook = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    write_files(path.parent, {path.name: as_json(notebook)})
    print(f"{path_text(path)}: {words['title']}; clones {repo} at {sha[:8]}")
    if "://" not in repo:
        print(
            f"note: {repo} is a folder of this machine; repo=ADDRESS names what another machine can clone"
        )
    elif is_dirty() or not is_published():
        print(
            f"note: the notebook clones what is pushed; {sha[:8]} or changes since are not pushed"
        )


def _checked(overrides: Sequence[str]) -> Experiment:
    """Return the experiment; raises ValueError if it is invalid, or needs what only this machine has."""
    local = [text for text in overrides if text.partition("=")[0].lstrip("+") in LOCATIONS]
    experiment = compose_experiment(overrides)
    if experiment.updates is not None:
        raise ValueError(
            f"updates={experiment.updates}: a dry run leaves no file to send back; leave it out"
        )
    if experiment.data.lacks():
        raise ValueError(
            f"task={experiment.task.name}: its data are licensed: no notebook can get them"
        )
    if experiment.norm.name not in choices("norm"):
        local = [f"norm={experiment.norm.path or experiment.norm.name}"]
    if local:
        raise ValueError(
            f"{local[0]}: is on this machine alone; the notebook clones the suite elsewhere"
        )
    from adanorm.models.norm_sites import compatible_norm

    compatible_norm(experiment)
    return experiment


def _cells(constants: Mapping[str, Any], words: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the notebook's cells; `words` replace the placeholders in their texts, such as $title."""
    for number, cell in enumerate(CELLS.read_text("utf-8").split("\n# %%")[1:]):
        kind, _, text = cell.partition("\n")
        common = {"id": f"cell-{number}", "metadata": {}}
        if kind.strip() == "[markdown]":
            lines = (line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
            yield {
                "cell_type": "markdown",
                **common,
                "source": Template("\n".join(lines)).substitute(words),
            }
            continue
        if kind.strip() == "settings":
            text = "\n".join(f"{name} = {value!r}" for name, value in constants.items())
        yield {
            "cell_type": "code",
            **common,
            "source": text,
            "execution_count": None,
            "outputs": [],
        }
