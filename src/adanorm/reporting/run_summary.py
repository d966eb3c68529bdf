"""What a run came to, with its cell and the paper's number."""

import textwrap

from adanorm.config.compose import papers_sources
from adanorm.config.experiment import Experiment
from adanorm.records import reader
from adanorm.records.folder import shown, where
from adanorm.records.published import published
from adanorm.records.result import outcome
from adanorm.verdicts.cell import cell, evidence, unlike_the_papers


def run_summary(experiment: Experiment) -> str:
    """Return what a run came to, the mean over the seeds made, and the paper's number, in lines.

    Of a dry run: its updates, memory and seconds. Raises ValueError for a record that is not counted.
    """
    name = f"{experiment.task.name} {experiment.norm.name} {experiment.scale}"
    is_dry = experiment.updates is not None
    result = reader.result(experiment.folder(), dry_run=is_dry)
    if result is None:
        raise ValueError(f"{where(experiment.folder())}: the run has ended, but its record is not counted")
    if result.dry_run is not None:
        return (
            f"{name}: dry run of {result.steps} updates, {result.parameters:,} parameters, peak memory"
            f" {result.dry_run['peak_memory'] / 1e9:.1f} GB, {result.seconds:.0f} s; no table reads it"
            f"\nrecord: {shown(experiment.folder())}"
        )
    runs = [run for run in reader.runs_on_record(experiment) if reader.result(run.folder()) is not None]
    seeds, ours = ", ".join(str(run.seed) for run in runs), cell(runs)
    lines = [f"{name} seed {experiment.seed}: {outcome(experiment.task, result)}"]
    mean = f"over seeds {seeds}: {ours.text} (test {ours.metric})"
    lines += textwrap.wrap(mean, 80, subsequent_indent="  ")
    if not experiment.own_data and experiment.data.source not in papers_sources(experiment.task.name):
        lines.append(f"data: {experiment.data.source}, not the paper's")
    if ours.paper is not None:
        records = evidence(experiment.task.name, experiment.scale, runs=experiment.runs)
        lines.append(f"the paper has {ours.paper.text}: {ours.verdict(records.variance.within)}")
    elif not experiment.own_data and published(experiment.task.name, experiment.norm.name):
        lines.append(f"not compared with the paper's number: {unlike_the_papers(experiment)}")
    return "\n".join([*lines, f"record: {where(experiment.folder())}"])
