"""A dry run: the whole model at the paper's size on made-up data of full shape, in a record nobody counts."""

from pathlib import Path

import pytest

from adanorm.cli.run import run_summary
from adanorm.config.compose import cached_experiment
from adanorm.config.data_sections import ParallelConfig
from adanorm.config.experiment import Experiment
from adanorm.data import synthetic
from adanorm.records import reader
from adanorm.runs.execute import execute
from adanorm.verdicts.cell import cell

TASKS = ("mnist", "rt", "sst5", "de-en", "en-de", "en-vi", "enwik8", "ptb")


def dry(task: str, runs: Path | None = None) -> Experiment:
    overrides = [f"task={task}", "norm=adanorm", "updates=2", "device=cpu"]
    return cached_experiment(overrides, runs=None if runs is None else str(runs))


@pytest.mark.parametrize("task", ["mnist", "ptb"])
def test_the_whole_model_trains_two_updates_and_is_counted_nowhere(
    tmp_path: Path, task: str
) -> None:
    run = dry(task, tmp_path)
    execute(run)
    result = reader.result(run.folder(), dry_run=True)
    assert result is not None
    assert (result.status, result.steps) == ("done", 2)
    assert (result.dry_run or {})["peak_memory"] > 1e8
    assert "no table reads it" in run_summary(run)
    # Readers that count runs do not see it.
    assert reader.result(run.folder()) is None
    assert cell([run]).text == "-"
    renamed = run.folder().rename(run.folder().with_name(run.folder().name.removeprefix("dry-")))
    with pytest.warns(UserWarning, match="is not of this run"):
        assert reader.result(renamed, dry_run=True) is None


@pytest.mark.parametrize("task", TASKS)
def test_a_dry_run_keeps_model_and_batches_and_is_another_run(task: str) -> None:
    run, whole = dry(task), cached_experiment([f"task={task}", "norm=adanorm"])
    assert run.model == whole.model
    for key in ("batch_tokens", "batch_size", "streams"):
        assert getattr(run.data, key, None) == getattr(whole.data, key, None)
    assert run.digest != whole.digest


def test_pairs_of_a_dry_run_fill_a_whole_dictionary_and_the_batches_of_its_updates() -> None:
    data = dry("en-de").data
    assert isinstance(data, ParallelConfig)
    assert data.dictionary_size == 32768
    source, target = synthetic.full_size_pairs(data)["train"]
    assert len({word for line in source for word in line.split()}) > 0.99 * 32764
    assert sum(len(line.split()) for line in target) > 2 * 2 * data.batch_tokens
