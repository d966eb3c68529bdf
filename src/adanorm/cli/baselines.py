"""Score trivial baselines on the data of a task, and record them in results/baselines.json.

They need no training: the majority class, frequencies of bytes and 5-grams, the neighboring word as
head, the source as its own translation. Tables mark a run that is no better than the best of them:
it did not learn. Anchors, outside models that do learn, stand beside: naive Bayes, and xz.
"""

from adanorm.cli.command import Arguments, Usage
from adanorm.config.titles import METRICS
from adanorm.records.baselines import PATH, add_baselines
from adanorm.records.folder import path_text
from adanorm.runs.auto_scale import experiment_of

USAGE = Usage(settings="of a run", examples=("task=rt", "task=enwik8 scale=mini"))


def main(arguments: Arguments) -> None:
    """Compute and record the baselines of the data that the command line names."""
    run = experiment_of(arguments.settings, needs_data=True)
    from adanorm import tasks

    task = tasks.build(run)
    scores = {split: task.baselines(split) for split in ("valid", "test")}
    anchors = task.anchors()
    if anchors:
        scores["anchors"] = anchors
    add_baselines(run, scores)
    metric = METRICS[run.task.metric]
    for name, metrics in {**scores["test"], **anchors}.items():
        score = metrics[run.task.metric]
        print(f"{run.task.name} {run.scale}, {name}: test {metric.label} {metric.text(score)}")
    print(path_text(PATH))
